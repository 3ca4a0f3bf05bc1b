"""`--on slurm`, with Slurm's commands made up: what is submitted, followed, left and refused."""

import signal
from pathlib import Path

import pytest

from swarm.cli.elsewhere import ElsewhereFlags, elsewhere_of
from swarm.cli.main import run
from swarm.errors import ConfigError
from swarm.plugins.slurm import queue
from swarm.plugins.slurm.backend import job_name
from swarm.plugins.study.cli.study_view import StudyDisplay
from swarm.plugins.study.run.runner import StudyView
from tests.plugins.slurm.fake_slurm import install

pytest.importorskip("submitit")
MATRIX = """
name = "m"
nodes = 2
rounds = 3
seeds = [1]
[settings]
model = ["tiny-qwen2"]
[[configurations]]
name = "a"
[[configurations]]
name = "b"
settings = { external_groups = 2 }
"""


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(queue, "LOOK_SECONDS", 0.0)
    box = install(tmp_path / "box", monkeypatch)
    (box / "m.toml").write_text(MATRIX)
    return box


def study(box: Path, *more: str) -> int:
    return run(["study", "run", str(box / "m.toml"), "--path", str(box / "place"), "--on", "slurm", *more])


def test_wishes_for_jobs_without_jobs_are_refused() -> None:
    with pytest.raises(ConfigError, match="--slurm-partition, --slurm-gpus would have no effect"):
        elsewhere_of(ElsewhereFlags(slurm_gpus=1, slurm_partition="gpu"))
    assert elsewhere_of(ElsewhereFlags()) is None
    assert elsewhere_of(ElsewhereFlags(on="local")) is None


def test_a_dry_run_names_the_jobs_and_submits_and_writes_nothing(box: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert study(box, "--dry-run", "--slurm-gpus", "1", "--judge") == 0
    said = capsys.readouterr().out
    names = [job_name(str(box / "place"), f"m-{one}-s1", part) for one in "ab" for part in ("", "judge")]
    lines = {line.split("  ")[1]: line for line in said.splitlines() if "swarm-m-" in line}
    assert set(lines) == set(names)
    assert "gpus 1" in lines[names[0]]
    assert "gpus" not in lines[names[1]], "a judge loads no model"
    assert "nothing was started or written" in said
    assert not (box / "script").exists()
    assert not (box / "place").exists()
    assert not (box / ".local").exists()


def test_a_dry_run_of_up_names_a_job_for_each_node(box: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["up", "--path", str(box / "place"), "--nodes", "2", "--model", "tiny-qwen2", "--on", "slurm"]
    assert run([*command, "--slurm-cpus", "3", "--dry-run"]) == 0
    said = capsys.readouterr().out
    for part, cpus in (("coordinator", 1), ("worker-0", 3), ("worker-1", 3)):
        name = job_name(str(box / "place"), "default_experiment", part)
        assert f"{name}  time 1440 min, cpus {cpus}" in said
    assert not (box / "script").exists()


def test_a_job_that_is_in_the_queue_already_is_not_submitted_again(
    box: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = job_name(str(box / "place"), "m-a-s1")
    (box / "queue").write_text(f"3|PENDING|Resources|{name}\n")
    assert study(box, "--dry-run") == 0
    assert f"{name}  is in the queue: job 3 pending, Resources" in capsys.readouterr().out


def test_ctrl_c_leaves_the_jobs_and_says_how_to_follow_and_to_cancel_them(
    box: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [job_name(str(box / "place"), f"m-{one}-s1") for one in "ab"]
    (box / "queue").write_text(f"3|PENDING|Resources|{names[0]}\n4|RUNNING|None|{names[1]}\n")

    show, looks = StudyDisplay.show, []

    def ask_at_the_second_look(display: StudyDisplay, view: StudyView) -> None:
        show(display, view)
        looks.append(view)
        if len(looks) == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(StudyDisplay, "show", ask_at_the_second_look)
    assert study(box) == 130
    said = capsys.readouterr().out
    assert "jobs 3 4 go on without this" in said
    assert "squeue --jobs 3,4" in said
    assert "scancel 3 4" in said
    assert f"swarm study run {box / 'm.toml'} --on slurm" in said
    assert not (box / "cancelled").exists()
    assert not (box / "script").exists(), "they were there"
