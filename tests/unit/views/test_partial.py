"""An honest run passes `validate --partial` whenever it is looked at, whatever its nodes write meanwhile."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.views.validate import validate
from swarm.wire.messages import RewardFile
from tests.layout import Layout
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
Step = Callable[[], None]


class HonestRun:
    """A coordinator and workers, who write step by step, each in its own order, in some order among them.

    A worker may be killed after any of its steps; the clock then goes on without it, as at the end of an interval.
    """

    def __init__(self, path: Path, rng: random.Random, workers: int, killed: int) -> None:
        self.layout = Layout(path, "exp")
        self._rng = rng
        self._round = -1
        self._names = [f"node{number}" for number in range(workers)]
        self._lives = {name: self._life_of(name) for name in self._names}
        self._left = {name: rng.randrange(4 * ROUNDS) for name in self._names[:killed]}
        self._done = dict.fromkeys(self._names, 0)
        self._clock = self._coordinator()

    def step(self) -> bool:
        """One more write; False where nobody has any left."""
        writers = [name for name in self._names if name in self._lives]
        return any(self._step_of(life) for life in self._rng.sample([*writers, ""], len(writers) + 1))

    def _step_of(self, name: str) -> bool:
        step = next(self._lives[name] if name else self._clock, None)
        if step is None:
            return False
        step()
        if name in self._left:
            self._left[name] -= 1
            if self._left[name] < 0:
                del self._lives[name]
        return True

    # ── who writes what, in which order ─────────────────────────────────────────────────────────────────────────────
    def _coordinator(self) -> Iterator[Step | None]:
        yield lambda: append_events(self.layout, "clock", make_event("node.starting", START))
        yield lambda: print_to(self.layout, "clock", "starting")
        yield lambda: make_peer(self.layout, "clock", node_role="coordinator")
        reason = "opened"
        for number in range(ROUNDS + 1):
            self._round = number
            last = number == ROUNDS
            yield lambda: write(self.layout.state_file, self._state(number, finished=last))  # noqa: B023 - called at once
            event = "round.last_closed" if last else "round.opened"
            yield lambda: append_events(self.layout, "clock", make_event(event, START, round=number, reason=reason))  # noqa: B023
            while not last and any(self._done[name] <= number for name in self._lives):
                yield None
            reason = "all_submitted" if any(done > number for done in self._done.values()) else "interval"

    def _state(self, number: int, *, finished: bool) -> msgspec.Struct:
        return make_state(self.layout, round=number, max_rounds=ROUNDS, finished=finished)

    def _life_of(self, name: str) -> Iterator[Step | None]:
        yield lambda: make_peer(self.layout, name)
        yield lambda: append_events(self.layout, name, make_event("node.starting", START))
        yield lambda: print_to(self.layout, name, "starting")
        for number in range(ROUNDS):
            while self._round < number:
                yield None
            yield from self._round_of(name, number)

    def _round_of(self, name: str, number: int) -> Iterator[Step]:
        key = RoundKey(number)
        line = msgspec.json.encode(make_row(self.layout, name, number)) + b"\n"
        yield lambda: write(self.layout.rollout_file(key, name), make_rollouts(name, key))
        yield lambda: self._append(name, line[:40])
        yield lambda: self._append(name, line[40:])
        yield lambda: self._submit(name, key)

    def _submit(self, name: str, key: RoundKey) -> None:
        reward = RewardFile(round=key.round, stage=0, reward=reward_of(key.round), peer_id=name, submitted_at=START)
        write(self.layout.reward_file(key, name), reward)
        self._done[name] = key.round + 1

    def _append(self, name: str, part: bytes) -> None:
        with self.layout.metrics_file(name).open("ab") as file:
            file.write(part)


class Meanwhile:
    """A store of whose run a few steps are done before each look at it."""

    def __init__(self, run: Run, goes_on: Step) -> None:
        self._store = run.store
        self._goes_on = goes_on

    def __getattr__(self, name: str) -> object:
        self._goes_on()
        return getattr(self._store, name)


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
        run = Run("exp", Meanwhile(run_of(layout), goes_on))  # type: ignore[arg-type]
        report = validate(run, partial=True)
        assert [problem for check in report.checks for problem in check.problems] == []


def test_such_a_run_comes_to_its_end_and_is_whole(tmp_path: Path) -> None:
    honest = HonestRun(tmp_path, random.Random(0), workers=2, killed=0)
    while honest.step():
        pass
    assert validate(run_of(honest.layout)).ok
