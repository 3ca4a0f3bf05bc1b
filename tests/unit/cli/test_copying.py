"""`swarm copy`: what it refuses, what it says, and when following ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from swarm.cli import copying
from swarm.records.copying import Copied, ToDo
from swarm.wire.messages import ExperimentFile
from tests.integration.swarms import eventually, json_lines
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.cli.conftest import Typed
from tests.unit.views.factories import make_experiment, make_round, set_clock, write


def made(layout: Layout, created_at: float) -> Layout:
    for checkpoint in layout.checkpoints.glob("round_*/*"):
        (checkpoint / "state.json").write_bytes(b"{}")
    file = ExperimentFile(experiment_name="exp", created_at=created_at, created_by="clock", identity={})
    write(layout.experiment_file, file)
    return layout


@pytest.fixture
def copied(typed: Typed, tmp_path: Path) -> Typed:
    return partial(typed, "copy", tmp_path / "a", tmp_path / "b", "--experiment", "exp")


@pytest.mark.parametrize("follow", [(), ("--follow", "--every", "0.01")])
def test_a_finished_experiment_is_copied_and_following_it_ends(
    tmp_path: Path, copied: Typed, typed: Typed, follow: tuple[str, ...]
) -> None:
    made(make_experiment(tmp_path / "a"), 1.0)
    said = copied(*follow).out
    assert "copied 23 files, 1 checkpoint, 18 records" in said
    assert "the copy is whole" in said
    typed("validate", "--path", tmp_path / "b", "--experiment", "exp")
    assert "copied" not in copied().out.replace("copying", "")


def test_another_experiment_of_that_name_stays(tmp_path: Path, copied: Typed) -> None:
    made(make_experiment(tmp_path / "a"), 1.0)
    there = made(make_experiment(tmp_path / "b", rounds=1), 2.0)
    before = sorted(there.root.rglob("*"))
    assert "is another experiment, which stays" in copied(code=2).err
    assert sorted(there.root.rglob("*")) == before


def test_a_place_that_fails_for_a_while_is_tried_again(
    tmp_path: Path, copied: Typed, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_experiment(tmp_path / "a")
    set_clock(source, 3, max_rounds=3, finished=False)
    waited: list[float] = []

    def pause(_: object, seconds: float) -> None:
        waited.append(seconds)
        away, peers = tmp_path / "away", source.peers
        if len(waited) == 1:
            peers.rename(away)
            peers.write_bytes(b"what lies in the way")
        elif len(waited) == 3:
            peers.unlink()
            away.rename(peers)
            set_clock(source, 3, max_rounds=3, finished=True)

    monkeypatch.setattr("swarm.cli.processes.EndRequest.wait", pause)
    assert "trying again in 2 s" in copied("--follow", "--every", "2").err
    assert waited[:3] == [2.0, 2.0, 4.0]
    typed("validate", "--path", tmp_path / "b", "--experiment", "exp")


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@contextmanager
def follower(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """One that follows a run that goes on, and has copied what there is."""
    if not (tmp_path / "a").exists():
        set_clock(made(make_experiment(tmp_path / "a"), 1.0), 3, max_rounds=9, finished=False)
    command = [sys.executable, "-m", "swarm", "copy", str(tmp_path / "a"), str(tmp_path / "b"), "--experiment", "exp"]
    with subprocess.Popen([*command, "--follow", "--every", "2400"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert any("copying exp" in line for line in process.stdout)
            eventually(lambda: Layout(tmp_path / "b", "exp").state_file.exists(), "the first copy")
            yield process
        finally:
            process.kill()


@pytest.mark.usefixtures("runtime")
def test_one_that_is_asked_to_end_copies_what_is_new_and_ends(tmp_path: Path) -> None:
    with follower(tmp_path) as process:
        make_round(Layout(tmp_path / "a", "exp"), "alice", 3)
        process.terminate()
        said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    assert "the copy is whole" in said
    assert len(json_lines(Layout(tmp_path / "b", "exp").metrics_file("alice"))) == 4


@pytest.mark.usefixtures("runtime")
def test_two_never_copy_into_one_place_who_follows_takes_over(tmp_path: Path, copied: Typed, typed: Typed) -> None:
    there = ("--path", tmp_path / "b", "--experiment", "exp")
    with follower(tmp_path) as first:
        assert f"is being copied into: copy (process {first.pid})" in copied(code=2).err
        assert f"is running: copy (process {first.pid})" in typed("up", *there, "--nodes", "1", code=2).err
        with follower(tmp_path) as second:
            assert first.wait(PATIENCE) == 143
            typed("down", *there)
            assert second.wait(PATIENCE) == 143


def test_a_long_copy_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    moments = iter([0.0, 1.0, 6.0, 6.0, 7.0])
    telling = copying._Telling(lambda: next(moments))
    for files in (1, 20, 21):
        telling(Copied(files=files, bytes=1000 * files), ToDo(40, 40_000))
    assert capsys.readouterr().out == "20 of 40 files, 20 kB of 40 kB\n"
