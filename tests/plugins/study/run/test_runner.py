"""A study with a light program in the place of its swarms: what is started, in which order, and again after what."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
import pytest

from swarm.cli.experiment import live_nodes
from swarm.cli.main import run as swarm
from swarm.errors import StoreError
from swarm.plugins.study.record import ConfigurationRecord, RunFile, StudyRecord, open_run, study_folder
from swarm.plugins.study.run import launch
from swarm.plugins.study.run.launch import Launcher
from swarm.plugins.study.run.run_folder import can_go_on, read_progress
from swarm.plugins.study.run.runner import Runner, StudyView, alone
from swarm.plugins.study.run.schedule import RunState
from swarm.records.reader import RunReader
from swarm.store.run import Run
from tests.integration.swarms import eventually
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.plugins.study.conftest import FAKE
from tests.plugins.study.study_files import log_file, record_file, run_file, study_record

Said = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

STUDY = f"""
import sys
from swarm.plugins.study.run import launch
launch.SWARM = {FAKE!r}
from swarm.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
MATRIX = """
name = "m"
nodes = 2
rounds = 3
seeds = [1]
[settings]
generations = 4
[[configurations]]
name = "a"
[[configurations]]
name = "b"
settings = { external_groups = 2 }
[[configurations]]
name = "c"
"""
ALL = ["m-a-s1", "m-b-s1", "m-c-s1"]


def make_record(rounds: int = 3, configurations: str = "abc") -> StudyRecord:
    ones = (ConfigurationRecord(name=name, settings={"local_groups": 2}) for name in configurations)
    return study_record(*ones, rounds=rounds)


def is_live(run: Run) -> bool:
    return bool(live_nodes(run, time.time(), 15.0))


def make_runner(path: Path, record: StudyRecord | None = None, jobs: int = 2) -> Runner:
    launcher = Launcher(record or make_record(), path, {**os.environ, "SEED": "99"}, {"swarm": "1"})
    return Runner(launcher, jobs, is_live=is_live, monotonic=time.monotonic, wall=time.time)


def ran(path: Path, watch: Callable[[StudyView], None] = lambda view: None, **make: object) -> StudyView:
    made = make_runner(path, **make)  # type: ignore[arg-type]
    return anyio.run(made.run, watch)


def fate(path: Path, experiment: str, what: str) -> None:
    (path / "fate").mkdir(exist_ok=True)
    (path / "fate" / experiment).write_text(what)


def starts(path: Path) -> list[str]:
    file = path / "starts"
    return file.read_text().split() if file.exists() else []


def states(view: StudyView) -> dict[str, RunState]:
    return {run.run.experiment: run.state for run in view.runs}


pytestmark = pytest.mark.usefixtures("light_swarms")


def test_every_run_is_run_once_and_a_second_time_none_but_for_more_rounds(tmp_path: Path) -> None:
    most = 0

    def watch(view: StudyView) -> None:
        nonlocal most
        most = max(most, len(view.those(RunState.RUNNING)))

    Layout(tmp_path, "m-b-s1").temporary("study").mkdir(parents=True)  # of one killed before it was written down
    view = ran(tmp_path, watch)
    assert sorted(starts(tmp_path)) == ALL
    assert most <= 2
    assert set(states(view).values()) == {RunState.FINISHED}
    assert [run.progress.cumulative_reward for run in view.runs] == pytest.approx([0.3, 0.3, 0.3])
    assert (view.rounds_done, view.seconds_left) == (9, 0.0)
    assert ran(tmp_path).rounds_done == 9
    assert len(starts(tmp_path)) == 3
    view = ran(tmp_path, record=make_record(rounds=5))
    assert set(states(view).values()) == {RunState.FINISHED}
    assert [run.progress.cumulative_reward for run in view.runs] == pytest.approx([0.5, 0.5, 0.5])


def test_what_a_run_is_started_with_is_written_down_and_is_what_it_gets(tmp_path: Path) -> None:
    record = make_record(configurations="ab")
    of_one_node = msgspec.structs.replace(record.configurations[0], nodes=1)
    ran(tmp_path, record=msgspec.structs.replace(record, configurations=(of_one_node, record.configurations[1])))
    files = [json.loads(run_file(tmp_path, name).read_bytes()) for name in ALL[:2]]
    assert [(file["nodes"], RunFile(**file).settings["expected_workers"]) for file in files] == [(1, 1), (2, 2)]
    file = files[1]
    assert file["settings"]["local_groups"] == 2
    assert (file["configuration"], file["seed"], file["rounds"]) == ("b", 1, 3)
    assert "hub_token" not in file["settings"]
    assert log_file(tmp_path, "m", "m-b-s1").read_text() == "one round is done\n"
    # the fake's reward is its SEED / 10: the surrounding SEED=99 did not reach it
    assert read_progress(RunReader(open_run(tmp_path, "m-b-s1"))).reward == 0.1


def test_settings_at_their_defaults_are_said_too_for_swarm_up_has_its_own(tmp_path: Path, monkeypatch: Patch) -> None:
    given: list[dict[str, str]] = []
    monkeypatch.setattr(launch, "start_with_us", lambda command, environment, log: given.append(environment))
    launcher = Launcher(
        make_record(), tmp_path, {"HUGGINGFACE_ACCESS_TOKEN": "hf", "SWARM_TOP_K": "3", "HOME": "/"}, {}
    )
    launcher.start(launcher.record.runs[0], 1.0)
    (environment,) = given
    expected = {"NUM_TRANSPLANT_TREES": "0", "SWARM_TOP_K": "0", "HUGGINGFACE_ACCESS_TOKEN": "hf", "HOME": "/"}
    assert {name: environment[name] for name in expected} == expected


def test_a_failed_run_is_no_reason_to_stop_and_is_tried_again(tmp_path: Path) -> None:
    fate(tmp_path, "m-b-s1", "fail")
    view = ran(tmp_path)
    assert states(view) == {"m-a-s1": RunState.FINISHED, "m-b-s1": RunState.FAILED, "m-c-s1": RunState.FINISHED}
    assert [run.problem for run in view.those(RunState.FAILED)] == ["exit code 1"]
    fate(tmp_path, "m-b-s1", "finish")
    assert states(ran(tmp_path))["m-b-s1"] is RunState.FINISHED
    assert sorted(starts(tmp_path)) == sorted([*ALL, "m-b-s1"])


def test_stopping_lets_runs_save_and_the_next_start_goes_on(tmp_path: Path) -> None:
    fate(tmp_path, "m-a-s1", "hold")
    made = make_runner(tmp_path, jobs=1)

    def stop_in_round_1(view: StudyView) -> None:
        if view.runs[0].progress.rounds_done:
            made.stop()

    view = anyio.run(made.run, stop_in_round_1)
    assert states(view) == dict.fromkeys(ALL, RunState.WAITING)
    fate(tmp_path, "m-a-s1", "finish")
    view = ran(tmp_path, jobs=1)
    assert starts(tmp_path) == ["m-a-s1", *ALL]
    assert [run.progress.cumulative_reward for run in view.runs] == pytest.approx([0.3, 0.3, 0.3])


JUDGE = """
import os, pathlib, sys
with (pathlib.Path(os.environ["GDRIVE_PATH"]) / "judged").open("a") as file:
    file.write(os.environ["EXPERIMENT_NAME"] + "\\n")
sys.exit(int(os.environ["EXPERIMENT_NAME"] == "m-c-s1"))
"""


def test_a_judged_study_has_a_judge_for_each_run_and_says_where_one_failed(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(launch, "JUDGE", (sys.executable, "-c", JUDGE))
    for experiment in ALL:
        fate(tmp_path, experiment, "judged")
    view = ran(tmp_path, record=msgspec.structs.replace(make_record(), judged=True))
    assert sorted((tmp_path / "judged").read_text().split()) == ALL
    assert [bool(run.problem) for run in view.runs] == [False, False, True]
    assert "its judge failed: exit code 1" in view.runs[2].problem
    assert set(states(view).values()) == {RunState.FINISHED}


def test_a_judge_is_not_sent_to_an_experiment_that_is_still_closed(tmp_path: Path, monkeypatch: Patch) -> None:
    """It would leave at once: a swarm that goes on with more rounds opens its experiment first."""
    ran(tmp_path, record=make_record(configurations="a"))
    monkeypatch.setattr(launch, "JUDGE", (sys.executable, "-c", JUDGE))
    fate(tmp_path, "m-a-s1", "closed")
    ran(tmp_path, record=msgspec.structs.replace(make_record(rounds=5, configurations="a"), judged=True))
    assert not (tmp_path / "judged").exists()


def test_an_experiment_that_is_not_the_study_s_is_left_alone(tmp_path: Path) -> None:
    mine = Layout(tmp_path, "m-b-s1").root / "notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    view = ran(tmp_path)
    (failed,) = view.those(RunState.FAILED)
    assert "m-b-s1 was not made by study 'm'" in failed.problem
    assert mine.read_text() == "mine"
    assert len(view.those(RunState.FINISHED)) == 2


def test_two_processes_do_not_run_one_study(tmp_path: Path) -> None:
    with alone(tmp_path, "m"), pytest.raises(StoreError, match="is being run by another process"), alone(tmp_path, "m"):
        raise AssertionError("both got in")
    with alone(tmp_path, "m"):
        pass


def study_command(path: Path, *arguments: str) -> list[str]:
    (path / "m.toml").write_text(MATRIX)
    return ["study", "run", str(path / "m.toml"), "--path", str(path), "--jobs", "1", *arguments]


def kill_in_second_run(path: Path, how: str) -> None:
    """Begin a study in a process of its own, and kill it when its second run has done a round."""
    fate(path, "m-b-s1", how)
    command = [sys.executable, "-c", STUDY, *study_command(path)]
    study = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    run = open_run(path, "m-b-s1")
    reader = RunReader(run)
    eventually(lambda: study.poll() is not None or read_progress(reader).reward, "a round of the second run")
    assert study.stdout
    assert study.poll() is None, study.stdout.read()
    study.send_signal(signal.SIGKILL)
    assert study.wait(PATIENCE) == -signal.SIGKILL
    study.stdout.close()
    eventually(lambda: not is_live(run), "the end of its swarm")
    fate(path, "m-b-s1", "finish")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel does not end the swarm of a killed study")
def test_a_killed_study_loses_no_finished_run_and_its_swarm_saves_and_goes_on(tmp_path: Path, capsys: Said) -> None:
    kill_in_second_run(tmp_path, "hold")
    assert swarm(study_command(tmp_path)) == 0
    assert starts(tmp_path) == ["m-a-s1", "m-b-s1", "m-b-s1", "m-c-s1"]
    assert read_progress(RunReader(open_run(tmp_path, "m-b-s1"))).cumulative_reward == pytest.approx(0.3)
    assert "against baseline" in capsys.readouterr().out
    assert not (study_folder(tmp_path, "m") / "interrupted").exists()
    assert swarm(study_command(tmp_path, "--rounds", "2")) == 2
    assert "rounds were 3, now 2" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel does not end the swarm of a killed study")
def test_a_run_that_could_not_save_goes_on_all_the_same(tmp_path: Path) -> None:
    kill_in_second_run(tmp_path, "loss")
    view = ran(tmp_path)
    assert set(states(view).values()) == {RunState.FINISHED}
    assert view.runs[1].progress.cumulative_reward == pytest.approx(0.3)
    assert not (study_folder(tmp_path, "m") / "interrupted").exists()


def test_a_run_that_lost_updates_has_failed_and_begins_anew_and_what_it_left_is_kept(tmp_path: Path) -> None:
    fate(tmp_path, "m-b-s1", "gone")
    (failed,) = ran(tmp_path).those(RunState.FAILED)
    assert "m-b-s1" in failed.run.experiment
    assert "lost 2 updates" in failed.problem
    assert not can_go_on(open_run(tmp_path, "m-b-s1"))
    fate(tmp_path, "m-b-s1", "finish")
    view = ran(tmp_path)
    assert set(states(view).values()) == {RunState.FINISHED}
    assert view.runs[1].progress.cumulative_reward == pytest.approx(0.3)
    aside = study_folder(tmp_path, "m") / "interrupted" / "m-b-s1-1"
    assert len((aside / "logs" / "w" / "metrics.jsonl").read_text().splitlines()) == 3


def test_a_study_of_an_earlier_version_goes_on_and_says_with_which_defaults(tmp_path: Path, capsys: Said) -> None:
    assert swarm(study_command(tmp_path)) == 0
    file = record_file(tmp_path, "m")
    record = json.loads(file.read_bytes())
    del record["settings"]["redo_rounds"]
    record["defaults"]["empty_update"] = "skip"
    file.write_text(json.dumps(record))
    assert swarm(study_command(tmp_path, "--seeds", "1,2")) == 0
    said = capsys.readouterr().out
    assert "m goes on with empty_update = skip, as it was begun; a new study would have step" in said
    assert json.loads(run_file(tmp_path, "m-a-s2").read_bytes())["settings"]["empty_update"] == "skip"
    assert starts(tmp_path) == [*ALL, "m-a-s2", "m-b-s2", "m-c-s2"]


def test_a_swarm_that_still_runs_is_waited_for_and_not_started_again(tmp_path: Path) -> None:
    fate(tmp_path, "m-a-s1", "hold")
    environment = {
        **os.environ,
        "GDRIVE_PATH": str(tmp_path),
        "EXPERIMENT_NAME": "m-a-s1",
        "MAX_ROUNDS": "3",
        "SEED": "1",
        "SWARM_EXPECTED_WORKERS": "2",
    }
    with subprocess.Popen([*FAKE, "up", "--in-process", "--nodes", "2"], env=environment) as earlier:
        run = open_run(tmp_path, "m-a-s1")
        eventually(lambda: read_progress(RunReader(run)).reward, "a round")
        run_file(tmp_path, "m-a-s1").write_text(json.dumps({
            "study": "m", "configuration": "a", "seed": 1, "experiment": "m-a-s1", "nodes": 2, "rounds": 3,
            "started_at": 1.0, "settings": {},
        }))  # fmt: skip
        seen = []

        def end_it_after_a_look(view: StudyView) -> None:
            seen.append(states(view)["m-a-s1"])
            if len(seen) == 1:
                fate(tmp_path, "m-a-s1", "finish")
                earlier.terminate()

        view = ran(tmp_path, end_it_after_a_look, jobs=1)
    assert seen[0] is RunState.ELSEWHERE
    assert set(states(view).values()) == {RunState.FINISHED}
    assert starts(tmp_path) == ["m-a-s1", *ALL]
