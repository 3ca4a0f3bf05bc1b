"""No view prints what a terminal or a reader of JSON would obey, whatever field a stranger wrote it into."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from swarm.cli.main import run
from swarm.harmless import printable_lines
from tests.unit.web.nasty import ROUND, WORD, make_nasty, texts_of

VIEWS = [
    *(["status"], ["status", "--json"], ["summary"], ["summary", "--json"], ["validate"], ["validate", "--json"]),
    *(["logs"], ["logs", "--json"], ["logs", "--output", "wide"], ["doctor"], ["doctor", "--json"], ["top", "--once"]),
    *(["inspect", "--round", f"{ROUND}"], ["inspect", "--output", "json"], ["experiment", "list"]),
]


@pytest.mark.parametrize("view", VIEWS, ids=" ".join)
def test_a_view_prints_nothing_that_a_terminal_obeys(
    tmp_path: Path, view: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    make_nasty(tmp_path)
    of_one = [] if view[0] == "experiment" else ["--experiment", "exp"]
    run([*view, "--path", str(tmp_path), *of_one])
    said = "".join(capfd.readouterr())
    assert said
    assert printable_lines(said) == said


def test_there_is_something_to_find(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_nasty(tmp_path)
    assert run(["status", "--json", "--path", str(tmp_path), "--experiment", "exp"]) == 0
    found = msgspec.json.decode(capfd.readouterr().out)
    assert any(WORD in text for text in texts_of(found))
