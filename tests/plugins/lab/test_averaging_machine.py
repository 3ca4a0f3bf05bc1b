"""Whose weights are averaged, and how long they are waited for."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import pytest

from swarm.plugins.lab.averaging_machine import MOST, Average, AveragingMachine, Seen

UNTIL = 100.0


def machine(own: str = "b", count: int = 3, names: Set[str] = frozenset()) -> AveragingMachine:
    return AveragingMachine(own, count, names, UNTIL)


def seen(fit: str = "b", *, known: str = "ac", live: str | None = None, there: str | None = None, **more: Any) -> Seen:
    """Nodes have names of one letter."""
    refused, now = set(more.get("refused", "")), more.get("now", 0.0)
    there = there if there is not None else "".join({*fit, *refused} - {"b"})
    alive = known if live is None else live
    return Seen(now, set(known), set(alive), set(there), set(fit), refused, more.get("stopping", False))


def test_it_ends_when_all_expected_are_there_and_the_order_is_that_of_names() -> None:
    assert machine().look(seen("ba")) is None
    assert machine().look(seen("bca")) == Average(("a", "b", "c"))


@pytest.mark.parametrize("why", [{"now": UNTIL}, {"stopping": True}])
def test_who_is_missing_is_left_out_and_named(why: dict[str, Any]) -> None:
    assert machine().look(seen("ba", **why)) == Average(("a", "b"), ("c",))
    assert machine().look(seen("ba", known="a", **why)) == Average(("a", "b"), (), 1)


def test_who_is_refused_is_left_out_and_not_waited_for() -> None:
    assert machine().look(seen("ba", refused="c")) == Average(("a", "b"))


def test_who_is_not_registered_yet_is_waited_for() -> None:
    assert machine().look(seen("ba", known="a")) is None


def test_weights_of_who_has_finished_count_and_the_dead_are_not_waited_for() -> None:
    assert machine().look(seen("bca", live="")) == Average(("a", "b", "c"))
    assert machine("b", 2).expected(seen("b", known="ac", live="c")) == ["b", "c"]


def test_weights_of_who_is_not_registered_are_never_fetched() -> None:
    assert machine().to_fetch(seen("b", known="c", there="ac")) == ["c"]


def test_a_number_is_filled_by_the_first_names_and_no_more_files_are_fetched() -> None:
    assert machine(count=3).to_fetch(seen("b", known="acde", there="acde")) == ["a", "c"]
    assert machine(count=3).look(seen("bac", known="acde", there="acde")) == Average(("a", "b", "c"))
    assert machine("z", count=1).look(Seen(0.0, {"a"}, {"a"}, {"a"}, {"z"}, set())) == Average(())


def test_with_names_nobody_else_counts() -> None:
    named = machine("b", 2, {"b", "c"})
    assert named.to_fetch(seen("b", there="ac")) == ["c"]
    assert named.look(seen("ba", there="a")) is None
    assert named.look(seen("bc", there="ac")) == Average(("b", "c"))
    assert machine("b", 2, {"a", "c"}).look(seen("b")) == Average(())


def test_a_flood_of_registrations_is_looked_for_in_part_the_live_ones_first() -> None:
    known = {f"n{number}" for number in range(2 * MOST)}
    looked_for = machine().to_look_for(known, {"n9", "n1"}, set())
    assert len(looked_for) == MOST
    assert looked_for[:2] == ["n1", "n9"]
