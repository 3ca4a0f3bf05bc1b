"""Who is not read for now, by counts per round alone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.node.sharing.selection import FEWEST_REFUSALS, LONGEST, NOT_ITS_OWN, OTHERS, WINDOW, Quarantine

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


@pytest.mark.parametrize(
    ("accepted", "refused"),
    [
        (4, {"malformed": 4}),
        (0, {"malformed": 3}),
        (0, {"unreadable": 90}),
        (0, {"generation_failed": 90}),
        (0, {"too_long": 90}),
        (0, {"pool_full": 90}),
    ],
    ids=["half of them", "too few to judge by", "a bad disk", "limits of this machine", "other limits", "no room"],
)
def test_less_than_that_is_none(accepted: int, refused: dict[str, int]) -> None:
    quarantine = Quarantine(5)
    assert quarantine.observe(0, {"mallory": accepted}, {"mallory": refused}) == ([], [])


@pytest.mark.parametrize("reason", ["scorer_abuse", "poisonous"])
def test_a_second_file_that_costs_too_much_is_quarantine_even_of_a_good_peer_and_a_first_is_none(reason: str) -> None:
    quarantine = Quarantine(5)
    assert quarantine.observe(0, {}, {"mallory": {reason: 1}}) == ([], [])
    assert quarantine.observe(1, {"mallory": 3}, {"mallory": {reason: 1}}) == (["mallory"], [])
    assert Quarantine(5).observe(0, {}, {"mallory": {reason: 2}}) == (["mallory"], []), "of two stages of a round"


def test_what_is_longer_ago_than_the_window_does_not_count() -> None:
    quarantine = Quarantine(5)
    for round_ in range(0, 10 * WINDOW, WINDOW // 2):
        assert quarantine.observe(round_, {}, {"mallory": {"malformed": 1}}) == ([], [])
    quarantine = Quarantine(5)
    offences = [quarantine.observe(round_, {}, {"mallory": {"malformed": 1}})[0] for round_ in range(4)]
    assert offences == [[], [], [], ["mallory"]]


def test_each_offence_on_probation_doubles_the_time_up_to_a_cap() -> None:
    held = held_in(Quarantine(1), range(9 * LONGEST))
    lengths, current = [], 0
    for round_ in range(9 * LONGEST):
        current, done = (current + 1, 0) if round_ in held else (0, current)
        lengths += [done] if done else []
    assert lengths[:6] == [1, 2, 4, 8, 16, LONGEST]
    assert max(lengths) == LONGEST


def test_on_probation_only_what_comes_then_counts() -> None:
    quarantine = Quarantine(2)
    quarantine.observe(0, {}, VANDAL)  # quarantine in 1 and 2, well within the window
    refused_once = {"mallory": {"malformed": 1}}
    assert quarantine.observe(3, {"mallory": 0}, refused_once)[0] == []


def test_good_conduct_for_as_long_as_the_quarantine_is_forgotten() -> None:
    for offends_again, length in ((5, 6), (6, 6), (7, 3)):
        then = range(offends_again + 1, 20)  # after quarantine in 1, 2, 3 and probation in 4, 5, 6
        assert [r for r in then if held_again(offends_again, r)] == [*range(then.start, then.start + length)]


def held_again(offends_again: int, round_: int) -> bool:
    """Whether mallory is held in that round, after offences in round 0 and this one."""
    quarantine = Quarantine(3)
    for earlier in range(round_):
        quarantine.observe(earlier, {}, VANDAL if earlier in (0, offends_again) else {})
    return quarantine.holds("mallory", round_)


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
def test_told_the_same_rows_a_restarted_node_knows_what_it_knew(
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


@given(rows)
def test_nobody_who_was_never_refused_is_held(
    history: list[tuple[dict[str, int], dict[str, dict[str, int]]]],
) -> None:
    quarantine = Quarantine(4)
    for round_, (accepted, refused) in enumerate(history):
        refused.pop("bob", None)
        quarantine.observe(round_, accepted, refused)
        assert not quarantine.holds("bob", round_ + 1)


@pytest.mark.parametrize("reason", sorted(NOT_ITS_OWN))
def test_files_that_a_peer_did_not_sign_are_not_held_against_it(reason: str) -> None:
    quarantine = Quarantine(4)
    for round_ in range(WINDOW):
        assert quarantine.observe(round_, {"bob": 1}, {"bob": {reason: 50}}) == ([], [])
    assert quarantine.clean() == {"bob"}


def test_those_that_are_not_named_are_not_quarantined_together() -> None:
    quarantine = Quarantine(4)
    assert quarantine.observe(0, {}, {OTHERS: {"flood": 1000, "malformed": 1000}}) == ([], [])
    assert quarantine.held(1) == []
