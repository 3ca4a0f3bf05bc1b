"""What a stop and a kill -9 leave behind: with the real model on a CPU, nothing but lost time."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.swarms import daemons, environment, events, eventually, layout, rollouts, rows
from tests.unit.node.factories import unmeasured

pytestmark = pytest.mark.engine

PLAIN = {"SWARM_AVERAGE_EVERY": 2}
DILOCO = PLAIN | {"SWARM_AVERAGING": "diloco"}
LORA = {"SWARM_ADAPTER": "lora", "MODEL_NAME": "tiny-2-qwen2-content"}


def comparable(path: Path, node: str) -> list[dict[str, Any]]:
    return [unmeasured(row) for row in rows(path, node)]


def last_weights(path: Path, node: str, rounds: int) -> bytes:
    (file,) = (layout(path).checkpoint(rounds, node) / "model").glob("*.safetensors")
    return file.name.encode() + file.read_bytes()


def run(
    path: Path,
    workers: int,
    ends: Sequence[signal.Signals],
    rng: random.Random,
    *,
    arguments: Sequence[str] = (),
    together: bool = False,
    **settings: object,
) -> None:
    """A swarm to its end; on the way the whole of it, coordinator and all, is ended by each of these signals, after a
    round of everybody. `together`: all workers are one process.

    Not one node alone: the others would rightly go on without it, and their rows say so.
    """
    env = environment(
        path,
        SEED=7,
        SWARM_MAX_NEW_TOKENS=16,
        SWARM_EXPECTED_WORKERS=workers,
        COORDINATOR_ROUND_INTERVAL=600,
        SWARM_LIVENESS_TIMEOUT=60,
        **{"CHECKPOINT_INTERVAL": 3} | settings,
    )
    names = [f"w-{number}" if together else f"w{number}" for number in range(workers)]
    with daemons() as start:
        for life, end in enumerate([*ends, None]):
            before = {name: len(rows(path, name)) for name in names}
            coordinator = start("services.coordinator", env, *arguments)
            eventually(
                lambda life=life: len(events(path, "coordinator", "coordinator.ready")) > life, "the coordinator"
            )
            if together:
                nodes = [coordinator, start("services.workers", env | {"NODE_ID": "w"}, "--nodes", str(workers))]
            else:
                nodes = [coordinator, *(start("services.worker", env, "--node-id", name, *arguments) for name in names)]
            if end is None:
                assert [node.wait() for node in nodes] == [0] * len(nodes), nodes[1].output
                return
            eventually(lambda before=before: all(len(rows(path, n)) > before[n] for n in names), "the rounds")
            time.sleep(rng.uniform(0, 0.2))  # the moment of death, and no barrier
            for node in nodes:
                node.kill() if end == signal.SIGKILL else node.signal(end)
            assert [node.wait() for node in nodes] == [143 if end == signal.SIGTERM else -end] * len(nodes)
            for registration in layout(path).peers.iterdir():
                registration.unlink()  # as if it were long ago: else the dead count as alive for a liveness timeout


@pytest.mark.parametrize(
    ("workers", "external", "ends", "rounds", "more"),
    [
        pytest.param(1, 0, [signal.SIGTERM, signal.SIGKILL], 12, {}),
        pytest.param(1, 0, [signal.SIGKILL, signal.SIGKILL], 40, {"SWARM_STALENESS": 1}, marks=pytest.mark.slow),
        pytest.param(2, 2, [signal.SIGKILL, signal.SIGKILL], 40, {}, marks=pytest.mark.slow),
        pytest.param(1, 0, [signal.SIGKILL, signal.SIGTERM], 20, {"MAX_STAGES": 2}, marks=pytest.mark.slow),
        # who is asked to stop waits for no peers: of nodes that share, only a kill leaves the rewards as they would be
        pytest.param(2, 2, [signal.SIGKILL, signal.SIGKILL], 16, {"MAX_STAGES": 2}, marks=pytest.mark.slow),
        pytest.param(1, 0, [signal.SIGKILL, signal.SIGTERM], 20, LORA, marks=pytest.mark.slow),
        pytest.param(2, 2, [signal.SIGKILL, signal.SIGKILL], 20, LORA, marks=pytest.mark.slow),
        pytest.param(2, 0, [signal.SIGKILL, signal.SIGKILL], 12, DILOCO, marks=pytest.mark.slow),
        pytest.param(3, 2, [signal.SIGKILL] * 3, 18, PLAIN, marks=pytest.mark.slow),
        pytest.param(2, 0, [signal.SIGKILL, signal.SIGKILL], 18, LORA | DILOCO, marks=pytest.mark.slow),
    ],
    ids=[
        *("stopped and killed", "killed with stale answers", "two killed twice", "two stages", "two with two stages"),
        *("an adapter", "two adapters", "weights averaged as DiLoCo"),
        *("weights averaged", "adapters averaged as DiLoCo"),
    ],
)
def test_a_swarm_that_was_stopped_or_killed_ends_as_if_nothing_had_happened(
    tmp_path, workers, external, ends, rounds, more
):
    settings = {"MAX_ROUNDS": rounds, "NUM_TRANSPLANT_TREES": external, **more}
    rng = random.Random()
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(whole, workers, [], rng, **settings)
    run(broken, workers, ends, rng, **settings)
    assert any(row["updated"] for row in rows(whole, "w0")), "nothing was learned, so nothing was compared"
    assert not external or any(row["external_groups"] for row in rows(whole, "w0"))
    for node in [f"w{number}" for number in range(workers)]:
        assert len(events(broken, node, "node.ready")) == len(ends) + 1, "it was over before it was ended"
        assert not events(broken, node, "rounds.lost")
        assert comparable(broken, node) == comparable(whole, node)
        assert rollouts(broken, node) == rollouts(whole, node)
        assert last_weights(broken, node, rounds) == last_weights(whole, node, rounds)
        if "SWARM_AVERAGE_EVERY" in more:
            assert all(len(row.get("averaged", [])) == workers * (row["round"] % 2) for row in rows(broken, node))
            assert last_weights(broken, node, rounds) == last_weights(broken, "w0", rounds), "the last round averages"
