"""A copy of a run that goes on meanwhile: whatever is written when, the target is what a kill could have left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.records import copying_rows
from swarm.records.copying import Copier
from swarm.records.listing import COPIED_TOGETHER
from swarm.store.base import Store
from swarm.types import RoundKey
from swarm.wire import keys
from tests.doubles.memory import MemoryPlace
from tests.unit.records.beside import READS, WRITES, Beside

NODES = ("alice", "bob")
STEPS = 6
"""Writes of a node and round, see `steps`."""
SAVES_EVERY = 3


def steps(store: Store, node: str, stages: int) -> Iterator[None]:
    """What a worker writes, in its order, one write after the other."""
    round_, stage = 0, 0
    while True:
        key = RoundKey(round_, stage)
        store.put(keys.completions(round_, node), b"{}")
        yield
        store.put(keys.rollout(key, node), b"{}")
        yield
        store.append_records(keys.metrics(node), [msgspec.json.encode({"round": round_, "stage": stage})], durable=True)
        yield
        store.put(keys.reward(key, node), b"{}")
        yield
        if stage + 1 < stages:
            stage += 1
            continue
        store.put(keys.winners(round_, node), b"{}")
        yield
        round_, stage = round_ + 1, 0
        if round_ % SAVES_EVERY == 0:
            store.put_bundle(keys.checkpoint(round_, node), save)
        yield


def save(into: Path) -> None:
    (into / "state.json").write_bytes(b"{}")


def rounds_of(store: Store, node: str) -> list[int]:
    return [msgspec.json.decode(row)["round"] for row in store.read_records(keys.metrics(node)).records]


def is_what_a_kill_leaves(store: Store, node: str, stages: int) -> None:
    """The laws of a run, for a node that was killed between two writes, or at its end, when it had written its rows
    first: where the last row has no reward, those shortly before may lack theirs, and their votes."""
    rows = [msgspec.json.decode(row) for row in store.read_records(keys.metrics(node)).records]
    assert [(row["round"], row["stage"]) for row in rows] == [divmod(number, stages) for number in range(len(rows))]
    complete = not rows or store.stat(keys.reward(RoundKey(*divmod(len(rows) - 1, stages)), node))
    settled = len(rows) if complete else len(rows) - COPIED_TOGETHER * stages
    for number in range(len(rows) + 2 * STEPS):
        key, row, last = RoundKey(*divmod(number, stages)), number < len(rows), number == len(rows) - 1
        rewarded = store.stat(keys.reward(key, node))
        if row:
            assert store.stat(keys.rollout(key, node)), f"row of {key} without rollouts"
            assert store.stat(keys.completions(key.round, node)), f"row of {key} without completions"
        assert rewarded or not row or last or number >= settled, f"{len(rows)} rows, no reward of {key}"
        assert row or not rewarded, f"a reward of {key} without its row"
        if key.stage + 1 == stages:
            behind = number < min(settled, len(rows) - 1)
            is_whole_round(store, node, key.round, rewarded=bool(rewarded), behind=behind)
            assert not row or last or bool(saved(store, node, key.round)) == ((key.round + 1) % SAVES_EVERY == 0)


def is_whole_round(store: Store, node: str, round_: int, *, rewarded: bool, behind: bool) -> None:
    """`behind`: rows of later rounds are there."""
    voted = store.stat(keys.winners(round_, node))
    assert voted or not behind, f"no vote of {round_}"
    assert rewarded or not voted, f"a vote of {round_} without the reward of its last stage"
    assert voted or not saved(store, node, round_), f"a checkpoint after {round_} without its vote"


def saved(store: Store, node: str, round_: int) -> bool:
    return store.stat(f"{keys.checkpoint(round_ + 1, node)}/state.json") is not None


class Live:
    """Two nodes that write while a copier reads; the laws are checked at every write into the target."""

    def __init__(self, paces: Iterator[int], stages: int = 1) -> None:
        self.stages = stages
        self.source, self.target = MemoryPlace().open("run"), MemoryPlace().open("copy")
        self._nodes = [steps(self.source, node, stages) for node in NODES]
        self._paces, self._turn = paces, 0
        self.copier = Copier(Beside(self.source, READS, self._write), Beside(self.target, WRITES, after=self.check))

    def advance(self, writes: int) -> None:
        for _ in range(writes):
            self._turn += 1
            next(self._nodes[self._turn % len(NODES)])

    def _write(self) -> None:
        self.advance(next(self._paces, 0))

    def check(self) -> None:
        for node in NODES:
            is_what_a_kill_leaves(self.target, node, self.stages)


@pytest.mark.parametrize(("writes", "stages"), [(3, 1), (2 * STEPS * len(NODES) + 3, 2)])
def test_rounds_that_are_written_between_any_two_readings_leave_the_copy_a_state_of_a_kill(
    writes: int, stages: int
) -> None:
    at = 0
    while True:
        live = Live(paces := iter([0] * at + [writes]), stages)
        live.advance(3 * STEPS * len(NODES) - 4)
        live.copier.run()
        beyond = next(paces, None) is not None
        live.copier.run(whole=False)
        live.check()
        assert all(rounds_of(live.target, node) == rounds_of(live.source, node) for node in NODES)
        if beyond:
            break
        at += 1
    assert at > 30


@given(st.lists(st.integers(0, 30), max_size=250), st.integers(0, 60), st.integers(1, 3))
def test_whatever_is_written_when_the_copy_is_a_state_of_a_kill(paces: list[int], before: int, stages: int) -> None:
    live = Live(iter(paces), stages)
    live.advance(before)
    for _ in range(6):
        live.copier.run(whole=False)
    live.check()


def test_a_log_beyond_what_is_held_at_once_is_copied_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(iter(()))
    live.advance(10 * STEPS * len(NODES))
    monkeypatch.setattr(copying_rows, "MOST_HELD", 1)
    live.copier.run()
    assert [len(rounds_of(live.target, node)) for node in NODES] == [10, 10]
    assert live.target.stat(keys.reward(RoundKey(9), "bob"))


def test_a_reward_of_a_node_that_writes_no_rows_is_copied() -> None:
    source, target = MemoryPlace().open("run"), MemoryPlace().open("copy")
    source.put(keys.reward(RoundKey(3), "other"), b"{}")
    source.append_records(keys.metrics("odd"), [b"junk", msgspec.json.encode({"round": 1})], durable=True)
    source.put(keys.reward(RoundKey(2), "odd"), b"{}")
    Copier(source, target).run()
    assert target.stat(keys.reward(RoundKey(3), "other"))
    assert target.stat(keys.reward(RoundKey(2), "odd"))
    assert target.read_records(keys.metrics("odd")).records == source.read_records(keys.metrics("odd")).records
