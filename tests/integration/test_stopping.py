"""Signals, exit codes, and what a stopped node can go on from."""

import signal

from tests.integration.swarms import LIGHT, daemons, environment, events, eventually, layout, rows


def test_a_signalled_worker_finishes_its_step_saves_and_says_so_by_its_exit_code(tmp_path):
    env = environment(tmp_path, MAX_ROUNDS=100_000, NUM_TRANSPLANT_TREES=0, NODE_ID="w")
    with daemons() as start:
        start("services.coordinator", env | {"NODE_ID": "clock"})
        worker = start(LIGHT, env)
        eventually(lambda: len(rows(tmp_path, "w")) >= 2, "two rounds")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 143, worker.output
    done = rows(tmp_path, "w")[-1]["round"] + 1
    assert layout(tmp_path).checkpoint(done, "w").is_dir()
    assert events(tmp_path, "w", "node.finished")[-1]["reason"] == "stopped"
