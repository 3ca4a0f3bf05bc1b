"""`swarm copy`: what it refuses, what it says, and when following ends."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from swarm.cli.main import run
from swarm.wire.messages import ExperimentFile
from tests.layout import Layout
from tests.unit.views.factories import make_experiment, set_clock, write


def made(layout: Layout, created_at: float) -> Layout:
    for checkpoint in layout.checkpoints.glob("round_*/*"):
        (checkpoint / "state.json").write_bytes(b"{}")
    file = ExperimentFile(experiment_name="exp", created_at=created_at, created_by="clock", identity={})
    write(layout.experiment_file, file)
    return layout


def copied(*words: str) -> int:
    return run(["copy", *words, "--experiment", "exp"])


@pytest.mark.parametrize("follow", [(), ("--follow", "--every", "0.01")])
def test_a_finished_experiment_is_copied_and_following_it_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], follow: tuple[str, ...]
) -> None:
    made(make_experiment(tmp_path / "a"), 1.0)
    assert copied(str(tmp_path / "a"), str(tmp_path / "b"), *follow) == 0
    said = capsys.readouterr().out
    assert "copied 23 files, 1 checkpoint, 18 records" in said
    assert "the copy is whole" in said
    assert run(["validate", "--path", str(tmp_path / "b"), "--experiment", "exp"]) == 0
    assert copied(str(tmp_path / "a"), str(tmp_path / "b")) == 0
    assert "copied" not in capsys.readouterr().out.replace("copying", "")


def test_another_experiment_of_that_name_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(make_experiment(tmp_path / "a"), 1.0)
    there = made(make_experiment(tmp_path / "b", rounds=1), 2.0)
    before = msgspec.json.encode(sorted(str(path) for path in there.root.rglob("*")))
    assert copied(str(tmp_path / "a"), str(tmp_path / "b")) == 2
    assert "is another experiment, which stays" in capsys.readouterr().err
    assert msgspec.json.encode(sorted(str(path) for path in there.root.rglob("*"))) == before


def test_one_place_twice_and_no_such_experiment_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_experiment(tmp_path)
    assert copied(str(tmp_path), str(tmp_path)) == 2
    assert "expected two places" in capsys.readouterr().err
    assert run(["copy", str(tmp_path), str(tmp_path / "b"), "--experiment", "nope"]) == 2
    assert "no experiment 'nope'" in capsys.readouterr().err


def test_a_place_that_fails_for_a_while_is_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_experiment(tmp_path / "a")
    set_clock(source, 3, max_rounds=3, finished=False)
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        away, peers = tmp_path / "away", source.peers
        if len(waited) == 1:
            peers.rename(away)
            peers.write_bytes(b"what lies in the way")
        elif len(waited) == 3:
            peers.unlink()
            away.rename(peers)
            set_clock(source, 3, max_rounds=3, finished=True)

    monkeypatch.setattr("swarm.cli.copying.time.sleep", sleep)
    assert copied(str(tmp_path / "a"), str(tmp_path / "b"), "--follow", "--every", "2") == 0
    assert waited[:3] == [2.0, 2.0, 4.0]
    assert "trying again in 2 s" in capsys.readouterr().err
    assert run(["validate", "--path", str(tmp_path / "b"), "--experiment", "exp"]) == 0
