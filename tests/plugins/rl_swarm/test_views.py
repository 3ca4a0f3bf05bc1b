"""What every command says of a run that rl-swarm made."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from swarm.cli.main import run

FIXTURE = Path(__file__).parents[2] / "fixtures" / "rl_swarm_run"
Captured = pytest.CaptureFixture[str]


pytestmark = pytest.mark.usefixtures("no_settings_from_outside")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURE, tmp_path / "place"))


def digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(str(path).encode() + path.read_bytes() for path in files)).hexdigest()


def said(capsys: Captured, *words: str, code: int = 0) -> str:
    assert run(list(words)) == code
    found = capsys.readouterr()
    return found.out + found.err


def test_every_view_says_who_made_it_and_writes_nothing(place: Path, capsys: Captured) -> None:
    before = digest(place)
    at = ("--path", str(place), "--experiment", "two_workers")
    listed = said(capsys, "experiment", "list", "--path", str(place)).splitlines()
    assert [line.split()[-1] for line in listed[1:]] == ["rl-swarm", "rl-swarm"]
    assert "torn" not in "".join(listed)
    for command in ("status", "summary", "validate"):
        assert "made by rl-swarm" in said(capsys, command, *at)
    logs = said(capsys, "logs", *at, "--metrics")
    assert "node.finished" in logs
    assert "my_reward=0.171875" in logs
    assert digest(place) == before


def test_a_summary_shows_means_and_a_dash_for_what_nobody_recorded(place: Path, capsys: Captured) -> None:
    text = said(capsys, "summary", "--path", str(place), "--experiment", "two_workers")
    assert "mean reward            0.299   0.095       0.32x" in text
    assert "tagged                     -       -           -" in text
    assert "external groups   -" in text
    found = json.loads(said(capsys, "summary", "--path", str(place), "--experiment", "two_workers", "--json"))
    assert (found["made_by"], found["external_groups"], found["tagged"]["last"]) == ("rl-swarm", None, None)
    for node in ("node_1", "node_2"):
        (place / f"experiments/early/logs/{node}/metrics.json").unlink()
    text = said(capsys, "summary", "--path", str(place), "--experiment", "early")
    assert "left no reward of any round" in text


def test_no_node_starts_in_it(place: Path, capsys: Captured) -> None:
    before = digest(place)
    for command in (
        ["node", "--role", "coordinator"],
        ["node", "--node-id", "anna"],
        ["node", "--nodes", "2"],
        ["up", "--nodes", "2"],
        ["judge", "run"],
    ):
        text = said(capsys, *command, "--path", str(place), "--experiment", "early", code=2)
        assert "made by rl-swarm" in text
        assert "Choose another --experiment" in text
    assert "made by rl-swarm" in said(capsys, "join", str(place), "--experiment", "early", code=2)
    assert digest(place) == before


def test_a_comparison_has_no_sum_of_what_nobody_recorded(place: Path, capsys: Captured) -> None:
    pytest.importorskip("scipy")
    shutil.copytree(place / "experiments" / "two_workers", place / "experiments" / "again")
    lines = said(capsys, "study", "compare", "two_workers", "again", "--path", str(place)).splitlines()
    figures = {line[:18].strip(): line.split()[-4:-2] for line in lines}
    assert figures["cumulative reward"] == ["1.58", "1.58"]
    assert not {"tokens generated", "cumulative tagged", "external groups", "bytes fetched"} & figures.keys()
