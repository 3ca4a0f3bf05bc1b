"""`swarm experiment import`, and what every command says of a run that rl-swarm made."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from swarm.cli.main import run
from tests.unit.views.factories import make_experiment

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


def test_an_import_reads_as_its_source_and_leaves_it_as_it_was(place: Path, tmp_path: Path, capsys: Captured) -> None:
    source, before = place / "experiments" / "two_workers", digest(place)
    ours = tmp_path / "ours"
    text = said(capsys, "experiment", "import", str(source), "--as", "taken", "--path", str(ours))
    assert "8 rewards as means per completion" in text
    assert digest(place) == before
    for table in ("metrics", "rewards", "rollouts", "events"):
        tables = [
            said(capsys, "export", name, "--path", str(path), "--table", table, "-o", "-", "--format", "jsonl")
            for name, path in (("two_workers", place), ("taken", ours))
        ]
        assert tables[0].replace('"two_workers"', '"taken"') == tables[1]
        assert len(tables[1].splitlines()) >= 5
    record = json.loads((ours / "experiments/taken/import.json").read_bytes())
    assert record["nodes"]["node_1"]["rewards_from"] == {"stage_reward / num_samples": 4}
    assert "answer_tag_rate" in record["not_recorded"]
    assert "is whole" in said(capsys, "validate", "--path", str(ours), "--experiment", "taken")


def test_no_node_starts_in_it_nor_in_its_import(place: Path, capsys: Captured) -> None:
    said(capsys, "experiment", "import", "early", "--as", "taken", "--path", str(place))
    before = digest(place)
    for name in ("early", "taken"):
        for command in (
            ["node", "--role", "coordinator"],
            ["node", "--node-id", "anna"],
            ["node", "--nodes", "2"],
            ["up", "--nodes", "2"],
            ["judge", "run"],
        ):
            text = said(capsys, *command, "--path", str(place), "--experiment", name, code=2)
            assert "made by rl-swarm" in text
            assert "Choose another --experiment" in text
        assert "made by rl-swarm" in said(capsys, "join", str(place), "--experiment", name, code=2)
    assert digest(place) == before


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["mine"], "was not made by rl-swarm"),
        (["nowhere"], "neither an experiment of"),
        (["early"], "which stays: name another with --as"),
        (["early", "--as", "../out"], "expected a folder name"),
        (["taken", "--as", "again"], "is an import already"),
    ],
)
def test_what_cannot_be_imported_is_refused_with_the_reason(
    place: Path, capsys: Captured, words: list[str], expected: str
) -> None:
    make_experiment(place, name="mine")
    said(capsys, "experiment", "import", "early", "--as", "taken", "--path", str(place))
    before = digest(place)
    assert expected in said(capsys, "experiment", "import", *words, "--path", str(place), code=2)
    assert digest(place) == before


def test_a_comparison_has_no_sum_of_what_nobody_recorded(place: Path, capsys: Captured) -> None:
    pytest.importorskip("scipy")
    said(capsys, "experiment", "import", "two_workers", "--as", "taken", "--path", str(place))
    lines = said(capsys, "study", "compare", "two_workers", "taken", "--path", str(place)).splitlines()
    figures = {line[:18].strip(): line.split()[-4:-2] for line in lines}
    assert figures["cumulative reward"] == ["1.58", "1.58"]
    assert not {"tokens generated", "cumulative tagged", "external groups", "bytes fetched"} & figures.keys()


def test_an_import_takes_no_name_under_which_something_is_archived(place: Path, capsys: Captured) -> None:
    archived = place / "archives" / "copy" / "rollouts" / "round_0-0123456789abcdef.tar.gz"
    archived.parent.mkdir(parents=True)
    archived.write_bytes(b"mine")
    at = ("--as", "copy", "--path", str(place))
    assert "archive" in said(capsys, "experiment", "import", "two_workers", *at, code=2)
    assert archived.read_bytes() == b"mine"
    assert not (place / "experiments" / "copy").exists()
