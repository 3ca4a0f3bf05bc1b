"""What an answer is worth, scorer by scorer: the pure functions by themselves."""

from __future__ import annotations

import json
from fractions import Fraction
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.tasks.dataset.scorers import SCORERS, ScorerFunctions, ScorerRow, json_text, number


def row(truth: Any, **options: Any) -> ScorerRow:
    return ScorerRow({"answer": truth}, truth, options)


def functions(scorer: str) -> ScorerFunctions:
    module, _, name = SCORERS[scorer].functions.partition(":")
    found: ScorerFunctions = getattr(import_module(module), name)
    return found


def reward(scorer: str, truth: Any, answer: str, **options: Any) -> float:
    found = functions(scorer)
    found.check(row(truth, **options))
    return float(found.score(row(truth, **options), answer))


@pytest.mark.parametrize(
    ("scorer", "truth", "options", "right", "wrong"),
    [
        ("exact", "Paris", {}, [" Paris\n"], ["paris", "Paris."]),
        ("exact", "Paris", {"ignore_case": True}, ["PARIS"], []),
        ("exact", 7, {}, ["7"], []),
        ("number", "1234", {}, ["1,234"], ["12,34"]),
        ("number", "1,234.50", {}, ["$1234.5"], []),
        ("number", "-5", {}, ["-$5", "$-5", "−5"], []),
        ("number", "1.5", {}, ["1 1/2", "1\u00a01/2"], []),
        ("number", 0.3, {}, ["3e-1"], []),
        ("number", "3.14159", {"tolerance": 0.01}, ["3.14"], ["3.1"]),
        ("number", "1000", {"relative": 0.01}, ["1009"], ["1011"]),
        ("number", "5", {}, [r"\boxed{5}", "$5$", r"\[5.\]", "5 €", "5\u00a0€.", "\ufeff\u00a05"], ["5%", "5 or 6"]),
        ("number", "5", {}, [], ["1/0", "-+5", "nan", "٥", "1e999999999", "$5€", r"\boxed{5} or \boxed{6}", "$"]),
        ("number", "18", {}, [r"$\$18$"], []),
        ("number", "-18", {}, [r"-\$18"], []),
        ("number", "9500", {}, ["$9{,}500$", "9\u202f500", "9\u00a0500.0"], ["9 500", r"95{,}00"]),
        ("number", r"\boxed{9{,}500}", {}, ["9500"], []),
        ("number", "0.05", {}, [r"5\%"], []),
        ("choice", "B", {}, ["(b)", "B."], ["A or B", "", "(B"]),
        ("choice", 1, {}, ["b)"], []),
        ("choice", "(C)", {}, ["C"], []),
        ("json", '{"a": 1, "b": [true, null]}', {}, ['{"b": [true, null], "a": 1.0}'], []),
        ("json", {"a": 1}, {}, ['{"a": 1}'], ['{"a": 2}']),
        ("json", "1", {}, ["1.0"], ["true", "NaN"]),
        ("json", "[1]", {}, ["[1]"], ["[1, 1]", "[" * 1_000]),
        ("regex", r"\d{4}-\d\d", {}, ["2024-05"], ["2024-05-01"]),
        ("regex", "yes|no", {"ignore_case": True}, ["YES"], ["y"]),
    ],
)
def test_right_answers_earn_one_and_others_nothing(
    scorer: str, truth: Any, options: dict[str, Any], right: list[str], wrong: list[str]
) -> None:
    assert {answer: reward(scorer, truth, answer, **options) for answer in right} == dict.fromkeys(right, 1)
    assert {answer: reward(scorer, truth, answer, **options) for answer in wrong} == dict.fromkeys(wrong, 0)


@pytest.mark.parametrize(
    ("scorer", "truth", "options", "problem"),
    [
        ("exact", "  ", {}, "empty"),
        ("exact", "x" * 2_001, {}, "2,001 characters, and of a completion 2,000 are read"),
        ("exact", "</answer>", {}, "which end a completion's"),
        ("exact", "say <answer> and go", {}, "which end a completion's"),
        ("number", "many", {}, "expected a number"),
        ("number", True, {}, "expected a number"),
        ("choice", "Paris", {}, "expected a letter"),
        ("choice", 26, {}, "expected a letter"),
        ("json", "{", {}, "truncated"),
        ("regex", "(", {}, "no regular expression"),
        ("regex", ".*", {}, "matches the empty text"),
        ("regex", 7, {}, "as text"),
    ],
)
def test_a_row_that_no_answer_can_be_scored_against_is_refused(
    scorer: str, truth: Any, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        functions(scorer).check(row(truth, **options))


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**9), st.sampled_from(["", " ", "\n"]))
def test_a_number_is_its_value_however_it_is_written(value: int, under: int, space: str) -> None:
    assert number.parse(f"{space}{value:,}{space}") == value
    assert number.parse(f"{value}/{under}") == Fraction(value, under)
    assert number.parse(f"{value}%") == Fraction(value, 100)


_TYPESET = {
    r"\boxed{%s}": 1,
    "$%s$": 1,
    "$$%s$$": 1,
    r"\(%s\)": 1,
    r"\$%s": 1,
    "$%s": 1,
    "%s €": 1,
    "%s.": 1,
    "\u00a0%s\u200b": 1,
    r"%s\%%": 100,
}


@given(
    st.integers(0, 10**30),
    st.sampled_from([",", "{,}", r"\,", "\u00a0", "\u202f", "\u2009"]),
    st.sampled_from([*_TYPESET]),
)
def test_a_number_is_its_value_however_it_is_typeset(value: int, between: str, around: str) -> None:
    written = around % f"{value:,}".replace(",", between)
    assert number.parse(number.plain(written)) == Fraction(value, _TYPESET[around])


@given(st.from_regex(r"[-+$€ 0-9.,/eE%]{0,12}", fullmatch=True))
def test_what_was_a_number_before_it_could_be_typeset_is_the_same_number(text: str) -> None:
    before = number.parse(text)
    assert before is None or number.parse(number.plain(text)) == before


@given(st.text(max_size=40) | st.from_regex(r"[-+$ 0-9.,/eE%]{0,20}", fullmatch=True), st.integers(0, 10**6))
def test_whatever_is_written_earns_zero_or_one_and_raises_nothing(answer: str, truth: int) -> None:
    for scorer in ("number", "choice", "json", "exact"):
        assert reward(scorer, truth % 26, answer) in (0, 1)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)


@given(_VALUES, _VALUES)
def test_json_is_equal_to_itself_and_to_nothing_that_is_written_otherwise(one: Any, other: Any) -> None:
    try:
        written = json.dumps(one)
        json_text.loads(written)
    except ValueError:
        return
    assert reward("json", written, json.dumps(one, indent=2)) == 1
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert not same or json_text.equal(one, other)
    assert json_text.equal(one, other) == json_text.equal(other, one)
