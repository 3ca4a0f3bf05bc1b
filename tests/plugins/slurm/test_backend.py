"""Jobs as Slurm gets to see them, with its commands made up."""

import os
import sys
from pathlib import Path

import pytest

from swarm.errors import ClusterError, ConfigError
from swarm.plugins.slurm import backend as backends
from swarm.plugins.slurm import queue
from swarm.plugins.slurm.backend import SlurmBackend, job_name, slurm_backend
from swarm.plugins.slurm.job import exit_file
from swarm.plugins.slurm.resources import Resources
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


def test_a_folder_in_which_others_may_write_would_give_us_their_code_to_run(box: Path) -> None:
    (box / "jobs").mkdir()
    (box / "jobs").chmod(0o777)
    with pytest.raises(ConfigError, match=r"owner alone.*got owner \d+ and mode 777"):
        make_backend(box)


def test_a_folder_of_our_own_making_is_ours_alone(box: Path) -> None:
    make_backend(box).start(make_launch(box))
    assert (box / "jobs").stat().st_mode & 0o777 == 0o700


def test_a_job_is_found_again_by_who_did_not_submit_it(box: Path) -> None:
    assert not make_backend(box).has(str(box / "place"), "demo")
    queued(box, "PENDING", "Resources")
    job = make_backend(box).found(str(box / "place"), "demo")
    assert job is not None
    assert (job.id, job.poll(), job.note()) == ("7", None, "job 7 pending, Resources")
    assert not make_backend(box).has(str(box / "elsewhere"), "demo")


def test_a_job_that_failed_and_is_queued_again_has_not_ended(box: Path) -> None:
    job = make_backend(box).start(make_launch(box))
    queued(box, "PENDING", "BeginTime")
    exit_file(job.folder, "7").write_text("143 ")
    assert job.poll() is None
    (box / "queue").write_text("")
    assert job.poll() == 143
    assert "exit code 143" in job.ending()


def test_a_job_that_is_done_is_done_whatever_slurm_says(box: Path) -> None:
    job = make_backend(box).start(make_launch(box))
    queued(box)
    exit_file(job.folder, "7").write_text("0 ")
    assert job.poll() == 0


def test_a_job_of_which_slurm_knows_nothing_any_more_was_killed(box: Path) -> None:
    job = make_backend(box).start(make_launch(box))
    job.log.write_text("...")
    assert job.poll() == backends.UNKNOWN
    assert "cancelled or killed" in job.ending()


def test_a_job_without_a_word_makes_one_ask_whether_its_folder_is_shared(box: Path) -> None:
    job = make_backend(box).start(make_launch(box))
    assert job.poll() == backends.UNKNOWN
    assert "--slurm-folder" in job.ending()
    assert sys.executable in job.ending()


def test_why_a_job_did_not_begin_is_said(box: Path) -> None:
    job = make_backend(box).start(make_launch(box))
    exit_file(job.folder, "7").write_text("2 /data on n1 is not the folder")
    assert job.ending() == "job 7 ended with exit code 2: /data on n1 is not the folder"


def test_a_job_is_cancelled_by_its_number(box: Path) -> None:
    make_backend(box).start(make_launch(box)).kill()
    assert (box / "cancelled").read_text() == "7\n"
