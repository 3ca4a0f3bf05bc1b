"""A disk that fills, a folder that is read-only for a while, a process that stands still.

Real daemons: the coordinator, and workers whose policy needs no torch. Full disks and read-only mounts are made in a
namespace of the test's own, without privileges; where a machine allows none, the test is skipped and says why.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from swarm.views.validate import render, validate
from tests.integration.mounted import mounted
from tests.integration.swarms import LIGHT, Daemon, Start, daemons, environment, eventually, json_lines
from tests.layout import Layout
from tests.unit.views.factories import run_of

pytestmark = pytest.mark.engine

WORKERS = ("alice", "bob")
TMPFS = ["-t", "tmpfs", "-o", "size=16m", "tmpfs"]
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
ALONE = {"MAX_ROUNDS": 10**6, "SWARM_CLOCK": "own", "NUM_TRANSPLANT_TREES": 0, "SWARM_EXPECTED_WORKERS": 1}


class Swarm:
    """A coordinator and two light workers on one folder."""

    def __init__(self, folder: Path, start: Start) -> None:
        """`folder`: as this process sees it."""
        self.layout = Layout(folder, "test")
        self._start = start
        self.nodes: dict[str, Daemon] = {}

    def start(self, name: str, env: dict[str, str], enter: Sequence[str], module: str = LIGHT) -> Daemon:
        self.nodes[name] = self._start(module, env | {"NODE_ID": name}, enter=enter)
        return self.nodes[name]

    def start_all(self, env: dict[str, str], enter: Sequence[str] = ()) -> None:
        self.start("clock", env, enter, "services.coordinator")
        for name in WORKERS:
            self.start(name, env, enter)

    def rounds(self, *names: str) -> int:
        """How many each of these workers, or of all, has said to have completed."""
        for node in self.nodes.values():
            assert node.process.poll() in (None, 0), node.listen()
        return min(self.nodes[name].says("round.completed") for name in names or WORKERS)

    def does(self, more: int, *names: str) -> None:
        """These workers, or all, do so many rounds more."""
        wanted = self.rounds(*names) + more
        eventually(lambda: self.rounds(*names) >= wanted, f"{more} rounds")

    def all_say(self, event: str, times: int) -> None:
        eventually(lambda: all(self.nodes[name].says(event) >= times for name in WORKERS), event)

    def end(self, code: int) -> None:
        """All of them finish by themselves, or as they were asked to, workers first."""
        for name in (*WORKERS, "clock"):
            if code:
                self.nodes[name].signal(signal.SIGTERM)
            assert self.nodes[name].wait() == code, f"{name}\n{self.nodes[name].output}"

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


def test_a_folder_that_refuses_writes_for_a_while_costs_nobody_a_round(tmp_path: Path) -> None:
    with mounted(tmp_path / "shared", TMPFS) as disk, daemons() as start:
        swarm = Swarm(disk.seen, start)
        swarm.start_all(environment(disk.folder, MAX_ROUNDS=80, **QUICK), disk.enter)
        for troubles, refusing in enumerate((disk.full, disk.read_only), start=1):
            swarm.does(3)
            with refusing():
                swarm.all_say("folder.unwritable", troubles)
                swarm.does(4)  # alone
                on_disk = {name: len(swarm.rows(name)) for name in WORKERS}
            swarm.all_say("folder.healed", troubles)
            assert all(on_disk[name] < len(swarm.rows(name)) for name in WORKERS)
        swarm.end(0)
        swarm.check()
        for name in WORKERS:
            assert len(swarm.rows(name)) == swarm.rounds(name), "what was done is what is told, late or not"
            healed = swarm.events(name, "folder.healed")
            assert len(swarm.events(name, "folder.unwritable")) == len(healed) >= 2
            assert sum(event["published_late"].get("row", 0) for event in healed) >= 6
            assert not any(event["dropped"] for event in healed)
            assert any(row["clock"] == "own" for row in swarm.rows(name))
            assert not swarm.events(name, "log.lines_dropped")
            assert [e["round"] for e in swarm.events(name, "round.completed")] == [r["round"] for r in swarm.rows(name)]


def test_a_process_that_stands_still_for_many_timeouts_harms_nobody(tmp_path: Path) -> None:
    with daemons() as start:
        swarm = Swarm(tmp_path / "shared", start)
        swarm.start_all(environment(tmp_path / "shared", MAX_ROUNDS=10**6, **QUICK))
        for name in ("bob", "clock"):
            swarm.does(3)
            swarm.nodes[name].signal(signal.SIGSTOP)
            others = [other for other in WORKERS if other != name]
            before = swarm.rounds(*others)
            time.sleep(4 * TIMEOUT)  # what is tested is that so much time passes
            eventually(lambda: swarm.rounds(*others) >= before + 5, "five rounds of the others")  # noqa: B023 - at once
            swarm.nodes[name].signal(signal.SIGCONT)
            swarm.does(5)
        eventually(lambda: swarm.rows("bob")[-1]["clock"] == "coordinator", "the coordinator's clock")
        swarm.end(143)
        swarm.check(partial=True)


def test_a_node_that_ends_on_a_full_disk_keeps_its_state_says_where_and_goes_on_from_it(tmp_path: Path) -> None:
    """It tries for a minute before it gives its place up."""
    with mounted(tmp_path / "shared", TMPFS) as disk, daemons() as start:
        swarm = Swarm(disk.seen, start)
        env = environment(disk.folder, **QUICK | ALONE)
        kept = Path(env["XDG_STATE_HOME"]) / "swarm" / "kept"
        node = swarm.start("alice", env, disk.enter)
        eventually(lambda: node.says("round.completed") >= 3, "three rounds")
        with disk.full():
            eventually(lambda: node.says("folder.unwritable"), "the trouble")
            node.signal(signal.SIGTERM)
            assert node.wait() == 1, node.output
        done = node.says("round.completed")
        (state,) = kept.rglob("node.json")
        assert str(state.parent) in node.output, "it says where"

        again = swarm.start("alice", env, disk.enter)
        eventually(lambda: again.says("round.completed") >= 2, "rounds behind them")
        eventually(lambda: not [*kept.rglob("node.json")], "the place has it, so the copy goes")
        again.signal(signal.SIGTERM)
        assert again.wait() == 143, again.output
        (taken,) = swarm.events("alice", "checkpoint.taken_up")
        assert taken["rounds_done"] == done
        rounds = [row["round"] for row in swarm.rows("alice")]
        assert rounds == list(range(len(rounds)))
        assert len(rounds) >= done + 2
