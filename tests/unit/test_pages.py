"""The README and the pages of docs/: commands that are typed as they stand there work, and links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from swarm.cli.main import add_plugins, app
from tests.generate import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)")

add_plugins([])


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def commands() -> list[tuple[str, str]]:
    texts = {_name(page): page.read_text("utf-8") for page in PAGES}
    blocks = [
        (name, block) for name, text in texts.items() for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    ]
    lines = [(name, line) for name, block in blocks for line in block.splitlines()]
    return [(name, line) for name, line in lines if re.match(r"(\w+=\S+ )*swarm ", line)]


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_command_of_a_page_is_one_that_swarm_takes(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)
    app.parse_args(words[words.index("swarm") + 1 :], exit_on_error=False, print_error=False)


@pytest.mark.parametrize("page", [*PAGES, *(ROOT / "swarm" / "wire").glob("*.md")], ids=lambda page: _name(page))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor[1:] in anchors(file), f"{target}{anchor}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_read_in_ten_minutes_and_has_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.split()) <= 900
    assert "make up " in text
    assert "make test " in text


def test_every_page_can_be_reached_from_the_readme_by_links() -> None:
    reached, found = set[Path](), [ROOT / "README.md"]
    while found:
        page = found.pop()
        if page.suffix == ".md" and page not in reached:
            reached.add(page)
            found += [(page.parent / target).resolve() for target, _ in LINK.findall(page.read_text("utf-8")) if target]
    assert set(PAGES) - reached == set()
