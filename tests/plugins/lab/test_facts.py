"""Bare facts: every table has its own words, and nothing but the fact itself is right."""

from __future__ import annotations

import anyio
import pytest

from swarm.config import Settings
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
from swarm.provenance import own_plugins
from swarm.tasks.bounded import Limits
from swarm.tasks.family import QuestionRequest
from swarm.tasks.registry import Families
from swarm.tasks.scoring import Scorer
from tests.unit.tasks.family_contract import (
    is_light_and_its_questions_say_where_they_come_from,
    makes_and_scores_the_same_elsewhere,
)

FACTS = Families(["facts"])


def test_the_family_keeps_what_every_family_keeps() -> None:
    makes_and_scores_the_same_elsewhere("facts")
    is_light_and_its_questions_say_where_they_come_from("facts")


def test_scoring_servers_and_their_children_find_it() -> None:
    async def made_and_scored() -> None:
        async with Scorer(1, ["facts"], limits=Limits(wall_s=60.0)) as scorer:
            (made,) = await scorer.make([QuestionRequest.named("facts/cedar", "tiny", 3)])
            scored = await scorer.score(made.known_origin(), made.prompt, [f"<answer>{made.answer}</answer>", "?"])
        assert scored.rewards == (1.0, 0.0)

    anyio.run(made_and_scored)


def test_its_code_counts_in_what_a_run_is_made_with() -> None:
    assert own_plugins(Settings(task_families=("reasoning-gym", "facts"))) == ("lab",)
    assert own_plugins(Settings()) == ()


def test_no_two_facts_have_the_same_word_and_a_guess_is_hardly_ever_right() -> None:
    facts = [word_of(table, key) for table in TABLES for key in range(1, len(KEY_NAMES) + 1)]
    assert len(set(facts)) == len(facts) == 48
    assert set(facts) < set(words())
    assert len(set(words())) == 512


def test_a_fact_is_the_same_for_ever() -> None:
    """Runs, models and committed tables of before mean these words."""
    assert [word_of(table, 1) for table in TABLES] == FIRST_WORDS
    assert FACTS.versions == {"facts": "1"}


FIRST_WORDS = ["seta", "sini", "kutu", "vibo", "fiva", "pava"]


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
