"""Jobs as Slurm gets to see them, with its commands made up."""

import os
import sys
from pathlib import Path

import pytest

from swarm.errors import ClusterError, ConfigError
from swarm.plugins.slurm import queue
from swarm.plugins.slurm.backend import SlurmBackend, job_name, slurm_backend
from swarm.plugins.slurm.job import exit_file
from swarm.plugins.slurm.program import UNKNOWN
from swarm.plugins.slurm.queue import LOOK_SECONDS, Queue, parse
from swarm.plugins.slurm.resources import Resources, parsed
from swarm.programs import Launch
from tests.plugins.slurm.fake_slurm import install

pytest.importorskip("submitit")
SECRET = "hunter2"


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(queue, "LOOK_SECONDS", 0.0)
    return install(tmp_path / "box", monkeypatch)


def make_backend(box: Path, **asked: object) -> SlurmBackend:
    return slurm_backend(Resources(**asked), str(box / "jobs"))  # type: ignore[arg-type]


def make_launch(box: Path, **variables: str) -> Launch:
    return Launch(("swarm", "up"), {"PATH": os.environ["PATH"], **variables}, str(box / "place"), "demo")


def queued(box: Path, state: str = "RUNNING", reason: str = "None") -> None:
    name = job_name(str(box / "place"), "demo")
    (box / "queue").write_text(f"7|{state}|{reason}|{name}\n")


def test_secrets_reach_the_job_by_its_environment_and_lie_in_no_file(box: Path) -> None:
    make_backend(box).start(make_launch(box, HF_TOKEN=SECRET, SLURM_MEM_PER_CPU="1"))
    environment = (box / "environment").read_text()
    assert f"HF_TOKEN={SECRET}" in environment
    assert "SLURM_MEM_PER_CPU" not in environment, "of another job, in which this was typed"
    files = [file for root in ("jobs", "place") for file in (box / root).rglob("*") if file.is_file()]
    assert len(files) > 2
    assert not [file for file in [*files, box / "script"] if SECRET.encode() in file.read_bytes()]
    assert "HF_TOKEN" not in os.environ


def test_the_script_asks_for_what_was_asked_for(box: Path) -> None:
    make_backend(box, partition="long", minutes=30, gpus=1, memory="16G").start(make_launch(box))
    script = (box / "script").read_text()
    expected = ("partition=long", "time=30", "gpus-per-node=1", "mem=16G", "requeue", "signal=USR2@90")
    assert [line for line in expected if f"#SBATCH --{line}" not in script] == []


def test_what_slurm_says_against_a_job_is_said_with_the_partitions_that_it_has(
    box: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (box / "refusal").write_text("sbatch: error: invalid partition specified: nix\n")
    with pytest.raises(ClusterError, match=r"(?s)invalid partition specified: nix.*has the partitions long, short"):
        make_backend(box, partition="nix").start(make_launch(box))
    assert capsys.readouterr().err == ""


def test_a_machine_without_slurm_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="sbatch, squeue, scancel, srun not found"):
        slurm_backend(Resources(), None)


def test_an_extra_that_is_missing_is_named_with_what_installs_it(box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ConfigError, match=r"--on slurm needs submitit.*pip install .*submitit"):
        make_backend(box)


def test_a_folder_in_which_others_may_write_would_give_us_code_to_run_and_our_own_is_ours_alone(box: Path) -> None:
    make_backend(box).start(make_launch(box))
    assert (box / "jobs").stat().st_mode & 0o777 == 0o700
    (box / "jobs").chmod(0o777)
    with pytest.raises(ConfigError, match=r"owner alone.*got owner \d+ and mode 777"):
        make_backend(box)


def test_a_job_is_found_again_by_who_did_not_submit_it(box: Path) -> None:
    assert not make_backend(box).has(str(box / "place"), "demo")
    queued(box, "PENDING", "Resources")
    job = make_backend(box).found(str(box / "place"), "demo")
    assert job is not None
    assert (job.id, job.poll(), job.note()) == ("7", None, "job 7 pending, Resources")
    assert not make_backend(box).has(str(box / "elsewhere"), "demo")


def test_a_job_that_failed_and_is_queued_again_has_not_ended_and_one_that_is_done_has(box: Path) -> None:
    job = make_backend(box).start(make_launch(box))
    queued(box, "PENDING", "BeginTime")
    exit_file(job.folder, "7").write_text("143 ")
    assert job.poll() is None
    exit_file(job.folder, "7").write_text("0 ")
    assert job.poll() == 0, "whatever Slurm says"
    exit_file(job.folder, "7").write_text("143 ")
    (box / "queue").write_text("")
    assert job.poll() == 143
    assert "exit code 143" in job.ending()
    exit_file(job.folder, "7").write_text("2 /data on n1 is not the folder")
    assert job.ending() == "job 7 ended with exit code 2: /data on n1 is not the folder"


def test_a_job_of_which_slurm_knows_nothing_any_more_was_killed_or_its_folder_is_not_shared(box: Path) -> None:
    job = make_backend(box).start(make_launch(box))
    assert job.poll() == UNKNOWN
    assert "--slurm-folder" in job.ending(), "it never said a word"
    assert sys.executable in job.ending()
    job.log.write_text("...")
    assert job.poll() == UNKNOWN
    assert "cancelled or killed" in job.ending()


def test_a_job_is_cancelled_by_its_number(box: Path) -> None:
    make_backend(box).start(make_launch(box)).kill()
    assert (box / "cancelled").read_text() == "7\n"


# ── the queue ───────────────────────────────────────────────────────────────────────────────────────────────────────
SAID = "7|PENDING|Resources|swarm-a-1\n8|RUNNING|None|swarm-b-1\nslurm_load_jobs error\n"


def test_jobs_are_found_by_their_names_say_what_they_wait_for_and_odd_lines_are_none() -> None:
    assert {name: (job.id, job.note) for name, job in parse(SAID).items()} == {
        "swarm-a-1": ("7", "job 7 pending, Resources"),
        "swarm-b-1": ("8", "job 8 running"),
    }


def test_the_controller_is_asked_now_and_then_however_often_we_look() -> None:
    now, asked = [0.0], []

    def ask() -> str:
        asked.append(now[0])
        return SAID

    waiting = Queue(lambda: now[0], ask)
    for _ in range(100):
        assert waiting.find("swarm-a-1")
        assert waiting.find("swarm-c-1") is None
        now[0] += LOOK_SECONDS / 10
    assert len(asked) == 10


def test_a_controller_that_is_away_has_not_ended_any_job() -> None:
    now, said = [0.0], [SAID, None, ""]
    waiting = Queue(lambda: now[0], lambda: said.pop(0))
    assert waiting.find("swarm-a-1")
    now[0] += LOOK_SECONDS
    assert waiting.find("swarm-a-1"), "it did not answer"
    now[0] += LOOK_SECONDS
    assert waiting.find("swarm-a-1") is None


def test_a_job_that_was_just_submitted_is_there_before_the_next_look() -> None:
    waiting = Queue(lambda: 0.0, lambda: "")
    assert waiting.find("swarm-a-1") is None
    waiting.add("swarm-a-1", "7")
    job = waiting.find("swarm-a-1")
    assert job is not None
    assert job.id == "7"


# ── what is asked for ───────────────────────────────────────────────────────────────────────────────────────────────
def test_what_is_given_becomes_what_submitit_calls_it_and_the_rest_is_left_to_the_cluster() -> None:
    asked = Resources("gpu", 30, 4, "16G", 2, "lab", "--qos=high constraint='a100|h100' exclusive").parameters()
    expected = {"partition": "gpu", "time": 30, "cpus_per_task": 4, "mem": "16G", "gpus_per_node": 2, "account": "lab"}
    assert {name: asked[name] for name in expected} == expected
    assert asked["srun_args"] == ["--cpus-per-task=4"], "srun does not take it from sbatch since 22.05"
    extra = {"qos": "high", "constraint": "a100|h100", "exclusive": True}
    assert asked["additional_parameters"] == {"requeue": True} | extra
    silent = Resources().parameters()
    assert not (expected.keys() - {"time"} | {"srun_args"}) & silent.keys()
    assert silent["additional_parameters"] == {"requeue": True}


def test_a_part_that_loads_no_model_takes_no_gpu_from_others() -> None:
    light = Resources("gpu", 30, 4, "16G", 2, "lab", "qos=high").light()
    assert (light.gpus, light.cpus, light.memory) == (None, 1, None)
    assert (light.partition, light.account, light.extra, light.minutes) == ("gpu", "lab", "qos=high", 30)


@pytest.mark.parametrize("extra", ["a b'", "; rm -rf", "$(id)", "=3", "'comment=a\nwrap=id'"])
def test_what_is_no_option_is_refused(extra: str) -> None:
    with pytest.raises(ConfigError, match="--slurm-extra"):
        parsed(extra)


@pytest.mark.parametrize("asked", [{"minutes": 0}, {"cpus": 0}, {"gpus": -1}, {"memory": "lots"}])
def test_what_slurm_would_not_take_is_refused(asked: dict[str, object]) -> None:
    named = {"minutes": "time"}.get(*asked, *asked)
    with pytest.raises(ConfigError, match=f"--slurm-{named} must be"):
        Resources(**asked)  # type: ignore[arg-type]
