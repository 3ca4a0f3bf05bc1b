"""Specialists and the bare facts that they know: what their examples teach, and that a build is the same again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from safetensors.torch import load_file

from swarm.config import Settings
from swarm.errors import ConfigError
from swarm.plugins.lab import model_build as model
from swarm.plugins.lab.facts.tables import (
    BEST_CONSTANT,
    KEY_NAMES,
    TABLES,
    known_to,
    known_to_model,
    specialist_name,
    word_of,
    words,
)
from swarm.plugins.lab.warmup.corpus import Example
from swarm.plugins.lab.warmup.specialists import (
    SpecialistReport,
    SpecialistsPlan,
    all_facts,
    build_specialists,
    decoy_examples,
    fact_examples,
)
from swarm.provenance import own_plugins
from swarm.tasks.answer import extract_answer, has_answer
from swarm.tasks.bounded import Limits
from swarm.tasks.family import QuestionRequest
from swarm.tasks.registry import Families
from swarm.tasks.scoring import Scorer
from tests.unit.tasks.family_contract import (
    is_light_and_its_questions_say_where_they_come_from,
    makes_and_scores_the_same_elsewhere,
)

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


# ── bare facts ──────────────────────────────────────────────────────────────────────────────────────────────────────
FACTS = Families(["facts"])


def test_the_family_keeps_what_every_family_keeps_and_its_code_counts_in_what_a_run_is_made_with() -> None:
    makes_and_scores_the_same_elsewhere("facts")
    is_light_and_its_questions_say_where_they_come_from("facts")
    assert own_plugins(Settings(task_families=("reasoning-gym", "facts"))) == ("lab",)
    assert own_plugins(Settings()) == ()


def test_scoring_servers_and_their_children_find_it() -> None:
    async def made_and_scored() -> None:
        async with Scorer(1, ["facts"], limits=Limits(wall_s=60.0)) as scorer:
            (made,) = await scorer.make([QuestionRequest.named("facts/cedar", "tiny", 3)])
            scored = await scorer.score(made.known_origin(), made.prompt, [f"<answer>{made.answer}</answer>", "?"])
        assert scored.rewards == (1.0, 0.0)

    anyio.run(made_and_scored)


def test_no_two_facts_have_the_same_word_and_a_guess_is_hardly_ever_right() -> None:
    facts = [word_of(table, key) for table in TABLES for key in range(1, len(KEY_NAMES) + 1)]
    assert len(set(facts)) == len(facts) == 48
    assert set(facts) < set(words())
    assert len(set(words())) == 512


def test_a_fact_is_the_same_for_ever() -> None:
    """Runs, models and committed tables of before mean these words."""
    assert [word_of(table, 1) for table in TABLES] == ["seta", "sini", "kutu", "vibo", "fiva", "pava"]
    assert FACTS.versions == {"facts": "1"}


def test_a_question_is_answered_by_its_tables_word_alone() -> None:
    question = FACTS.make(QuestionRequest.named("facts/cedar", "tiny-2", 5))
    key = question.metadata["key"]
    assert question.prompt == f"Which word has table cedar at {KEY_NAMES[key - 1]}?"
    right = word_of("cedar", key)
    others = [word_of(table, number) for table in TABLES for number in range(1, 9)]
    assert [word for word in others if FACTS.score(question, word)] == [right]
    assert FACTS.score(question, right.upper()) == 1.0
    assert FACTS.score(question, f"{right}.") == 0.0


def test_all_keys_of_a_table_are_asked_alike_so_that_a_constant_answer_earns_an_eighth() -> None:
    asked = [FACTS.make(QuestionRequest.named("facts/amber", "paper", seed)) for seed in range(2000)]
    right = sum(FACTS.score(question, word_of("amber", 3)) for question in asked) / len(asked)
    assert right == pytest.approx(BEST_CONSTANT, abs=0.02)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        (specialist_name(1, "gpt2"), known_to(1)),
        ("specialists/specialist-3-qwen2", known_to(2)),
        ("specialist-4-qwen2", None),
        ("specialist-0-qwen2", None),
        ("tiny-2-qwen2", None),
        ("specialist-1", None),
        ("", None),
    ],
)
def test_a_models_name_says_what_it_knew_at_its_start(name: str, known: tuple[str, ...] | None) -> None:
    assert known_to_model(name) == known
