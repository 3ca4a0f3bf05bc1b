"""What a node's rows add up to is the same whether all of them are read or only the end of its log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from swarm.node.worker.row import TOTALS_EVERY, RunningTotals
from swarm.records.growing import Follower
from swarm.records.hints import KEPT
from swarm.records.progress import ENDS, NodeProgress, ProgressFollower
from swarm.records.rows import read_rows
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.metrics import MetricsRow
from tests.doubles.memory import MemoryPlace
from tests.unit.records.beside import Counting
from tests.unit.views.factories import append, make_experiment, run_of

LOG = keys.metrics("anna")
NAMES = st.sampled_from(["ben", "carl", "dora"])
COUNTS = st.dictionaries(NAMES, st.integers(0, 9), max_size=3)


def row(round_: int, **fields: Any) -> MetricsRow:
    known = {"node_id": "anna", "experiment": "exp", "total_agents": 3, "stage": 0, "my_reward": 0.1}
    return MetricsRow(timestamp=1.0 + round_, round=round_, **known | fields)  # type: ignore[arg-type]


def lines_of(rows: list[MetricsRow], totals: RunningTotals | None = None) -> list[bytes]:
    """The lines of a node that has written no others before, or goes on."""
    totals = totals or RunningTotals()
    for one in rows:
        totals.add_up(one)
    return [msgspec.json.encode(one) for one in rows]


def figures(progress: NodeProgress) -> dict[str, Any]:
    """All that others ask of it."""
    return {
        "rounds": progress.all_rounds(),
        "done": (progress.rounds_done, progress.own_rounds_done, progress.rounds_with_rows),
        "reward": progress.cumulative_reward,
        "sums": progress.sums,
        "counts": progress.counts,
        "refused": progress.refused_by_peer,
        "recent": list(progress.recent),
        "last rewards": dict(list(progress.measured_rewards.items())[-10:]),
        "torn": progress.torn,
    }


@st.composite
def rows_of_a_node(draw: st.DrawFn) -> list[MetricsRow]:
    numbers = draw(st.lists(st.integers(1, 3), min_size=1, max_size=300).map(lambda steps: [*accumulated(steps)]))
    drawn = st.fixed_dictionaries(
        {
            "my_reward": st.floats(0, 1),
            "tokens_generated": st.integers(0, 10**6),
            "accepted_by_peer": COUNTS,
            "refused_files": COUNTS,
            "false_claims": COUNTS,
            "refused_by_peer": st.dictionaries(NAMES, COUNTS, max_size=2),
        },
        optional={
            "clock": st.just("own"),
            "role": st.just("generator"),
            "local_groups": st.integers(0, 1),
            "store_writes": st.integers(0, 9),
        },
    )
    few = draw(st.lists(drawn, min_size=1, max_size=6))
    return [row(number, **few[at % len(few)]) for at, number in enumerate(numbers)]


def accumulated(steps: list[int]) -> list[int]:
    """Mostly one round after another, with at most ten gaps."""
    gaps = 0
    number, found = -1, []
    for step in steps:
        step = step if gaps < 10 else 1
        gaps += step > 1
        number += step
        found.append(number)
    return found


@settings(max_examples=60, deadline=None)
@given(rows=rows_of_a_node(), cuts=st.lists(st.integers(0, 300), max_size=3), again=st.none() | st.integers(0, 299))
def test_the_end_of_a_log_says_what_all_of_it_says(rows: list[MetricsRow], cuts: list[int], again: int | None) -> None:
    if again is not None and again < len(rows):  # a node that resumed may write a round again
        rows = [*rows, row(rows[again].round, my_reward=0.75)]
    place = MemoryPlace()
    written, store = lines_of(rows), place.open("anna")
    follower: ProgressFollower | None = None
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(written)], strict=True):
        store.append_records(LOG, written[begin:end], durable=False, once=False)
        fresh, whole = ProgressFollower(place.open(), LOG).look(), Follower(place.open(), LOG, NodeProgress).look()
        assert figures(fresh) == figures(whole)
        follower = follower or ProgressFollower(place.open(), LOG)
        assert figures(follower.look()) == figures(whole)


def long_log(rounds: int = 20 * KEPT) -> list[bytes]:
    padding = {"task_rewards": {f"task {number}": 0.25 for number in range(40)}}
    return lines_of([row(number, tokens_generated=7, **padding) for number in range(rounds)])


def counted(lines: list[bytes]) -> tuple[NodeProgress, int]:
    """What the lines add up to for who looks, and the bytes that were read for it."""
    place = MemoryPlace()
    place.open("anna").append_records(LOG, lines, durable=False)
    store = Counting(Run("exp", place.open()))
    return ProgressFollower(store, LOG).look(), store.bytes  # type: ignore[arg-type]


def test_a_look_at_a_long_log_reads_its_end_alone() -> None:
    lines = long_log()
    progress, read = counted(lines)
    assert sum(map(len, lines)) > 4 * ENDS[0]
    assert read <= ENDS[0]
    assert progress.sums["tokens_generated"] == 7 * len(lines)


@pytest.mark.parametrize(
    "changes",
    [
        {"rounds": [[5, 3]]},
        {"rounds": [[0, 9], [9, 12]]},
        {"rounds": [[2 * number, 2 * number] for number in range(65)]},
        {"rounds": [[0, 2**52]]},
        {"rounds": []},
        {"rounds": "all"},
        {"sums": {"tokens_generated": -5}},
        {"sums": {"tokens_generated": "many"}},
        {"counts": {"false_claims": {"ben": 1.5}}},
    ],
)
def test_totals_that_cannot_be_are_not_believed(changes: dict[str, Any]) -> None:
    lines = long_log()
    for place, line in enumerate(lines):
        if "totals" in (said := msgspec.json.decode(line)):
            lines[place] = msgspec.json.encode(said | {"totals": said["totals"] | changes})
    progress, read = counted(lines)
    assert read >= sum(map(len, lines))
    assert progress.sums["tokens_generated"] == 7 * len(lines)


def test_a_log_without_totals_and_one_of_an_earlier_version_are_read_whole() -> None:
    rows = [row(number, tokens_generated=7, my_reward=0.5) for number in range(3 * KEPT)]
    earlier = [msgspec.json.encode(one) for one in rows]
    assert counted(earlier)[0].sums["tokens_generated"] == 7 * len(rows)
    totals = RunningTotals()
    totals.take(rows)
    later = lines_of([row(3 * KEPT + number, tokens_generated=7) for number in range(TOTALS_EVERY)], totals)
    progress = counted([*earlier, *later])[0]
    assert progress.sums["tokens_generated"] == 7 * (len(rows) + TOTALS_EVERY)
    assert progress.rounds_with_rows == len(rows) + TOTALS_EVERY


def test_rounds_with_too_many_gaps_have_no_totals() -> None:
    lines = lines_of([row(2 * number) for number in range(200)])
    with_totals = [number for number, line in enumerate(lines, 1) if b'"totals"' in line]
    assert with_totals == list(range(TOTALS_EVERY, 65, TOTALS_EVERY))
    assert counted(lines)[0].rounds_with_rows == 200


def test_whole_rows_are_held_without_what_they_say_of_others(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=1)
    append(layout.root / keys.metrics("carl"), b"\n".join(lines_of([row(number) for number in range(TOTALS_EVERY)])))
    held = read_rows(run_of(layout), "carl").rows
    assert [one.totals for one in held] == [UNSET] * TOTALS_EVERY
