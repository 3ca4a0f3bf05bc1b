"""A disk that fills, a folder that is read-only for a while, a process that stands still.

Real daemons: the coordinator, and workers whose policy needs no torch. Full disks and read-only mounts are made in a
namespace of the test's own, without privileges; where a machine allows none, the test is skipped and says why.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from swarm.views.validate import render, validate
from tests.integration.mounted import Mounted, mounted
from tests.integration.swarms import LIGHT, environment, eventually, json_lines
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.views.factories import run_of

pytestmark = pytest.mark.engine

WORKERS = ("alice", "bob")
COORDINATOR = "services.coordinator"
TIMEOUT = 1.0
"""Seconds without a heartbeat after which a node counts as dead."""
QUICK = {
    "NUM_TRAIN_SAMPLES": 1,
    "NUM_TRANSPLANT_TREES": 1,
    "NUM_GENERATIONS": 2,
    "COORDINATOR_ROUND_INTERVAL": 60,
    "SWARM_LIVENESS_TIMEOUT": TIMEOUT,
    "SWARM_COORDINATOR_PATIENCE": 0.5,
    "SWARM_EXPECTED_WORKERS": len(WORKERS),
    "CHECKPOINT_INTERVAL": 0,
}


class Node:
    """A daemon whose terminal is a file, which outlives whatever becomes of the shared folder."""

    def __init__(self, said: Path, command: Sequence[str], env: dict[str, str]) -> None:
        self._said = said
        with said.open("wb") as terminal:
            self.process = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.STDOUT
            )

    @property
    def output(self) -> str:
        return self._said.read_text()

    def rounds(self) -> int:
        """How many it has said to have completed."""
        return self.output.count("round.completed")

    def says(self, event: str) -> int:
        return self.output.count(event)


class Swarm:
    """A coordinator and two light workers on one folder."""

    def __init__(self, folder: Path, terminals: Path, stack: ExitStack) -> None:
        """`folder`: as this process sees it."""
        self.layout = Layout(folder, "test")
        self._terminals = terminals
        self._stack = stack
        self.nodes: dict[str, Node] = {}

    def start(self, name: str, env: dict[str, str], *module: str, enter: Sequence[str] = ()) -> Node:
        command = [*enter, sys.executable, "-m", *(module or (LIGHT,))]
        node = self.nodes[name] = Node(self._terminals / name, command, env | {"NODE_ID": name})
        self._stack.callback(node.process.wait)
        self._stack.callback(node.process.kill)
        return node

    def start_all(self, env: dict[str, str], enter: Sequence[str] = ()) -> None:
        self.start("clock", env, COORDINATOR, enter=enter)
        for name in WORKERS:
            self.start(name, env, enter=enter)

    def workers(self) -> list[Node]:
        return [self.nodes[name] for name in WORKERS]

    def all_have(self, rounds: int) -> bool:
        for node in self.nodes.values():
            assert node.process.poll() in (None, 0), node.output
        return all(node.rounds() >= rounds for node in self.workers())

    def end(self) -> None:
        """All of them finish by themselves."""
        for name in (*WORKERS, "clock"):
            assert self.nodes[name].process.wait(PATIENCE) == 0, f"{name}\n{self.nodes[name].output}"

    def stop(self) -> None:
        """All of them are asked to, workers first."""
        for name in (*WORKERS, "clock"):
            self.nodes[name].process.terminate()
            assert self.nodes[name].process.wait(PATIENCE) == 143, self.nodes[name].output

    def rows(self, name: str) -> list[dict[str, Any]]:
        return json_lines(self.layout.metrics_file(name))

    def events(self, name: str, event: str) -> list[dict[str, Any]]:
        return [e for e in json_lines(self.layout.events_file(name)) if e["event"] == event]

    def check(self, *, partial: bool = False) -> None:
        """Rows once each and in order, a reward behind each, no round opened twice, and a folder that is whole."""
        for name in WORKERS:
            rounds = [row["round"] for row in self.rows(name)]
            assert rounds == sorted(set(rounds))
            for round_ in rounds:
                assert (self.layout.rewards / f"round_{round_}" / "stage_0" / f"{name}.json").is_file()
        opened = [event["round"] for event in self.events("clock", "round.opened")]
        assert opened == sorted(set(opened))
        report = validate(run_of(self.layout), partial=partial)
        assert report.ok, render(report)
        for node in self.nodes.values():
            assert "Traceback" not in node.output
            assert "Logging error" not in node.output


@contextmanager
def a_swarm(folder: Path, tmp_path: Path) -> Iterator[Swarm]:
    terminals = tmp_path / "terminals"
    terminals.mkdir()
    with ExitStack() as stack:
        yield Swarm(folder, terminals, stack)


@pytest.mark.parametrize("trouble", ["full", "read_only"])
def test_a_folder_that_refuses_writes_for_a_while_costs_nobody_a_round(tmp_path: Path, trouble: str) -> None:
    tmpfs = ["-t", "tmpfs", "-o", "size=16m", "tmpfs"]
    with mounted(tmp_path / "shared", tmpfs) as disk, a_swarm(disk.seen, tmp_path) as swarm:
        env = environment(disk.folder, MAX_ROUNDS=50, **QUICK)
        swarm.start_all(env, disk.enter)
        eventually(lambda: swarm.all_have(3), "three rounds")
        with refusing(disk, trouble):
            eventually(lambda: all(node.says("folder.unwritable") for node in swarm.workers()), "the trouble")
            before = min(node.rounds() for node in swarm.workers())
            eventually(lambda: swarm.all_have(before + 4), "rounds alone")
            on_disk = {name: len(swarm.rows(name)) for name in WORKERS}
        swarm.end()
        swarm.check()
        for name in WORKERS:
            assert len(swarm.rows(name)) == swarm.nodes[name].rounds(), "what was done is what is told, late or not"
            assert on_disk[name] < len(swarm.rows(name))
            healed = swarm.events(name, "folder.healed")
            assert len(swarm.events(name, "folder.unwritable")) == len(healed) >= 1
            assert sum(event["published_late"].get("row", 0) for event in healed) >= 3
            assert not any(event["dropped"] for event in healed)
            assert any(row["clock"] == "own" for row in swarm.rows(name))
            assert not swarm.events(name, "log.lines_dropped")
            assert [e["round"] for e in swarm.events(name, "round.completed")] == [r["round"] for r in swarm.rows(name)]


def refusing(disk: Mounted, trouble: str) -> Any:
    return disk.full() if trouble == "full" else disk.read_only()


@pytest.mark.parametrize("name", ["bob", "clock"])
def test_a_process_that_stands_still_for_many_timeouts_harms_nobody(tmp_path: Path, name: str) -> None:
    with a_swarm(tmp_path / "shared", tmp_path) as swarm:
        swarm.start_all(environment(tmp_path / "shared", MAX_ROUNDS=10**6, **QUICK))
        eventually(lambda: swarm.all_have(3), "three rounds")
        still = swarm.nodes[name].process
        still.send_signal(signal.SIGSTOP)
        others = [swarm.nodes[other] for other in WORKERS if other != name]
        before = [node.rounds() for node in others]
        time.sleep(4 * TIMEOUT)  # what is tested is that so much time passes
        after = list(zip(others, before, strict=True))
        eventually(lambda: all(node.rounds() >= then + 5 for node, then in after), "five rounds of the others")
        still.send_signal(signal.SIGCONT)
        then = min(node.rounds() for node in swarm.workers())
        eventually(lambda: swarm.all_have(then + 5), "rounds of all")
        if name == "clock":
            eventually(lambda: clock_of(swarm, "bob") == "coordinator", "the coordinator's clock")
        swarm.stop()
        swarm.check(partial=True)


def clock_of(swarm: Swarm, name: str) -> str:
    return str(swarm.rows(name)[-1]["clock"])
