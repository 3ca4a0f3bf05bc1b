"""Whose files are read where there are too many names, in which order, and who is not read for a while."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.node.sharing.selection import (
    FEWEST_REFUSALS,
    MOST_NAMED,
    NO_FAULT,
    OTHERS,
    WINDOW,
    IntakeCounts,
    PriorityLock,
    Quarantine,
    Selection,
    random_order,
)
from swarm.types import RoundKey
from swarm.wire.metrics import MetricsRow
from tests.patience import PATIENCE
from tests.unit.node.factories import make_row

pytestmark = pytest.mark.anyio


def test_clean_peers_come_before_live_ones_and_these_before_strangers() -> None:
    choice = Selection(9).choose({"a", "b", "c", "d", "e"}, clean={"d", "e"}, live={"c", "e"})
    assert choice.read == ["d", "e", "c", "a", "b"]
    assert (choice.passed_over, choice.flood) == ([], 0)


def test_names_beyond_the_limit_are_counted_once() -> None:
    selection, names = Selection(3), {f"n{number}" for number in range(10)}
    assert selection.choose(names, set(), {"n9"}) == (["n9", "n0", "n1"], [], 7)
    assert selection.flooded
    assert selection.choose(names | {"more"}, set(), {"n9"}) == ([], [], 0)


def test_a_live_peer_that_comes_after_a_flood_is_read() -> None:
    selection = Selection(3)
    selection.choose({f"n{number}" for number in range(10)}, set(), set())
    assert selection.choose({"n1", "zoe"}, set(), {"zoe"}).read == ["zoe"]


def test_known_peers_beyond_the_limit_are_passed_over_so_that_nobody_waits_for_them() -> None:
    selection, live = Selection(2), {"a", "b", "c", "d"}
    assert selection.choose(live, {"d"}, live) == (["d", "a"], ["b", "c"], 0)


names = st.sets(st.integers(0, 40).map(str))


@given(st.lists(st.tuples(names, names, names), max_size=8), st.integers(1, 6))
def test_whatever_comes_nobody_is_read_twice_and_never_more_than_twice_the_limit(
    looks: list[tuple[set[str], set[str], set[str]]], most: int
) -> None:
    selection, told = Selection(most), list[str]()
    floods = 0
    for there, clean, live in looks:
        choice = selection.choose(there, clean, live)
        told += choice.read
        assert {*choice.read, *choice.passed_over} <= there
        floods += bool(choice.flood)
    assert len(told) == len(set(told)) <= 2 * most
    assert floods <= 1


def test_among_a_crowd_of_live_strangers_a_newcomer_gets_in_sooner_or_later() -> None:
    crowd = {f"000{number}" for number in range(300)} | {"zoe"}
    for live in (crowd, set[str]()):
        stages = [Selection(100, random_order(b"7", RoundKey(round_))) for round_ in range(50)]
        assert 0 < sum("zoe" in stage.choose(crowd, set(), live).read for stage in stages) < 50


# ── one at a time, the lowest rank first ──────────────────────────────────────────────────────────────────────────────
async def test_the_lowest_rank_goes_first() -> None:
    turns, order = PriorityLock(), list[int]()

    async def ask(rank: int) -> None:
        async with turns.hold(rank):
            order.append(rank)
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks, turns.hold(0):
            for rank in (3, 1, 2, 1):
                tasks.start_soon(ask, rank)
            await anyio.wait_all_tasks_blocked()
    assert order == [1, 1, 2, 3]


async def test_with_nobody_better_in_line_letting_others_first_costs_no_turn() -> None:
    turns = PriorityLock()
    with anyio.fail_after(PATIENCE):
        async with turns.hold(1):
            await turns.let_others_first(1)


@pytest.mark.parametrize("at_work", [True, False], ids=["while others work", "when called"])
async def test_one_that_is_cancelled_in_line_leaves_its_place_to_the_next(at_work: bool) -> None:
    turns, order = PriorityLock(), list[str]()
    scope = anyio.CancelScope()

    async def cancelled() -> None:
        with scope:
            async with turns.hold(1):
                order.append("cancelled")

    async def following() -> None:
        async with turns.hold(2):
            order.append("following")

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks, turns.hold(0):
            tasks.start_soon(cancelled)
            tasks.start_soon(following)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            if at_work:
                await anyio.wait_all_tasks_blocked()
    assert order == ["following"]
    async with turns.hold(9):
        pass


# ── who is not read for now, by counts per round alone ────────────────────────────────────────────────────────────────
VANDAL = {"mallory": {"malformed": FEWEST_REFUSALS}}


def held_in(quarantine: Quarantine, rounds: range, refused: Mapping[str, Mapping[str, int]] = VANDAL) -> list[int]:
    """Rounds in which mallory is not read, if she offends in every one in which she is."""
    held = []
    for round_ in rounds:
        if quarantine.holds("mallory", round_):
            held.append(round_)
        quarantine.observe(round_, {}, {} if quarantine.holds("mallory", round_) else refused)
    return held


def test_most_groups_refused_is_quarantine_from_the_next_round_on() -> None:
    quarantine = Quarantine(5)
    assert quarantine.observe(0, {"mallory": 3, "bob": 3}, {"mallory": {"not_drawn": 4}}) == (["mallory"], [])
    assert [quarantine.holds("mallory", round_) for round_ in (0, 1, 5, 6)] == [True, True, True, False]
    assert quarantine.held(5) == ["mallory"]
    assert quarantine.held(6) == []


@pytest.mark.parametrize(("accepted", "refused"), [(4, 4), (0, 3)], ids=["half of them", "too few to judge by"])
def test_less_than_that_is_none(accepted: int, refused: int) -> None:
    assert Quarantine(5).observe(0, {"mallory": accepted}, {"mallory": {"malformed": refused}}) == ([], [])


def test_a_second_file_that_costs_too_much_is_quarantine_even_of_a_good_peer_and_a_first_is_none() -> None:
    quarantine, two_stages = Quarantine(5), {"mallory": {"scorer_abuse": 2}}
    assert quarantine.observe(0, {}, {"mallory": {"scorer_abuse": 1}}) == ([], [])
    assert quarantine.observe(1, {"mallory": 3}, {"mallory": {"scorer_abuse": 1}}) == (["mallory"], [])
    assert Quarantine(5).observe(0, {}, two_stages) == (["mallory"], [])


def test_what_is_longer_ago_than_the_window_does_not_count() -> None:
    quarantine = Quarantine(5)
    for round_ in range(0, 10 * WINDOW, WINDOW // 2):
        assert quarantine.observe(round_, {}, {"mallory": {"malformed": 1}}) == ([], [])
    quarantine = Quarantine(5)
    offences = [quarantine.observe(round_, {}, {"mallory": {"malformed": 1}})[0] for round_ in range(4)]
    assert offences == [[], [], [], ["mallory"]]


def test_it_lasts_as_long_each_time_and_only_what_comes_afterwards_counts() -> None:
    assert held_in(Quarantine(2), range(9)) == [1, 2, 4, 5, 7, 8]
    quarantine = Quarantine(2)
    quarantine.observe(0, {}, VANDAL)  # which is still within the window when it is over
    assert quarantine.observe(3, {"mallory": 0}, {"mallory": {"malformed": 1}})[0] == []


def test_released_is_said_once_also_where_rounds_were_skipped() -> None:
    quarantine = Quarantine(3)
    quarantine.observe(0, {}, VANDAL)
    assert [quarantine.observe(round_, {}, {})[1] for round_ in (1, 9, 10)] == [[], ["mallory"], []]


def test_zero_rounds_is_no_quarantine() -> None:
    assert held_in(Quarantine(0), range(20)) == []


peers = st.sampled_from(["abe", "bob", "carol"])
rows = st.lists(
    st.tuples(
        st.dictionaries(peers, st.integers(1, 9)),
        st.dictionaries(peers, st.dictionaries(st.sampled_from(["malformed", "scorer_abuse"]), st.integers(1, 9))),
    ),
    max_size=40,
)


@given(rows, st.integers(0, 40))
def test_told_the_same_rows_a_restarted_node_knows_what_it_knew_and_nobody_is_held_who_was_never_refused(
    history: list[tuple[dict[str, int], dict[str, dict[str, int]]]], killed_after: int
) -> None:
    whole, before = Quarantine(4), Quarantine(4)
    for round_, counts in enumerate(history):
        if round_ == killed_after:
            again = Quarantine(4)
            for earlier, told in enumerate(history[:round_]):
                again.observe(earlier, *told)
            before = again
        assert before.observe(round_, *counts) == whole.observe(round_, *counts)
        assert before.held(round_ + 1) == whole.held(round_ + 1)
        assert before.clean() == whole.clean()
        assert {*whole.held(round_ + 1)} <= {peer for _, refused in history[: round_ + 1] for peer in refused}


@pytest.mark.parametrize("reason", sorted(NO_FAULT))
def test_what_a_peer_did_not_sign_or_this_machine_does_not_take_is_not_held_against_it(reason: str) -> None:
    quarantine = Quarantine(4)
    for round_ in range(WINDOW):
        assert quarantine.observe(round_, {"bob": 1}, {"bob": {reason: 50}}) == ([], [])
    assert quarantine.clean() == {"bob"}


def test_those_that_are_not_named_are_not_quarantined_together() -> None:
    quarantine = Quarantine(4)
    assert quarantine.observe(0, {}, {OTHERS: {"flood": 1000, "malformed": 1000}}) == ([], [])
    assert quarantine.held(1) == []


# ── a metrics row stays of a bounded size, whoever publishes ──────────────────────────────────────────────────────────
def filled(counts: IntakeCounts) -> MetricsRow:
    row = make_row()
    counts.fill(row)
    return row


def test_of_many_refused_peers_the_worst_are_named_and_the_others_summed_up() -> None:
    counts = IntakeCounts()
    counts.refused_by_peer[OTHERS]["flood"] = 10**6
    for number in range(MOST_NAMED + 10):
        counts.refused_by_peer[f"n{number:03}"]["malformed"] = 2 if number % 2 else 1
        counts.false_claims[f"n{number:03}"] = 1 + number
    named = counts.refused_named()
    assert len(named) == MOST_NAMED
    assert {f"n{number:03}" for number in range(1, MOST_NAMED + 10, 2)} < named.keys()
    assert sum(sum(reasons.values()) for reasons in named.values()) == sum(counts.refused.values())
    assert named[OTHERS]["flood"] == 10**6
    assert "malformed" in named[OTHERS]
    claims = filled(counts).false_claims
    assert len(claims) == MOST_NAMED + 1
    assert sum(claims.values()) == counts.false_claims.total()


def test_of_few_all_are_named() -> None:
    counts = IntakeCounts()
    counts.refused_by_peer["mallory"]["ragged"] += 1
    counts.refused_by_peer["mallory"]["malformed"] += 2
    counts.accepted_by_peer["bob"] += 3
    row = filled(counts)
    assert row.refused_by_peer == {"mallory": {"malformed": 2, "ragged": 1}}
    assert (row.accepted_by_peer, row.false_claims, row.quarantined) == ({"bob": 3}, {}, [])
    assert counts.refused == {"malformed": 2, "ragged": 1}
