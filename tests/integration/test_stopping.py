"""Signals, exit codes, and what a stopped node can go on from."""

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.integration.swarms import daemons, environment, events, eventually, layout, rollouts, rows

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signalled_worker_finishes_its_step_saves_and_says_so_by_its_exit_code(tmp_path, number, code):
    env = environment(tmp_path, MAX_ROUNDS=1000, NUM_TRANSPLANT_TREES=0)
    with daemons() as start:
        start("services.coordinator", env)
        worker = start("services.worker", env, "--node-id", "w")
        eventually(lambda: len(rows(tmp_path, "w")) >= 2, "two rounds")
        worker.signal(number)
        assert worker.wait() == code, worker.output
    done = rows(tmp_path, "w")[-1]["round"] + 1
    assert layout(tmp_path).checkpoint(done, "w").is_dir()
    assert events(tmp_path, "w", "node.finished")[-1]["reason"] == "stopped"


def test_one_worker_with_one_seed_gives_the_same_run_twice_and_across_a_stop_and_resume(tmp_path):
    def run(name: str, stop_after: int | None = None) -> tuple[object, object]:
        path = tmp_path / name
        env = environment(path, MAX_ROUNDS=6, NUM_TRANSPLANT_TREES=0, SWARM_MAX_NEW_TOKENS=24, SEED=7)
        with daemons() as start:
            coordinator = start("services.coordinator", env)
            worker = start("services.worker", env, "--node-id", "w")
            if stop_after:
                eventually(lambda: len(rows(path, "w")) >= stop_after, "the round to stop after")
                worker.signal(signal.SIGTERM)
                assert worker.wait() == 143
                assert len(rows(path, "w")) < 6, "the run was over before it was stopped"
                worker = start("services.worker", env, "--node-id", "w")
            assert (worker.wait(), coordinator.wait()) == (0, 0), worker.output
        columns = ("round", "my_reward", "cumulative_reward", "loss", "grad_norm", "tokens_generated")
        return rollouts(path, "w"), [[row[c] for c in columns] for row in rows(path, "w")]

    first = run("first")
    assert any(row[4] for row in first[1]), "no update happened, so nothing was compared"
    assert run("again") == first
    assert run("stopped", stop_after=2) == first


def test_ctrl_c_on_up_stops_all_nodes_prints_how_to_resume_and_the_resumed_run_finishes(tmp_path):
    env = environment(tmp_path, MAX_ROUNDS=12)
    with daemons() as start:
        up = start("swarm", env, "up", "--nodes", "2")
        eventually(lambda: rows(tmp_path, "worker-1"), "a round")
        up.signal(signal.SIGINT)
        assert up.wait() == 130, up.output
    (resume,) = re.findall(r"^resume: (.*)$", up.output, re.MULTILINE)
    done = len(rows(tmp_path, "worker-0"))
    assert 0 < done < 12
    as_module = resume.replace("swarm up", f"{sys.executable} -m swarm up")
    pasted = subprocess.run(as_module, shell=True, env={"PATH": os.defpath}, capture_output=True, text=True, timeout=90)
    assert pasted.returncode == 0, pasted.stdout + pasted.stderr
    assert [row["round"] for row in rows(tmp_path, "worker-0")] == list(range(12))
