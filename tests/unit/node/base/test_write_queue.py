"""What must reach the folder reaches it in order and once, however long the folder refuses."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from swarm.errors import StoreError
from swarm.node.base import write_queue as module
from swarm.node.base.write_queue import Write, WriteQueue
from swarm.types import RoundKey
from tests.layout import Layout
from tests.unit.node.nodes import WITHIN, make_context, until

pytestmark = pytest.mark.anyio

LAYOUT = Layout(Path("/shared"), "exp")


@dataclass
class Place:
    """Takes what is written while it is in order, and no attempt that is to fail."""

    refuses: bool = False
    failures: Iterator[bool] = field(default_factory=lambda: iter(()))
    taken: list[str] = field(default_factory=list)

    def write(self, what: str, round_: int = 0, *, size: int = 10, blocked: bool = False, **more: Any) -> Write:
        def write() -> None:
            if blocked or self.refuses or next(self.failures, False):
                raise StoreError("cannot write it", blocked=blocked)
            self.taken.append(f"{what} {round_}")

        return Write(what, RoundKey(round_), write, size, **more)


@asynccontextmanager
async def delivering(**bounds: int) -> AsyncIterator[WriteQueue]:
    writes = WriteQueue(make_context(LAYOUT), **bounds)
    with anyio.fail_after(WITHIN):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writes.deliver)
            yield writes
            tasks.cancel_scope.cancel()


async def a_round(writes: WriteQueue, folder: Place, round_: int) -> None:
    for what in ("rollouts", "row", "reward"):
        await writes.put(folder.write(what, round_))


def everything_of(*rounds: int) -> list[str]:
    return [f"{what} {round_}" for round_ in rounds for what in ("rollouts", "row", "reward")]


def named(logs: Any, event: str) -> list[Any]:
    return [log for log in logs if log["event"] == event]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHORTEST_PAUSE", 0.01)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.05)


async def test_a_new_write_is_a_new_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHORTEST_PAUSE", 1000.0)
    folder = Place(refuses=True)
    async with delivering() as writes:
        await writes.put(folder.write("row", 0))
        folder.refuses = False
        await writes.put(folder.write("row", 1))
        await until(lambda: folder.taken == ["row 0", "row 1"])


async def test_a_write_that_hangs_holds_up_no_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_PUT", 0.05)
    go, folder = threading.Event(), Place()
    hanging = folder.write("rollouts")
    hanging.write = lambda: folder.taken.append("late") if go.wait(WITHIN) else None
    async with delivering() as writes:
        await writes.put(hanging)
        await writes.put(folder.write("row"))
        assert folder.taken == []
        go.set()
        await until(lambda: folder.taken == ["late", "row 0"])


async def test_of_too_many_rollouts_the_oldest_are_dropped_counted_and_known(quick: None) -> None:
    folder = Place(refuses=True)
    with capture_logs() as logs:
        async with delivering(most_droppable=25) as writes:
            for round_ in range(5):
                await a_round(writes, folder, round_)
            gone = [round_ for round_ in range(5) if writes.gave_up_rollouts(RoundKey(round_))]
            folder.refuses = False
            await until(lambda: not writes.keeps_back)
            assert not any(writes.gave_up_rollouts(RoundKey(round_)) for round_ in range(5)), "nothing piles up"
    assert len(gone) == 3
    assert 4 not in gone
    assert folder.taken == [text for text in everything_of(*range(5)) if text not in {f"rollouts {r}" for r in gone}]
    (healed,) = named(logs, "folder.healed")
    assert healed["dropped"] == {"rollouts": 3}


async def test_rows_are_never_dropped_and_beyond_their_bound_the_node_ends(quick: None) -> None:
    folder = Place(refuses=True)
    async with delivering(most_kept=25) as writes:
        await writes.put(folder.write("row", 0))
        await writes.put(folder.write("row", 1))
        with pytest.raises(StoreError, match=r"row \(3\) of rounds 0 to 2 wait.*30 bytes.*more than the 25"):
            await writes.put(folder.write("row", 2))


async def test_what_a_strange_folder_blocks_is_left_out_and_a_row_ends_the_node() -> None:
    folder = Place()
    with capture_logs() as logs, pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - all of it belongs to it
        async with delivering() as writes:
            await writes.put(folder.write("rollouts", 7, blocked=True))
            await writes.put(folder.write("row", 7))
            assert folder.taken == ["row 7"]
            await writes.put(folder.write("row", 8, blocked=True))
    assert caught.group_contains(StoreError, match="cannot write it")
    assert [(log["event"], log["what"], log["round"]) for log in logs] == [("folder.path_blocked", "rollouts", 7)]


async def test_the_end_waits_for_the_folder_and_says_what_it_did_not_take(quick: None) -> None:
    folder = Place(refuses=True)
    async with delivering() as writes:
        await a_round(writes, folder, 4)
        with pytest.raises(
            StoreError, match=r"rollouts \(1\), row \(1\), reward \(1\) of rounds 4 to 4 could not.*cannot write"
        ):
            await writes.flush(0.1)
        with capture_logs() as logs:
            writes.report_loss()
        assert logs[0]["lost"] == {"rollouts": 1, "row": 1, "reward": 1}
        folder.refuses = False
        await writes.flush(WITHIN)
        assert folder.taken == everything_of(4)
        with capture_logs() as logs:
            writes.report_loss()
        assert logs == []


async def test_order_holds_whatever_fails_when(quick: None) -> None:
    """Every pattern of failing and working over a few attempts."""
    for pattern in product((False, True), repeat=5):
        folder = Place(failures=iter(pattern))
        async with delivering() as writes:
            for round_ in range(3):
                await a_round(writes, folder, round_)
            await writes.flush(WITHIN)
        assert folder.taken == everything_of(0, 1, 2), pattern
