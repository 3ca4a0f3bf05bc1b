"""What nodes in one process have in common: signals, and an exit code."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import msgspec
import pytest

from swarm.config import Settings
from swarm.errors import ConfigError, MissedError, StoreError
from swarm.logs import configure_logging, get_logger
from swarm.node.process.daemon import SeveralNodes, _suited_to_sharing, run_workers
from swarm.node.process.system import run_until_signal
from swarm.provenance import cores
from tests.patience import PATIENCE
from tests.unit.log_files import log_in
from tests.unit.node.factories import make_settings

log = get_logger(__name__)


class FakeNode:
    """Lives until it is stopped, or ends as it is told to."""

    def __init__(self, on_start: Callable[[], object] = lambda: None) -> None:
        self.stopped: list[int] = []
        self._on_start = on_start
        self._asked = anyio.Event()

    async def run(self) -> int:
        await anyio.lowlevel.checkpoint()
        self._on_start()
        log.info("fake.runs")
        await self._asked.wait()
        log.info("fake.saved")
        return self.stopped[0]

    def stop(self, exit_code: int) -> None:
        log.info("fake.asked")
        self.stopped.append(exit_code)
        self._asked.set()


def failing(error: Exception) -> Callable[[], object]:
    def fail() -> object:
        raise error

    return fail


def run_nodes(path: Path, *start: Callable[[], FakeNode]) -> int:
    """Run them under the names a, b, c."""
    named = dict(zip("abc", start, strict=False))
    files = [log_in(path, node, node) for node in named]

    async def main() -> int:
        with anyio.fail_after(PATIENCE):
            return await run_until_signal(SeveralNodes(named))

    with configure_logging(files, level="error"):
        return anyio.run(main)


class Ends(FakeNode):
    """By itself, with this exit code."""

    code = MissedError.exit_code

    async def run(self) -> int:
        return self.code


def test_a_node_that_did_nothing_gives_the_process_its_exit_code_and_ends_nobody_else(tmp_path: Path) -> None:
    lives = Ends()
    lives.code = 0
    assert run_nodes(tmp_path, Ends, lambda: lives) == MissedError.exit_code
    assert lives.stopped == []


def events_of(path: Path, node: str) -> list[str]:
    return [msgspec.json.decode(line)["event"] for line in (path / node).read_bytes().splitlines()]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_asks_every_node_once_and_gives_the_exit_code(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    nodes = FakeNode(), FakeNode(partial(os.kill, os.getpid(), number))
    assert run_nodes(tmp_path, lambda: nodes[0], lambda: nodes[1]) == code
    assert [node.stopped for node in nodes] == [[code], [code]]
    for node in "ab":
        assert sorted(events_of(tmp_path, node)) == ["fake.asked", "fake.runs", "fake.saved"]


@pytest.mark.parametrize(
    ("error", "code", "event"),
    [
        (StoreError("gone"), 1, "process.failed"),
        (ExceptionGroup("tasks", [ConfigError("what?")]), 2, "process.failed"),
        (ExceptionGroup("tasks", [ConfigError("what?"), KeyError("bug")]), 1, "process.crashed"),
        (KeyError("bug"), 1, "process.crashed"),
    ],
)
def test_a_node_that_fails_has_the_others_stop_in_their_own_time_and_the_process_fails(
    tmp_path: Path, error: Exception, code: int, event: str
) -> None:
    other = FakeNode()
    assert run_nodes(tmp_path, lambda: FakeNode(failing(error)), lambda: other) == code
    assert other.stopped == [143]
    assert events_of(tmp_path, "a") == [event]
    assert set(events_of(tmp_path, "b")) == {"fake.runs", "fake.asked", "fake.saved"}


def test_two_that_fail_ask_the_third_only_once_also_one_whose_turn_to_start_has_not_come(tmp_path: Path) -> None:
    def cannot_start() -> FakeNode:
        raise ConfigError("what?")

    lives, late = FakeNode(), FakeNode()
    fails = failing(StoreError("gone"))
    assert run_nodes(tmp_path / "a", lambda: FakeNode(fails), lambda: FakeNode(fails), lambda: lives) == 1
    assert run_nodes(tmp_path / "b", cannot_start, lambda: late) == 2
    assert lives.stopped == late.stopped == [143]


def test_a_setting_that_no_worker_can_run_with_ends_all_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no task 'chess'"):
        run_workers(make_settings(tmp_path, node_id="w", tasks=("chess",)), range(2))
    assert not list(tmp_path.iterdir())


def test_nodes_of_one_process_need_no_lease_and_share_the_cores_that_a_large_model_needs() -> None:
    small, mixed = ("tiny-qwen2",), ("tiny-qwen2", "/a/large/model")
    assert _suited_to_sharing(Settings(model=small)) == Settings(model=small, device_lease="off")
    assert _suited_to_sharing(Settings(model=mixed)).threads == cores()
    asked = Settings(model=mixed, threads=3, device_lease="on")
    assert _suited_to_sharing(asked) == asked
