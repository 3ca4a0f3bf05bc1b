"""Studies are known through plugins alone: what the core says where none reads them, or one that dangles."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm import entry_points
from swarm.cli.main import run
from swarm.store.place import open_place
from swarm.views import studies
from swarm.web.place_list import place_document
from tests.distributions import install
from tests.unit.views.factories import make_experiment

READER = """
from swarm.views.studies import StudyContents

def names(place): return ["mine"]
def contents(place, study): return StudyContents("Mine", 3, ("a",), (("a", "exp"),))
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place with an experiment, seen by a process that has looked for no reader yet."""
    monkeypatch.setenv("SWARM_PATH", str(tmp_path / "place"))
    monkeypatch.setattr(entry_points, "bundled", lambda group: {})
    studies._readers.cache_clear()
    make_experiment(tmp_path / "place")
    monkeypatch.setattr("swarm.cli.experiment.live_nodes", lambda *_: [])
    return tmp_path / "place"


@pytest.fixture(autouse=True)
def _forgotten() -> object:
    yield
    studies._readers.cache_clear()


def test_without_a_reader_a_place_has_no_studies(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry_points, "found", lambda group: {})
    assert place_document(open_place(place), place)["studies"] == []
    assert run(["export", "exp", "--study", "mine"]) == 2
    assert run(["export", "--study", "mine"]) == 2
    assert run(["judge", "exam", "--study", "mine"]) == 2
    assert capsys.readouterr().err.count("no plugin that reads studies is installed (docs/plugins.md)") == 2
    assert run(["experiment", "clean", "exp", "--yes"]) == 0
    assert "lack it" not in capsys.readouterr().out


def test_anybodys_reader_is_asked_and_one_that_dangles_is_said_once(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = {"swarm.report": {"gone": "no_such_reader", "theirs": "their_reader"}}
    monkeypatch.syspath_prepend(install(tmp_path / "site", "theirs", groups, their_reader=READER))
    assert [found["title"] for found in place_document(open_place(place), place)["studies"]] == ["Mine"]
    assert run(["experiment", "clean", "exp", "--yes"]) == 0
    said = capsys.readouterr()
    assert "exp is a run of the study mine, which will lack it" in said.out
    assert said.err.count("gone (swarm.report) of theirs cannot be had") == 1
