"""Which mixture a peer asks, and what is refused of one that changes it or leaves the run's tasks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from swarm.errors import ProtocolError
from swarm.node.sharing import admission
from swarm.node.sharing.admission import Mixtures
from swarm.tasks.universe import Universe
from swarm.types import RoundKey
from tests.unit.node.factories import DRAWS, TASKS, UNIVERSE


def reason(mixtures: Mixtures, peer: str, said: Any) -> str:
    with pytest.raises(ProtocolError) as refused:
        mixtures.of_file(peer, said)
    return refused.value.reason


@pytest.mark.parametrize("said", [{"chess": 1}, {}, {"bf": 0}, {"bf": -1.0}, {"bf": float("nan")}, {"bf": 1e300}])
def test_a_mixture_outside_of_the_run_is_refused(said: dict[str, float]) -> None:
    assert reason(Mixtures(UNIVERSE), "bob", said) == "outside_universe"


def test_a_peer_is_held_to_the_mixture_that_was_seen_first() -> None:
    known = Mixtures(UNIVERSE)
    known.registered("bob", {"bf": 2, "arc_1d": 1})
    assert known.of_file("bob", {"arc_1d": 1, "bf": 2}).weights == {"bf": 2, "arc_1d": 1}, "whatever their order"
    assert reason(known, "bob", {"bf": 1}) == "other_mixture"
    assert reason(known, "bob", UNSET) == "other_mixture"
    known.registered("bob", {"bf": 1})
    assert known.known("bob").weights == {"bf": 2, "arc_1d": 1}, "a registration changes nothing either"


def test_who_registers_nothing_is_held_to_its_first_file() -> None:
    known = Mixtures(UNIVERSE)
    assert known.of_file("bob", UNSET) == UNIVERSE.mixture
    assert reason(known, "bob", {"bf": 1}) == "other_mixture"
    known.registered("eve", {"chess": 1})
    assert reason(known, "eve", {"chess": 1}) == "outside_universe"
    assert known.of_file("eve", {"bf": 1}).tasks == ("bf",)


def test_names_without_end_take_no_memory_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MOST_MIXTURES", 8)
    known = Mixtures(UNIVERSE)
    for number in range(100):
        known.of_file(f"eve-{number}", UNSET)
    assert len(known._first) == 8


@given(st.dictionaries(st.sampled_from(TASKS), st.floats(0.001, 1000), min_size=1))
def test_a_node_asks_what_its_mixture_has_and_nothing_else(weights: dict[str, float]) -> None:
    mixture = UNIVERSE.mixture_of(weights)
    asked, usual = (DRAWS.questions("anna", RoundKey(3), 64, one) for one in (mixture, None))
    assert {question.task for question in asked} <= weights.keys()
    assert [question.seed for question in asked] == [question.seed for question in usual]


def test_equal_weights_of_all_tasks_are_no_mixture_of_ones_own() -> None:
    assert UNIVERSE.mixture_of(dict.fromkeys(TASKS, 2.0)) == UNIVERSE.mixture
    assert Universe(UNIVERSE.profiles, {"bf": 3.0, "arc_1d": 1.0, "base_conversion": 1.0}).mixture != UNIVERSE.mixture
