"""When something was going on, against counting seconds one by one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from swarm.node.base.context import Interval, Timeline, coarse, merge, overlap, total

GRID = 30
intervals = st.lists(
    st.tuples(st.integers(0, GRID), st.integers(0, GRID)).map(lambda ends: (float(min(ends)), float(max(ends))))
)


def cells(spans: list[Interval]) -> set[int]:
    """The seconds that intervals with whole ends cover."""
    return {second for begin, end in spans for second in range(int(begin), int(end))}


@given(intervals)
def test_merging_covers_the_same_time_once(spans: list[Interval]) -> None:
    merged = merge(spans)
    assert cells(merged) == cells(spans)
    assert all(left[1] < right[0] for left, right in pairwise(merged))
    assert total(merged) == len(cells(spans))


@given(intervals, intervals)
def test_overlap_is_the_time_that_both_cover(left: list[Interval], right: list[Interval]) -> None:
    assert overlap(merge(left), merge(right)) == len(cells(left) & cells(right))


@given(intervals, st.integers(1, 5))
def test_of_many_intervals_those_next_to_each_other_become_one(spans: list[Interval], most: int) -> None:
    merged = merge(spans)
    fewer = coarse(merged, most)
    assert len(fewer) == min(most, len(merged))
    assert cells(merged) <= cells(fewer)
    left_in = [later[0] - earlier[1] for earlier, later in pairwise(fewer)]
    closed = total(fewer) - total(merged)
    gaps = sorted(later[0] - earlier[1] for earlier, later in pairwise(merged))
    assert closed == sum(gaps[: len(gaps) - len(left_in)]), "the shortest gaps are closed"


class Watch:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@given(intervals, st.integers(0, GRID))
def test_a_timeline_is_cut_where_the_question_begins(spans: list[Interval], start: int) -> None:
    watch = Watch()
    timeline = Timeline(watch)
    for begin, end in spans:
        watch.now = begin
        with timeline.running():
            watch.now = end
    watch.now = GRID
    assert cells(timeline.since(start)) == {second for second in cells(spans) if second >= start}


def test_what_still_runs_counts_until_now() -> None:
    watch = Watch()
    timeline = Timeline(watch)
    with timeline.running():
        watch.now = 2.0
        with timeline.running():
            watch.now = 3.0
        assert timeline.since(1.0) == [(1.0, 3.0)]
        watch.now = 5.0
        assert timeline.since(0.0) == [(0.0, 5.0)]


def test_the_past_can_be_forgotten() -> None:
    watch = Watch()
    timeline = Timeline(watch)
    for begin in (0.0, 10.0):
        watch.now = begin
        with timeline.running():
            watch.now = begin + 1.0
    timeline.forget_before(5.0)
    assert timeline.since(0.0) == [(10.0, 11.0)]
