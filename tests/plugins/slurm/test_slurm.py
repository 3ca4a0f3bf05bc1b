"""Studies and swarms as jobs of a real Slurm on loopback: killed, cancelled, queued again, left and followed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm.config import without_settings
from tests.integration.swarms import json_lines
from tests.layout import Layout
from tests.plugins.slurm.slurm_cluster import missing, said, slurm, wait_for
from tests.plugins.study.study_kill import MATRIX, STUDY, Size, differences, rows_of, run_whole, set_aside

pytestmark = [
    pytest.mark.engine,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(bool(missing()), reason=f"no Slurm is installed: {', '.join(missing())} not found"),
]
SECRET = "hunter2"


class Cluster:
    """A Slurm, a home folder of its own, and commands typed on its login node."""

    def __init__(self, folder: Path, found: dict[str, str]) -> None:
        self.folder, self._found = folder, found
        self.home = folder / "home"
        self.home.mkdir()

    def swarm(self, *words: str) -> subprocess.Popen[str]:
        env = without_settings(os.environ) | self._found
        env |= {"HOME": str(self.home), "HUGGINGFACE_ACCESS_TOKEN": SECRET}
        return subprocess.Popen(
            [sys.executable, "-m", "swarm", *words, "--on", "slurm", "--slurm-cpus", "1"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def jobs(self) -> dict[str, str]:
        """Name, without the digest at its end, -> id."""
        lines = said(self._found, "squeue", "-h", "-o", "%j %i").splitlines()
        return {name.rpartition("-")[0].removeprefix("swarm-"): job for name, job in map(str.split, lines)}

    def signal(self, job: str, number: str) -> None:
        said(self._found, "scancel", f"--signal={number}", job)

    def kill(self, job: str) -> int:
        """kill -9 of all processes of a job's step, and the end of a job that waits; how many processes there were.

        They are stopped first: a worker whose supervisor is dead finishes its round without waiting for anybody.
        """
        lines = said(self._found, "scontrol", "listpids", f"{job}.0").splitlines()[1:]
        processes = [int(line.split()[0]) for line in lines]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in processes:
                os.kill(process, number)
        said(self._found, "scancel", "--full", "--signal=KILL", job)
        return len(processes)

    def secrets(self, *folders: Path) -> list[Path]:
        """Files that hold the secret."""
        files = [file for folder in (self.home, *folders) for file in folder.rglob("*") if file.is_file()]
        return [file for file in files if SECRET.encode() in file.read_bytes()]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("slurm")
    with slurm(folder) as found:
        yield Cluster(folder, found)


def ended(command: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = command.communicate()
    return command.returncode, output


def rounds_done(path: Path, experiment: str) -> int:
    files = Layout(path, experiment).root.glob("logs/*/metrics.jsonl")
    return max((len(json_lines(file)) for file in files), default=0)


@pytest.mark.slow
def test_a_study_whose_jobs_were_killed_has_the_rewards_of_a_local_one(cluster: Cluster, tmp_path: Path) -> None:
    size = Size(nodes=2, rounds=12, interval=5)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    broken.mkdir()
    matrix = broken / "matrix.toml"
    matrix.write_text(MATRIX.format(study=STUDY, nodes=size.nodes, rounds=size.rounds, interval=size.interval))
    words = ("study", "run", str(matrix), "--path", str(broken))
    first, second = size.experiments

    study = cluster.swarm(*words)
    wait_for(lambda: rounds_done(broken, first) >= 2, study)
    killed = cluster.kill(cluster.jobs()[first])
    cluster.kill(cluster.jobs().get(second, "none"))
    code, output = ended(study)
    assert killed > 3, "that was not everything"
    assert code == 1, output
    assert f"{first} failed: job" in output
    assert "try them again: swarm study run" in output

    run_whole(whole, size)  # on this machine
    code, output = ended(cluster.swarm(*words))
    assert code == 0, output
    undisturbed = rows_of(whole, size)
    assert len(undisturbed) == 2 * size.nodes * size.rounds
    assert differences(undisturbed, rows_of(broken, size)) == []
    assert set_aside(broken) == []
    assert cluster.secrets(broken) == []


def test_a_swarm_of_jobs_is_left_followed_queued_again_and_done(cluster: Cluster, tmp_path: Path) -> None:
    words = ("up", "--path", str(tmp_path), "--experiment", "demo", "--nodes", "1", "--model", "tiny-qwen2")
    words += ("--rounds", "30", "--checkpoint-interval", "5", "--external", "0", "--no-coordinator")
    first = cluster.swarm(*words)
    wait_for(lambda: rounds_done(tmp_path, "demo") >= 1, first)
    jobs = cluster.jobs()
    cluster.signal(jobs["demo-worker-0"], "STOP")  # so that it is not done before it is left
    first.send_signal(signal.SIGINT)
    code, output = ended(first)
    assert code == 130, output
    assert set(cluster.jobs()) == set(jobs) == {"demo-worker-0"}, "it goes on"
    assert f"jobs {jobs['demo-worker-0']} go on without this. Follow them: swarm up" in output
    assert f"cancel: scancel {jobs['demo-worker-0']}" in output

    cluster.signal(jobs["demo-worker-0"], "USR2")  # as Slurm does when a job's time is nearly up
    cluster.signal(jobs["demo-worker-0"], "CONT")
    code, output = ended(cluster.swarm(*words))
    assert code == 0, output
    assert f"worker-0: job {jobs['demo-worker-0']}" in output, "the same job"
    rows = json_lines(Layout(tmp_path, "demo").metrics_file("worker-0"))
    assert [row["round"] for row in rows] == list(range(30))
    starts = json_lines(Layout(tmp_path, "demo").root / "logs/worker-0/starts.jsonl")
    assert len(starts) == 2, "it was queued again, and went on"
    assert cluster.secrets(tmp_path) == []
