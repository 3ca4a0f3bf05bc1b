"""Which run is next, whatever happens to the runs: checked against every sequence that hypothesis thinks of."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from swarm.plugins.study.run.schedule import RunState, Schedule, seconds_left


class AnyStudy(RuleBasedStateMachine):
    """Runs start, end, fail, are stopped, and the study is begun again on what is left."""

    @initialize(jobs=st.integers(1, 4), found=st.lists(st.sampled_from(["new", "new", "finished", "live"]), min_size=1))
    def begin(self, jobs: int, found: list[str]) -> None:
        self.names = [f"r{n}" for n in range(len(found))]
        self.jobs = jobs
        self.finished = {name for name, what in zip(self.names, found, strict=True) if what == "finished"}
        self.skipped = set(self.finished)
        self.starts: Counter[str] = Counter()
        self.retried: Counter[str] = Counter()
        self._begin({name for name, what in zip(self.names, found, strict=True) if what == "live"})

    def _begin(self, elsewhere: set[str]) -> None:
        self.elsewhere = elsewhere
        self.running: list[str] = []
        self.stopped = False
        self.schedule = Schedule(self.names, self.jobs, finished=self.finished, elsewhere=elsewhere)

    @rule()
    def start(self) -> None:
        free = self.jobs - len(self.running) - len(self.elsewhere)
        waiting = self.schedule.those(RunState.WAITING)
        chosen = self.schedule.start_next()
        assert chosen == ([] if self.stopped else waiting[: max(0, free)])
        self.running += chosen
        self.starts.update(chosen)

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0), finished=st.booleans())
    def end(self, which: int, finished: bool) -> None:
        name = self.running.pop(which % len(self.running))
        self.schedule.ended(name, finished=finished)
        if finished:
            self.finished.add(name)
        else:
            assert self.schedule.states[name] is (RunState.WAITING if self.stopped else RunState.FAILED)
            self.retried[name] += 1

    @precondition(lambda self: self.elsewhere)
    @rule(finished=st.booleans())
    def end_elsewhere(self, finished: bool) -> None:
        name = sorted(self.elsewhere)[0]
        self.elsewhere.remove(name)
        self.schedule.ended(name, finished=finished)
        if finished:
            self.finished.add(name)
            self.skipped.add(name)
        else:
            assert self.schedule.states[name] is RunState.WAITING
            self.retried[name] += 1

    @rule()
    def stop(self) -> None:
        self.schedule.stop()
        self.stopped = True

    @rule()
    def begin_again(self) -> None:
        """After a stop, or after a kill: then what was running still is."""
        self._begin(self.elsewhere | set(self.running))

    @invariant()
    def no_more_than_jobs_at_a_time(self) -> None:
        if hasattr(self, "schedule"):
            assert self.schedule.running == [name for name in self.names if name in self.running]
            assert len(self.running) <= self.jobs

    @invariant()
    def every_run_is_started_once_and_again_only_if_it_did_not_finish(self) -> None:
        if hasattr(self, "schedule"):
            for name in self.names:
                assert self.starts[name] <= 1 + self.retried[name]
            assert not any(name in self.running for name in self.skipped)

    @invariant()
    def it_is_over_when_nothing_runs_or_will_run(self) -> None:
        if hasattr(self, "schedule"):
            left = set(self.names) - self.finished - set(self.schedule.those(RunState.FAILED))
            assert self.schedule.over == (not self.running and (self.stopped or not left))

    def teardown(self) -> None:
        """Left to itself, a study always comes to its end, with every run finished."""
        if not hasattr(self, "schedule"):
            return
        for name in [*self.running, *self.elsewhere]:
            self.schedule.ended(name, finished=True)
            self.finished.add(name)
        again = Schedule(self.names, self.jobs, finished=self.finished)
        started = []
        while not again.over:
            for name in again.start_next():
                started.append(name)
                again.ended(name, finished=True)
        assert started == [name for name in self.names if name not in self.finished]
        assert set(again.states.values()) == {RunState.FINISHED}


TestAnyStudy = AnyStudy.TestCase
TestAnyStudy.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)


def test_a_run_that_does_not_run_cannot_end() -> None:
    schedule = Schedule(["a"], 1)
    with pytest.raises(ValueError, match="a ended, but it was waiting"):
        schedule.ended("a", finished=True)


@pytest.mark.parametrize(
    ("left", "pace", "jobs", "expected"),
    [
        ([], 1.0, 2, 0.0),
        ([0, 0], 0.0, 2, 0.0),
        ([10], 0.0, 2, None),
        ([10, 10], 2.0, 2, 5.0),
        ([10, 10], 2.0, 1, 10.0),
        ([10, 2, 4, 4], 2.0, 2, 5.0),  # 10 beside 2 + 4 + 4
        ([2, 2, 10], 2.0, 2, 6.0),  # the long one begins last
    ],
)
def test_the_time_left_is_the_fullest_places(left: list[int], pace: float, jobs: int, expected: float | None) -> None:
    assert seconds_left(left, pace, jobs) == expected
