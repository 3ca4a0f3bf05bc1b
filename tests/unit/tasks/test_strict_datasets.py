"""Datasets of reasoning-gym under scoring 2: a right answer earns 1, and no other answer anything.

Each answer in LAX is wrong, or has text beside a right one, and the library pays for it in full.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from swarm.config.task_table import newest
from swarm.tasks.answer import key_of
from swarm.tasks.definitions import profile_of
from swarm.tasks.family import QuestionRequest
from swarm.tasks.gym import strict
from swarm.tasks.gym.entries import Entry, GymDefinition, Scoring, entry, score
from swarm.tasks.registry import Families
from swarm.tasks.scoring import FULL_ANSWER
from swarm.types import Question

SEEDS = range(100, 160)


class Asked(NamedTuple):
    """A dataset, asked in this process by one of its scorings."""

    families: Families
    request: QuestionRequest

    def question(self, seed: int) -> Question:
        return self.families.make(msgspec.structs.replace(self.request, seed=seed))

    def score(self, question: Question, answer: str) -> float:
        return self.families.score(question, answer)


def asked(dataset: str, **parameters: Any) -> Asked:
    tasks = {dataset: newest(parameters)}
    return Asked(Families(tasks=tasks), QuestionRequest(dataset, profile_of(dataset, tasks[dataset]), 0))


class Library(NamedTuple):
    """What the library itself asks with a seed, and pays."""

    definition: GymDefinition
    made: Entry

    def pays(self, answer: str) -> float:
        return score(self.definition, self.made, answer)


def library(dataset: str, seed: int, **parameters: Any) -> Library:
    definition = GymDefinition(dataset, dataset, parameters, Scoring())
    return Library(definition, entry(definition, seed))


def key(question: Question) -> str:
    found = key_of(question.answer, question.metadata)
    assert found is not None
    return found.strip()


# ── what the library pays for in full ───────────────────────────────────────────────────────────────────────────────
Trick = Callable[[Question], str | None]
"""A wrong answer to a question; None: not to this one."""


def cut_to_24(question: Question) -> str | None:
    for a, b, c, d in itertools.permutations(question.metadata["numbers"]):
        for text in (f"{a}*{b}/{c}+{d}", f"{a}*{b}-{c}/{d}", f"({a}+{b})*{c}/{d}", f"{a}+{b}+{c}/{d}"):
            if 24.05 < eval(text) < 24.95:
                return text
    return None


def one_percent_off(question: Question) -> str | None:
    rows = [" ".join(f"{value * 1.009}" for value in row) for row in question.metadata["solution"]]
    return "\n".join(rows) if max(map(max, question.metadata["solution"])) >= 2 else None


def last_place_off(question: Question) -> str:
    places = max((len(number) for number in re.findall(r"\d\.(\d+)", question.prompt)), default=0)
    return f"{float(key(question)) + 0.9 * 10**-places:.12f}"


def numbers_of(question: Question) -> str:
    return " + ".join(map(str, question.metadata["numbers"]))


def key_and(text: str, of: str = "") -> Trick:
    """The key with a text behind it; of one type of question, where it has types."""
    return lambda q: f"{key(q)}{text}" if not of or q.metadata["task_type"] == of else None


def zero(question: Question) -> str | None:
    return "0" if key(question) != "0" else None


LAX: list[tuple[str, Trick, dict[str, Any]]] = [
    ("coin_flip", zero, {}),
    ("coin_flip", zero, {"min_trials": 15, "max_trials": 15, "allow_at_least": False}),
    ("number_sorting", lambda q: str(["NaN"] * len(q.metadata["sorted_numbers"])).replace("'", ""), {}),
    ("number_sorting", lambda q: str([float(each) + 0.9 for each in q.metadata["sorted_numbers"]]), {}),
    ("countdown", lambda q: f"{q.metadata['target']}e0 + 0e0*({numbers_of(q)})", {}),
    ("countdown", lambda q: f"{q.metadata['target']:#x} + 0x0*({numbers_of(q)})", {}),
    ("puzzle24", cut_to_24, {}),
    ("letter_jumble", key_and(" junk"), {}),
    ("word_sorting", key_and(", junk"), {}),
    ("spell_backward", key_and("x"), {"min_word_len": 6, "max_word_len": 6}),
    ("figlet_font", key_and("x"), {"min_word_len": 10, "max_word_len": 10, "static_word": "strawberry"}),
    ("game_of_life", lambda q: f"{key(q)[:-1]}, [7]]", {"grid_size_x": 4, "grid_size_y": 4, "filled_cells": 6}),
    ("pool_matrix", one_percent_off, {}),
    ("polynomial_equations", key_and(", junk"), {}),
    ("fraction_simplification", key_and(" junk"), {"styles": ["latex_frac"]}),
    ("decimal_arithmetic", last_place_off, {}),
    ("quantum_lock", lambda q: f"Press: {key(q)}", {}),
    ("sokoban", key_and(" junk"), {"max_w": 7, "max_h": 7}),
    ("number_format", lambda q: f"{float(key(q)) + 0.009}", {}),
    ("gsm_symbolic", key_and(" or 7"), {}),
    ("gsm_symbolic", lambda q: f"-{key(q)}", {}),
    ("time_intervals", key_and(" or so", of="date"), {}),
    ("graph_color", lambda q: str([*(of := q.metadata["possible_answer"]).values(), *range(len(of))]), {}),
    ("advanced_geometry", key_and(", junk", of="orthocenter"), {}),
    ("complex_arithmetic", lambda _: "nan", {}),
    ("game_of_life_halting", lambda q: "False" if key(q) == "True" else "True", {}),
]
SLOW = {"advanced_geometry", "figlet_font", "sokoban", "puzzle24", "countdown", "polynomial_equations"}


@pytest.mark.parametrize(
    ("dataset", "trick", "parameters"),
    [pytest.param(*row, marks=[pytest.mark.engine] if row[0] in SLOW else [], id=row[0]) for row in LAX],
)
def test_what_the_library_pays_in_full_for_a_wrong_answer_earns_nothing(
    dataset: str, trick: Trick, parameters: dict[str, Any]
) -> None:
    strict = asked(dataset, **parameters)
    for seed in SEEDS:
        question, lax = strict.question(seed), library(dataset, seed, **parameters)
        if (wrong := trick(question)) is None or lax.made[1]["question"] != question.prompt:
            continue
        assert strict.score(question, wrong) == 0.0, wrong
        assert strict.score(question, key(question)) == 1.0, key(question)
        if lax.pays(wrong) >= FULL_ANSWER:
            return
    pytest.fail(f"the library pays for none of {SEEDS}")


def test_cars_that_stop_before_the_end_of_a_move_solve_nothing() -> None:
    entry = {"answer": None, "metadata": {"board_config": "o" * 12 + "AA" + "o" * 22}}
    for answer, right in (("A+4", True), ("A+2 A+2", True), ("A+9", False), ("A+3", False), ("B+1A+4", False)):
        assert strict.is_right("rush_hour", entry, answer, lambda _answer: 1.0) is right


def test_a_text_is_no_list_of_its_letters() -> None:
    entry = {"answer": '[["a", "b"]]', "metadata": {"solution": [["a", "b"]]}}
    for answer, right in (('[["a", "b"]]', True), ('["ab"]', False), ("7", False), ("no", False)):
        assert strict.is_right("palindrome_partitioning", entry, answer, lambda _answer: 1.0) is right


# ── what is right ───────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("dataset", "spelt"),
    [
        ("chain_sum", lambda text: f"+{text}.0" if text[0] != "-" else f"{text}.0"),
        ("number_sorting", lambda text: text.replace("'", "")),
        ("coin_flip", lambda text: f"{float(text):.5g}"),
        ("gsm_symbolic", lambda text: f"${text}.00"),
        ("fraction_simplification", lambda text: "/".join(re.findall(r"\d+", text))),
        ("spell_backward", str.upper),
        ("pool_matrix", lambda text: text.replace(".0 ", " ")),
    ],
)
def test_other_spellings_of_a_right_answer_are_right(dataset: str, spelt: Callable[[str], str]) -> None:
    one = asked(dataset)
    for seed in range(100, 106):
        question = one.question(seed)
        assert one.score(question, spelt(key(question))) == 1.0, (key(question), spelt(key(question)))


def test_a_way_that_is_longer_than_need_be_is_right_where_the_shortest_is_not_asked_for() -> None:
    strict = asked("tower_of_hanoi")
    question = strict.question(100)
    (first, *_), (disk, start, _) = key(question).splitlines(), re.findall(r"\d+", key(question))[:3]
    back = re.sub(r"from Peg (\d+) to Peg (\d+)", r"from Peg \2 to Peg \1", first)
    longer = "\n".join([first, back, key(question)])
    assert (disk, start) == ("1", str(question.metadata["start_peg"]))
    assert strict.score(question, longer) == 1.0 > library("tower_of_hanoi", 100).pays(longer)
    assert strict.score(question, "\n".join(key(question).splitlines()[:-1])) == 0.0


# ── questions without meaning ───────────────────────────────────────────────────────────────────────────────────────
def test_a_question_whose_key_is_empty_is_drawn_again() -> None:
    small = {"min_base": 2, "max_base": 3, "min_value": 0, "max_value": 3}
    assert "" in {library("base_conversion", seed, **small).made[1]["answer"] for seed in SEEDS}
    made = [asked("base_conversion", **small).question(seed) for seed in SEEDS]
    assert all(question.answer for question in made)
    assert made == [asked("base_conversion", **small).question(seed) for seed in SEEDS], "the same on every node"


@pytest.mark.parametrize("dataset", ["string_insertion", "string_manipulation"])
def test_a_string_that_no_rule_changes_is_drawn_again(dataset: str) -> None:
    entries = [library(dataset, seed).made[1] for seed in SEEDS]
    assert any(one["question"].split()[-1] == one["answer"] for one in entries)
    questions = [asked(dataset).question(seed) for seed in SEEDS]
    assert not any(one.prompt.split()[-1] == key(one) for one in questions)


def test_a_dataset_that_asks_nothing_with_a_meaning_says_so() -> None:
    literals = asked("propositional_logic", min_complexity=1, max_complexity=1)  # P, and not Q: nothing to derive
    products = asked("polynomial_multiplication", min_terms=1, max_terms=1)  # "Calculate 4680*z"
    for nothing in (literals, products):
        with pytest.raises(ValueError, match="has no meaning"):
            nothing.question(1)
