"""No view prints what a terminal or a reader of JSON would obey, whatever field a stranger wrote it into."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from swarm.cli.main import run
from swarm.harmless import printable_lines
from tests.unit.web.nasty import ROUND, WORD, make_nasty

VIEWS = [
    *(["status"], ["status", "--json"], ["summary"], ["summary", "--json"], ["validate"], ["validate", "--json"]),
    *(
        ["logs"],
        ["logs", "--json"],
        ["logs", "--output", "wide"],
        ["doctor", "--seconds", "0.01"],
        ["doctor", "--json", "--seconds", "0.01"],
    ),
    *(["inspect", "--round", f"{ROUND}"], ["inspect", "--output", "json"], ["experiment", "list"]),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nasty")
    make_nasty(folder)
    return folder


@pytest.mark.parametrize("view", VIEWS, ids=" ".join)
def test_a_view_prints_nothing_that_a_terminal_obeys(
    place: Path, view: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    of_one = [] if view[0] == "experiment" else ["--experiment", "exp"]
    run([*view, "--path", str(place), *of_one])
    said = "".join(capfd.readouterr())
    assert WORD in said or view[0] in ("doctor", "validate", "experiment", "summary"), "there is something to find"
    assert printable_lines(said) == said
