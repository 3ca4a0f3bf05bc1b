"""Samplers beyond the paper's, and how one is found by its name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.algo import registry as named
from swarm.algo.advantages import is_informative
from swarm.algo.samplers import SAMPLERS, UNIFORM, balanced, informative, whole_pool
from swarm.algo.sampling import Weighted, choose_tasks, sample_external
from swarm.config import SAMPLERS as NAMES
from swarm.config.names import LITERAL_RULES
from swarm.config.own_code import OwnCode
from swarm.errors import ConfigError
from swarm.types import ScoredGroup
from tests.unit.algo.factories import INFORMATIVE, UNINFORMATIVE, make_pool, make_scored


def test_the_names_of_the_settings_are_those_of_the_samplers() -> None:
    assert set(NAMES) == {UNIFORM, *SAMPLERS}


POOLS = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 2), st.sampled_from([INFORMATIVE, UNINFORMATIVE])
    ),
    unique_by=lambda made: made[:3],
    max_size=20,
).map(lambda made: [make_scored(peer, slot, round_=round_, rewards=r) for peer, slot, round_, r in made])


@pytest.mark.parametrize("name", SAMPLERS)
@given(POOLS, st.integers(0, 9), st.integers(), st.randoms(use_true_random=False))
def test_every_sampler_gives_so_many_different_informative_groups_whatever_arrived_first(
    name: str, pool: list[ScoredGroup], count: int, seed: int, shuffler: Random
) -> None:
    sampled = sample_external(pool, count, Random(seed), SAMPLERS[name])
    there = [scored for scored in pool if is_informative(scored.rewards)]
    assert len(sampled) == min(count, len(there))
    assert len({id(scored) for scored in sampled}) == len(sampled)
    assert all(scored in there for scored in sampled)
    shuffler.shuffle(pool)
    assert sample_external(pool, count, Random(seed), SAMPLERS[name]) == sampled


@given(st.integers(1, 12), st.integers(0, 12), st.integers(), st.floats(0.01, 100))
def test_the_questions_of_fewer_slots_are_the_first_of_those_of_more(
    few: int, more: int, seed: int, weight: float
) -> None:
    tasks = Weighted.of({"bf": 1, "arc_1d": weight, "base_conversion": 1})
    assert choose_tasks(tasks, few + more, Random(seed))[:few] == choose_tasks(tasks, few, Random(seed))


# ── informative ─────────────────────────────────────────────────────────────────────────────────────────────────────
def test_groups_come_in_proportion_to_the_variance_of_their_rewards() -> None:
    even, odd = make_scored("anna", rewards=(0.0, 1.0) * 4), make_scored("ben", rewards=(1.0,) + (0.0,) * 7)
    rng, draws = Random(5), 4_000
    first = Counter(informative([even, odd], 1, rng)[0].group.peer_id for _ in range(draws))
    share = 0.25 / (0.25 + 7 / 64)
    assert first["anna"] / draws == pytest.approx(share, abs=0.02)


# ── balanced ────────────────────────────────────────────────────────────────────────────────────────────────────────
def tasks_of(groups: list[ScoredGroup]) -> Counter[str]:
    return Counter(scored.group.question.task for scored in groups)


@pytest.mark.parametrize("seed", range(5))
def test_tasks_are_taken_in_turn(seed: int) -> None:
    pool = [make_scored("anna", slot, task="bf") for slot in range(9)]
    pool += [make_scored("anna", slot, task="arc_1d") for slot in range(9, 11)]
    assert tasks_of(balanced(pool, 4, Random(seed))) == {"bf": 2, "arc_1d": 2}
    assert tasks_of(balanced(pool, 6, Random(seed))) == {"bf": 4, "arc_1d": 2}


@pytest.mark.parametrize("seed", range(5))
def test_no_peer_comes_twice_while_another_has_the_same_task(seed: int) -> None:
    pool = [make_scored(peer, slot) for peer in ("anna", "ben", "zoe") for slot in range(3)]
    peers = Counter(scored.group.peer_id for scored in balanced(pool, 3, Random(seed)))
    assert set(peers.values()) == {1}


def test_the_newest_rounds_come_first() -> None:
    pool = [make_scored("anna", slot, round_=round_) for round_ in (3, 5, 4) for slot in range(2)]
    rounds = [scored.group.round for scored in balanced(pool, 5, Random(0))]
    assert rounds == [5, 5, 4, 4, 3]


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_ours_are_found_by_name() -> None:
    assert named.sampler("whole-pool") is whole_pool
    assert named.sampler("uniform") is None
    assert all(named.adaptive_rule(OwnCode(name)) for name in LITERAL_RULES)


def test_a_function_of_ones_own_is_found_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_samplers.py").write_text("def first(groups, count, rng):\n    return list(groups)[:count]\n")
    monkeypatch.syspath_prepend(tmp_path)
    pool = make_pool(5)
    assert named.sampler(OwnCode("my_samplers:first"))(pool, 2, Random(0)) == pool[:2]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module:draw", "No module named 'no_such_module'"),
        ("swarm.algo.samplers:best", "has no attribute 'best'"),
        ("swarm.algo.samplers:__name__", "must be a function, got str"),
    ],
)
def test_a_function_that_cannot_be_had_is_refused_by_name(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refusal:
        named.sampler(OwnCode(name))
    assert str(refusal.value).startswith("SWARM_SAMPLER (sampler): ")
    with pytest.raises(ConfigError, match=r"^SWARM_ADAPTIVE_RULE "):
        named.adaptive_rule(OwnCode(name))
