"""The table of lessons in tests/README.md names tests that are there."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_every_test_that_the_table_of_lessons_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (TESTS / "README.md").read_text()))
    there = {name for file in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())}
    assert len(named) > 30
    assert named - there == set()


def test_no_page_holds_a_placeholder() -> None:
    pages = [TESTS.parent / "README.md", TESTS.parent / "CHANGELOG.md", *TESTS.parent.glob("swarm/**/*.md")]
    assert len(pages) > 4
    assert [page for page in pages if "@@" in page.read_text()] == []
