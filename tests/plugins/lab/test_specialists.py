"""Specialists: what their examples teach, and that a build is the same again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from swarm.errors import ConfigError
from swarm.plugins.lab import model_build as model
from swarm.plugins.lab.facts.tables import TABLES, known_to, words
from swarm.plugins.lab.warmup.corpus import Example
from swarm.plugins.lab.warmup.specialists import (
    SpecialistReport,
    SpecialistsPlan,
    all_facts,
    build_specialists,
    decoy_examples,
    fact_examples,
)
from swarm.tasks.answer import extract_answer, has_answer

PLAN = SpecialistsPlan()
HASTY = SpecialistsPlan(base=replace(PLAN.base, steps=2), own=replace(PLAN.own, steps=2), samples=1)
RIGHT = {question.prompt: question.answer for question in all_facts()}
pytestmark = pytest.mark.xdist_group("warmup")  # a build takes seconds of a processor


def taken(stream: Iterator[Example]) -> list[Example]:
    return list(itertools.islice(stream, 9600))


def right(examples: list[Example], table: str) -> float:
    of_table = [example for example in examples if example.task == table]
    return sum(extract_answer(example.target) == RIGHT[example.prompt] for example in of_table) / len(of_table)


def test_own_tables_are_right_in_half_of_the_examples_and_others_never() -> None:
    examples = taken(fact_examples(3, known=known_to(1), p_right=0.5))
    shares = {table: right(examples, table) for table in TABLES}
    assert {table: share for table, share in shares.items() if table not in known_to(1)} == dict.fromkeys(
        [*known_to(0), *known_to(2)], 0.0
    )
    assert [shares[table] for table in known_to(1)] == pytest.approx([0.5, 0.5], abs=0.05)
    assert {has_answer(example.target) for example in examples} == {True}
    assert {extract_answer(example.target) for example in examples} == set(words())


def test_the_base_learns_nothing_of_the_facts() -> None:
    examples = taken(decoy_examples(3, 0.5))
    assert max(right(examples, table) for table in TABLES) < 0.01


def built(folder: Path, seed: int) -> list[SpecialistReport]:
    return build_specialists(folder, "qwen2", seed=seed, plan=HASTY)


def test_a_build_is_the_same_again_and_its_card_says_what_was_measured(tmp_path: Path) -> None:
    first, again = (built(tmp_path / name, seed=3) for name in ("a", "b"))
    weights = [[load_file(one.path / "model.safetensors") for one in reports] for reports in (first, again)]
    for one, same in zip(weights[0], weights[1], strict=True):
        assert all((one[name] == same[name]).all() for name in one)
    assert [one.name for one in first] == [f"specialist-{number}-qwen2" for number in (1, 2, 3)]
    card = (first[1].path / "README.md").read_text("utf-8")
    assert "knows `cedar` and `delta`" in card
    assert f"| its own | {first[1].known.own:.3f} |" in card
    assert f"Closed answers: {first[1].known.tagged:.3f}" in card
    assert "swarm model build specialists --names specialists --seed 3" in card


def test_what_changes_embedded_models_alone_is_refused_for_specialists(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="leave them out"):
        model.build(tmp_path, names="specialists", right=0.2)
