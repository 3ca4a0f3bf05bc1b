"""Seeds are functions of the run's seed and the purpose, today and in every other process."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swarm.algo.seeds import HELD_OUT_SEEDS, RUN_SEED_LIMIT, derive_seed, held_out_seed
from swarm.tasks.family import SEED_LIMIT

GOLDEN = {
    (42,): 644245626,
    (42, "tasks", "anna", 17, 0): 1032266595,
    (42, "question", "anna", 17, 0, 3): 589840762,
    (0, "external", "käthe", 0): 634130338,
}
"""Changing one of these changes every run that goes on: it would draw other questions than before."""


def test_seeds_are_those_of_earlier_versions() -> None:
    assert {purpose: derive_seed(*purpose) for purpose in GOLDEN} == GOLDEN
    assert held_out_seed(42, "held-out", "anna", 17) == 2146765027


purposes = st.lists(st.one_of(st.integers(0, 9), st.sampled_from(["a", "b", "1", "a1", ""])), max_size=4)


@given(st.integers(0, 9), purposes, st.integers(0, 9), purposes)
def test_distinct_purposes_have_distinct_seeds(
    seed: int, purpose: list[str | int], other_seed: int, other_purpose: list[str | int]
) -> None:
    same = (seed, purpose) == (other_seed, other_purpose)
    assert (derive_seed(seed, *purpose) == derive_seed(other_seed, *other_purpose)) == same


@given(st.integers(), st.lists(st.text(max_size=8)))
def test_seeds_stay_below_those_of_the_warm_up(seed: int, purpose: list[str]) -> None:
    assert 0 <= derive_seed(seed, *purpose) < RUN_SEED_LIMIT


@given(st.integers(), st.lists(st.text(max_size=8)))
def test_held_out_questions_have_seeds_that_no_run_draws(seed: int, purpose: list[str]) -> None:
    first, end = HELD_OUT_SEEDS
    assert RUN_SEED_LIMIT <= first <= held_out_seed(seed, *purpose) < end <= SEED_LIMIT


def test_lesson_few_distinct_questions_a_run_of_the_paper_repeats_almost_no_question_seed() -> None:
    seeds = [
        derive_seed(42, "question", f"worker-{node}", round_, 0, slot)
        for node in range(8)
        for round_ in range(250)
        for slot in range(8)
    ]
    assert len(set(seeds)) > 0.999 * len(seeds)
