"""An honest run passes `validate --partial` whenever it is looked at, whatever its nodes write meanwhile."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.views.validate import validate
from swarm.wire.messages import RewardFile
from tests.layout import Layout
from tests.unit.records.beside import READS, Beside
from tests.unit.views.factories import (
    START,
    append_events,
    make_event,
    make_peer,
    make_rollouts,
    make_row,
    make_state,
    print_to,
    reward_of,
    run_of,
    write,
)

ROUNDS = 3


class HonestRun:
    """A coordinator and workers, who write step by step, each in its own order, in some order among them.

    A worker may be killed after any of its steps; the clock then goes on without it, as at the end of an interval.
    """

    def __init__(self, path: Path, rng: random.Random, workers: int, killed: int) -> None:
        self.layout = Layout(path, "exp")
        self._rng = rng
        self._round = -1
        self._done = {f"node{number}": 0 for number in range(workers)}
        self._gone = set[str]()
        steps = {name: rng.randrange(8 * ROUNDS) for name in [*self._done][:killed]}
        self._lives = [self._coordinator(), *(self._life_of(name, steps.get(name)) for name in self._done)]

    def step(self) -> bool:
        """One more write; False where nobody has any left."""
        return any(next(life, False) for life in self._rng.sample(self._lives, len(self._lives)))

    # ── who writes what, in which order: True after a write, False where it waits ───────────────────────────────────
    def _coordinator(self) -> Iterator[bool]:
        append_events(self.layout, "clock", make_event("node.starting", START))
        yield True
        print_to(self.layout, "clock", "starting")
        yield True
        make_peer(self.layout, "clock", node_role="coordinator")
        yield True
        reason = "opened"
        for number in range(ROUNDS + 1):
            self._round, last = number, number == ROUNDS
            write(self.layout.state_file, make_state(self.layout, round=number, max_rounds=ROUNDS, finished=last))
            yield True
            event = "round.last_closed" if last else "round.opened"
            append_events(self.layout, "clock", make_event(event, START, round=number, reason=reason))
            yield True
            while not last and any(done <= number for name, done in self._done.items() if name not in self._gone):
                yield False
            reason = "all_submitted" if any(done > number for done in self._done.values()) else "interval"

    def _life_of(self, name: str, steps: int | None) -> Iterator[bool]:
        yield from islice(self._writes_of(name), steps)
        self._gone.add(name)

    def _writes_of(self, name: str) -> Iterator[bool]:
        make_peer(self.layout, name)
        yield True
        append_events(self.layout, name, make_event("node.starting", START))
        yield True
        print_to(self.layout, name, "starting")
        yield True
        for number in range(ROUNDS):
            while self._round < number:
                yield False
            key = RoundKey(number)
            write(self.layout.rollout_file(key, name), make_rollouts(name, key))
            yield True
            line = msgspec.json.encode(make_row(self.layout, name, number)) + b"\n"
            for part in (line[:40], line[40:]):
                with self.layout.metrics_file(name).open("ab") as file:
                    file.write(part)
                yield True
            reward = RewardFile(round=number, stage=0, reward=reward_of(number), peer_id=name, submitted_at=START)
            write(self.layout.reward_file(key, name), reward)
            self._done[name] = number + 1
            yield True


@given(seed=st.integers(0, 2**32), before=st.integers(0, 60), workers=st.integers(1, 3), killed=st.integers(0, 2))
def test_an_honest_run_is_never_called_broken(seed: int, before: int, workers: int, killed: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        honest = HonestRun(Path(folder), rng, workers, killed)

        def goes_on() -> None:
            for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 5])):
                honest.step()

        for _ in range(before):
            honest.step()
        layout = honest.layout
        layout.root.mkdir(parents=True, exist_ok=True)
        run = Run("exp", Beside(run_of(layout).store, READS, goes_on))  # type: ignore[arg-type]
        report = validate(run, partial=True)
        assert [problem for check in report.checks for problem in check.problems] == []


def test_such_a_run_comes_to_its_end_and_is_whole(tmp_path: Path) -> None:
    honest = HonestRun(tmp_path, random.Random(0), workers=2, killed=0)
    while honest.step():
        pass
    assert validate(run_of(honest.layout)).ok
