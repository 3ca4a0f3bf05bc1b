"""A node may die at every call to the operating system; what was acknowledged is there when it starts anew.

Twice over: a BaseException, after which this process's clean-up still runs, and a child that is gone with os._exit.
"""

from __future__ import annotations

import builtins
import io
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec
import pytest

from swarm.node.base.write_queue import Write, WriteQueue
from swarm.node.worker.checkpoints import save_checkpoint
from swarm.records.rows import read_rows
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.messages import MetricsRow, NodeState
from tests.layout import Layout
from tests.unit.node.factories import FakeSnapshot, newest_checkpoint, run_of
from tests.unit.node.nodes import make_context

CALLS = (
    "open",
    "close",
    "write",
    "fsync",
    "ftruncate",
    "replace",
    "mkdir",
    "rmdir",
    "unlink",
    "scandir",
    "fstat",
    "pread",
)
"""What of `os` may be the last thing that a process does; `io.open` as well."""
DIED = 9


class Death(BaseException):
    """Not an Exception: nobody may catch it."""


class Reaper:
    """Counts calls to the operating system, and lets the process die right before one, or midway in a write."""

    def __init__(self, die: Callable[[], None], at: int) -> None:
        self._die = die
        self._left = at

    def around(self, call: Callable[..., Any], *, halves: bool) -> Callable[..., Any]:
        def counted(*arguments: Any, **more: Any) -> Any:
            self._pass_by()
            if halves and self._left == 0:
                call(arguments[0], arguments[1][: len(arguments[1]) // 2])
            if halves:
                self._pass_by()
            return call(*arguments, **more)

        return counted

    def _pass_by(self) -> None:
        if self._left == 0:
            self._die()
        self._left -= 1


@contextmanager
def reaping(monkeypatch: pytest.MonkeyPatch, reaper: Reaper) -> Iterator[None]:
    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, reaper.around(getattr(os, name), halves=name == "write"))
        opened = reaper.around(io.open, halves=False)
        patch.setattr(io, "open", opened)
        patch.setattr(builtins, "open", opened)
        yield


def raise_death() -> None:
    raise Death


def dies_here(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None], at: int) -> bool:
    """Whether it died on the way; False: it came to its end before that."""
    try:
        with reaping(monkeypatch, Reaper(raise_death, at)):
            act()
    except Death:
        return True
    except BaseExceptionGroup as group:  # it died in a thread of the event loop's
        if group.split(Death)[1]:
            raise
        return True
    return False


def dies_in_a_child(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None], at: int) -> bool:
    """As dies_here, in a process that is gone at once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pytest's time-out has a thread, which needs no lock here
        child = os.fork()
    if not child:
        code = 1
        try:
            with reaping(monkeypatch, Reaper(lambda: os._exit(DIED), at)):
                act()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, DIED)
    return code == DIED


class Way(NamedTuple):
    """How to die, and at each how-many-th call: test_deaths.py tries every call of each single write."""

    dies: Callable[[pytest.MonkeyPatch, Callable[[], None], int], bool]
    every: int = 1


@pytest.fixture(
    params=[
        pytest.param(Way(dies_here, every=9), id="by exception, some calls"),
        pytest.param(Way(dies_here), id="by exception", marks=pytest.mark.slow),
        pytest.param(Way(dies_in_a_child, every=31), id="in a child, some calls"),
        pytest.param(Way(dies_in_a_child), id="in a child", marks=pytest.mark.slow),
    ]
)
def way(request: pytest.FixtureRequest) -> Way:
    way: Way = request.param
    return way


class Acknowledged:
    """What the dying process was told to be safe, kept where its death does not reach."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "acknowledged"
        self._descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._write = os.write

    def add(self, what: str) -> None:
        self._write(self._descriptor, f"{what}\n".encode())

    def take(self) -> set[str]:
        os.close(self._descriptor)
        return set(self._file.read_text().split("\n")) - {""}


Prepare = Callable[[Layout, Acknowledged], Callable[[], None]]


def close_below(folder: Path) -> None:
    """Closes the files and folders that the dead left open, as the system does when a process ends."""
    there = Path("/proc/self/fd")
    for descriptor in [*there.iterdir()] if there.exists() else []:
        with suppress(OSError):
            if os.readlink(descriptor).startswith(f"{folder}{os.sep}"):
                os.close(int(descriptor.name))


def every_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way, prepare: Prepare
) -> Iterator[tuple[Layout, set[str]]]:
    """The folder after a death at each point, with what had been acknowledged; last, one in which nobody died."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # counted all the same; no power fails here
    for point in count(step=way.every):
        layout = Layout(tmp_path / str(point), "exp")
        layout.root.mkdir(parents=True)
        acknowledged = Acknowledged(layout.path)
        died = way.dies(monkeypatch, prepare(layout, acknowledged), point)
        told = acknowledged.take()
        close_below(layout.path)
        yield layout, told
        if not died:
            assert point > 10, "the calls are not the ones that are made"
            return


# ── checkpoints ─────────────────────────────────────────────────────────────────────────────────────────────────────
def save(layout: Layout, rounds_done: int, content: str, keep: int = 2) -> None:
    state = NodeState(node_id="alice", rounds_done=rounds_done, seed=42, cumulative_reward=1.5, model="fake")
    save_checkpoint(run_of(layout, "alice").store, state, FakeSnapshot(content), keep=keep)


def started_anew(layout: Layout) -> tuple[int, str]:
    """Rounds and weights that the next process goes on from."""
    run_of(layout, "alice").store.recover()
    assert not layout.temporary("alice").exists()
    for folder in layout.checkpoints.glob("*/alice"):
        assert {file.name for file in folder.iterdir()} == {"node.json", "weights.txt"}, "half of a checkpoint"
    found = newest_checkpoint(layout, "alice")
    assert found is not None, "all is lost"
    return found[0].rounds_done, FakeSnapshot.read(str(found[1]))


def test_a_death_while_saving_and_pruning_leaves_a_whole_newest_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    def prepare(layout: Layout, acknowledged: Acknowledged) -> Callable[[], None]:
        save(layout, 1, "one")
        save(layout, 2, "two")

        def act() -> None:
            save(layout, 3, "three")
            acknowledged.add("3")

        return act

    seen = set()
    for layout, acknowledged in every_death(tmp_path, monkeypatch, way, prepare):
        newest = started_anew(layout)
        assert newest in [(2, "two"), (3, "three")]
        assert newest == (3, "three") or not acknowledged
        save(layout, 4, "four")
        assert started_anew(layout) == (4, "four")
        assert len(list(layout.checkpoints.glob("*/alice"))) == 2
        seen.add(newest)
    assert len(seen) == 2


# ── rows, and all that a round leaves ───────────────────────────────────────────────────────────────────────────────
def append(layout: Layout, round_: int) -> None:
    row = MetricsRow(
        timestamp=float(round_), round=round_, stage=0, node_id="alice", experiment="exp", my_reward=0.5, total_agents=1
    )
    layout.run.store.append_records(keys.metrics("alice"), [msgspec.json.encode(row)], durable=True)


def rows(layout: Layout) -> list[int]:
    found, junk, torn, _ = read_rows(layout.run, "alice")
    assert (junk, torn) == (0, False)
    return [row.round for row in found]


def play(layout: Layout, rounds: range, acknowledge: Callable[[str], None]) -> None:
    """What a node brings to the folder in these rounds, through its writes."""

    def file(path: Path) -> Callable[[], None]:
        return lambda: layout.put(path, b"{}", "alice")

    async def all_rounds() -> None:
        writes = WriteQueue(make_context(layout))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writes.deliver)
            for round_ in rounds:
                key = RoundKey(round_)
                for what, write in (
                    ("rollouts", file(layout.rollout_file(key, "alice"))),
                    ("row", lambda round_=round_: append(layout, round_)),
                    ("reward", file(layout.reward_file(key, "alice"))),
                ):
                    await writes.put(Write(what, key, write, 10))
                    acknowledge(f"{what} {round_}")
            tasks.cancel_scope.cancel()

    anyio.run(all_rounds)


def test_a_death_in_the_write_queue_loses_nothing_acknowledged_and_the_order_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    def prepare(layout: Layout, acknowledged: Acknowledged) -> Callable[[], None]:
        append(layout, 0)
        return lambda: play(layout, range(1, 3), acknowledged.add)

    for layout, acknowledged in every_death(tmp_path, monkeypatch, way, prepare):
        there = in_folder(layout)
        assert acknowledged <= there
        for round_ in (1, 2):
            order = [f"{what} {round_}" in there for what in ("rollouts", "row", "reward")]
            assert order == sorted(order, reverse=True), "rollouts, then the row, then the reward"
        run_of(layout, "alice").store.recover()
        done = max(int(text.split()[1]) for text in there if text.startswith("row"))
        play(layout, range(done + 1, 4), lambda _: None)
        assert rows(layout) == [0, 1, 2, 3]


def in_folder(layout: Layout) -> set[str]:
    rounds = {row.round for row in read_rows(layout.run, "alice").rows}
    found = {f"row {round_}" for round_ in rounds}
    for round_ in range(4):
        key = RoundKey(round_)
        for what, path in (
            ("rollouts", layout.rollout_file(key, "alice")),
            ("reward", layout.reward_file(key, "alice")),
        ):
            if path.exists():
                assert path.read_bytes() == b"{}", "whole or not at all"
                found.add(f"{what} {round_}")
    return found
