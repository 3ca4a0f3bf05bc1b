"""What a stranger puts into a study's folder is refused or stepped around: nothing hangs, swells or is followed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from subprocess import Popen

import anyio
import msgspec
import pytest

from swarm.errors import ProtocolError, StoreError
from swarm.plugins.study.cli.study_running import say_failed
from swarm.plugins.study.record import read_study, study_folder
from swarm.plugins.study.run import launch
from swarm.plugins.study.run.run_folder import RunProgress
from swarm.plugins.study.run.runner import RunView, StudyView, alone
from swarm.plugins.study.run.schedule import RunState
from swarm.wire.codec import encode
from tests.objects import KINDS, bounded, put
from tests.plugins.study.run.test_runner import ALL, JUDGE, fate, make_record, make_runner, ran, states
from tests.plugins.study.study_files import log_file

pytestmark = pytest.mark.usefixtures("light_swarms")


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_for_a_lock_is_refused_at_once_and_a_lock_is_a_file_with_anything_in_it(
    tmp_path: Path, outside: Path, kind: str
) -> None:
    put(kind, study_folder(tmp_path, "m") / ".lock", outside)
    refused = nullcontext() if kind in ("sparse terabyte", "file") else pytest.raises(StoreError, match="cannot write")
    with bounded(), refused, alone(tmp_path, "m"):
        assert isinstance(refused, nullcontext), "it was taken for a lock"
    assert (outside / "precious").read_bytes() == b"precious\n"


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_for_the_log_of_a_run_keeps_no_run_from_its_rounds(tmp_path: Path, outside: Path, kind: str) -> None:
    put(kind, log_file(tmp_path, "m", "m-a-s1"), outside)
    with bounded():
        view = ran(tmp_path, record=make_record(configurations="a"))
    assert set(states(view).values()) == {RunState.FINISHED}
    with log_file(tmp_path, "m", "m-a-s1").open("rb") as log:
        log.seek(-18, os.SEEK_END)
        assert log.read() == b"one round is done\n"
    assert (outside / "precious").read_bytes() == b"precious\n"


@pytest.mark.parametrize("kind", ["fifo", "file", "link to a file"])
def test_an_object_for_the_folder_of_the_logs_fails_runs_and_says_why(tmp_path: Path, outside: Path, kind: str) -> None:
    put(kind, study_folder(tmp_path, "m") / "logs", outside)
    with bounded():
        view = ran(tmp_path, record=make_record(configurations="a"))
    assert set(states(view).values()) == {RunState.FAILED}
    assert all("cannot write" in run.problem and "logs" in run.problem for run in view.runs)


def test_a_judge_that_cannot_be_started_is_started_when_it_can_be(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger swaps the folder of the logs between the start of a swarm and that of its judge."""
    logs, started = study_folder(tmp_path, "m") / "logs", list[Popen[bytes]]()
    start: Callable[..., Popen[bytes]] = launch.start_with_us

    def start_and_swap(*given: object) -> Popen[bytes]:
        started.append(start(*given))
        if len(started) == 1:
            put("link to a file", logs, outside)
        return started[-1]

    said = set[str]()

    def watch(view: StudyView) -> None:
        if (problem := view.runs[0].problem) and logs.is_symlink():
            said.add(problem)
            logs.unlink()

    monkeypatch.setattr(launch, "start_with_us", start_and_swap)
    monkeypatch.setattr(launch, "JUDGE", (sys.executable, "-c", JUDGE))
    for experiment in ALL[:2]:
        fate(tmp_path, experiment, "judged")
    record = make_record()
    record = msgspec.structs.replace(record, judged=True, runs=record.runs[:2])
    view = anyio.run(make_runner(tmp_path, record, jobs=1).run, watch)
    assert len(said) == 1
    assert "its judge could not be started: cannot write" in said.pop()
    assert [(run.state, run.problem) for run in view.runs] == [(RunState.FINISHED, "")] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_of_a_log_that_is_no_log_any_more_is_shown_or_left_out(
    tmp_path: Path, outside: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    record = make_record(configurations="b")
    failed = RunView(record.runs[0], RunState.FAILED, RunProgress(), "exit code 1")
    put(kind, log_file(tmp_path, "m", "m-b-s1"), outside)
    with bounded():
        assert say_failed(StudyView(record, (failed,), None), tmp_path) == 1
    said = capsys.readouterr().out
    assert "m-b-s1 failed: exit code 1; the end of" in said
    assert "precious" not in said or kind == "hard link"
    assert ("junk" in said) == (kind == "file")


@pytest.mark.parametrize("name", ["../../outside", "/etc", "..", "a/b", ".hidden", "name\n"])
def test_a_record_that_names_something_outside_the_shared_folder_is_refused(tmp_path: Path, name: str) -> None:
    record = make_record()
    (run, *_) = record.runs
    for tampered in (
        msgspec.structs.replace(record, study=name),
        msgspec.structs.replace(record, runs=(msgspec.structs.replace(run, experiment=name),)),
    ):
        file = study_folder(tmp_path, "m") / "study.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode(tampered))
        with pytest.raises(ProtocolError, match="malformed"):
            read_study(tmp_path, "m")
