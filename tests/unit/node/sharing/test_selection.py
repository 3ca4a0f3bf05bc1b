"""Whose files are read where there are too many names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swarm.node.sharing.selection import Selection, random_order
from swarm.types import RoundKey


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
