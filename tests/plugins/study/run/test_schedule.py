"""Which run is next, whatever happens to the runs; that it is so with processes is in test_runner.py."""

from __future__ import annotations

import pytest

from swarm.plugins.study.run.schedule import RunState, Schedule, seconds_left


def test_runs_are_handed_out_in_their_order_as_places_come_free_and_those_that_were_stopped_wait() -> None:
    schedule = Schedule(list("abcde"), 2, finished=["a"], elsewhere=["b"])
    assert schedule.start_next() == ["c"], "b has a place, though somebody else started it"
    assert schedule.start_next() == []
    schedule.ended("b", finished=False)
    assert schedule.start_next() == ["b"], "what it left behind goes on"
    schedule.ended("c", finished=False)
    assert schedule.start_next() == ["d"]
    assert schedule.those(RunState.FAILED) == ["c"], "one cause is not met again and again"
    schedule.stop()
    schedule.ended("b", finished=False)
    assert (schedule.start_next(), schedule.over) == ([], False)
    schedule.ended("d", finished=True)
    assert schedule.over
    assert schedule.those(RunState.WAITING) == ["b", "e"]
    with pytest.raises(ValueError, match="e ended, but it was waiting"):
        schedule.ended("e", finished=True)


def test_a_study_is_over_when_nothing_runs_or_will_run() -> None:
    schedule = Schedule(["a", "b"], 1, elsewhere=["b"])
    for running in (["b"], ["a"]):
        assert not schedule.over
        schedule.ended(*running, finished=True)
        schedule.start_next()
    assert schedule.over


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
