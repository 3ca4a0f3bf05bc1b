"""Decides what counts as right: reward 1 for it, and 0 for every other answer.

reasoning-gym pays for some answers that are not right: a wrong fraction or weekday earns 0.05 or 0.1, a sum that holds
the key as a part of it the share that it has, a decimal number may be off by one unit of its operands' last place. So
the mean reward rises without any right answer, and that a mean reward of 0.1 is knowledge cannot be told. Here a reward
is a right answer, and the mean reward is the share of them (pass@1).

**Datasets that a run defines** (is_right, asked):

    answer ──CHECKS──▶ ──the library's own score, at its full value──▶ right

Most datasets need the second step alone: what they pay for an answer in part is a wrong answer's. Those named here pay
in full for wrong answers too, for others' text beside a right one, or for any text. A check refuses these. Where it
decides by itself (DECIDES) the library is not asked.

    GRADED          a right answer that is longer than need be earns a part of the reward in the library; the question
                    asks for no shortest one, so it is right
    meaning         a question is drawn again whose key earns nothing, is too long to be said or stands in the question,
                    and one to which any text, or none, is right

**The strict profiles** of the nine tasks reward likewise (is_right, with_meaning; tiny-2: is_key):

    decimal_arithmetic        the key's number exactly, in any notation; the key rounds halves up, as the question asks
    fraction_simplification   one fraction in lowest terms and nothing else, or the whole number that it is
    propositional_logic       in tiny-2 what follows from the premises, and not from nothing, with one connective at
                              most; in tiny-3 and paper-2 what follows from all of them together (together.py)
    arc_1d                    in tiny-3 and paper-2 the rule changes something in every example and in the test

What stays in tiny-2: a premise that is copied follows from the premises; of 0.3 % of the questions of
propositional_logic nothing follows that says anything; in arc_1d two rules may explain one example.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from swarm.tasks.answer import ANSWER_LIMIT, key_of
from swarm.tasks.gym import safe_eval, together

Entry = dict[str, Any]
Check = Callable[[str, Entry], bool]
Raw = Callable[[str], float]
"""The library's own score of an answer."""


class Seeds(NamedTuple):
    """The seed of a question's origin, and the one that is tried for it."""

    asked: int
    tried: int


FULL = 1 - 1e-6
"""Shares of a whole, added up, are 1 but for rounding."""
GRADED: Mapping[str, float] = {"knight_swap": 0.05, "tower_of_hanoi": 0.05}
"""Dataset -> what it pays at most for moves that are allowed and do not solve the puzzle."""
UNTRIED = frozenset({"intermediate_integration"})
"""Datasets whose scorer takes as long as a question may. Some keys of this one are integrals left as they are, which
earn nothing; the integral that was meant does."""
SHOWN = frozenset({"polynomial_multiplication", "string_insertion", "string_manipulation"})
"""Datasets some of whose questions need no work: the key is a word of the question, as where no rule applies."""
JUNK = ("", "?", "no answer")
"""What is right to no question that means anything."""
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)"
_PROBABILITY = re.compile(
    r"\d{1,30}\s*/\s*[1-9]\d{0,30}|(?:\d{1,30}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,2})?", re.ASCII
)
_FRACTION = re.compile(r"\s*(?:\d+|\$?\s*(?:\d+\s*/\s*\d+|\\d?frac\s*{\s*\d+\s*}\s*{\s*\d+\s*})\s*\$?)\s*", re.ASCII)


def _form(pattern: str, flags: int = 0) -> Check:
    """Returns a check of an answer's form alone."""
    compiled = re.compile(rf"\s*(?:{pattern})\s*", re.ASCII | flags)
    return lambda answer, _entry: compiled.fullmatch(answer) is not None


def _same(read: Callable[[str], Any]) -> Check:
    """Returns a check that answer and key are read as the same."""
    return lambda answer, entry: bool(read(answer) == read(str(entry["answer"])))


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def _probability(answer: str, entry: Entry) -> bool:
    """Compares to three significant digits, and to the fourth place."""
    answer = answer.strip().replace(",", "")
    if not _PROBABILITY.fullmatch(answer):
        return False
    rational = entry["metadata"]["rational"]
    right = Fraction(rational["numerator"], rational["denominator"])
    return abs(Fraction(answer) - right) <= min(Fraction(1, 10_000), right / 1_000)


def _only_number(answer: str, entry: Entry) -> bool:
    """One number and nothing else; commas and a dollar sign are read over."""
    if not re.fullmatch(rf"\$?{_NUMBER}", plain := answer.strip().replace(",", ""), re.ASCII):
        return False
    return _number(plain.removeprefix("$")) == _number(entry["answer"])


def _sorted_numbers(answer: str, entry: Entry) -> bool:
    """The numbers themselves: the library takes any that are less than 1 away, and `NaN`."""
    found = json.loads(answer.replace("'", '"'))
    right = [float(each) for each in entry["metadata"]["sorted_numbers"]]
    if not isinstance(found, list) or len(found) != len(right):
        return False
    return all(abs(float(one) - two) <= 1e-9 * max(1.0, abs(two)) for one, two in zip(found, right, strict=True))


def _pooled(answer: str, entry: Entry) -> bool:
    """Compares to two decimal places, in rows and columns as they are."""
    rows = [[_number(part) for part in line.split()] for line in answer.strip().splitlines()]
    right = entry["metadata"]["solution"]
    if [len(row) for row in rows] != [len(row) for row in right]:
        return False
    pairs = [pair for row, wanted in zip(rows, right, strict=True) for pair in zip(row, wanted, strict=True)]
    return all(one is not None and abs(one - two) <= 0.0051 for one, two in pairs)


def _candidate(answer: str, entry: Entry) -> bool:
    found = _number(answer.strip().replace(",", ""))
    return found is not None and abs(found - entry["metadata"]["solution"]) <= 5e-6


def _fraction(answer: str, entry: Entry) -> bool:
    if not _FRACTION.fullmatch(answer):
        return False
    metadata = entry["metadata"]
    parts = [int(each) for each in re.findall(r"\d+", answer, re.ASCII)]
    return [*parts, 1][:2] == [metadata["simplified_numerator"], metadata["simplified_denominator"]]


def _decimal(answer: str, entry: Entry) -> bool:
    if not re.fullmatch(rf"{_NUMBER}(?:[eE][+-]?\d{{1,2}})?", answer.strip(), re.ASCII):
        return False
    return Decimal(answer.strip()) == Decimal(entry["answer"])


# ── expressions ─────────────────────────────────────────────────────────────────────────────────────────────────────
def _makes(target: str | int) -> Check:
    """Returns an expression of + - * / that uses each of the question's numbers once, and is exactly the target."""

    def check(answer: str, entry: Entry) -> bool:
        if not re.fullmatch(r"[\d\s+\-*/()]{1,300}", answer, re.ASCII):
            return False
        if sorted(map(int, re.findall(r"[0-9]{1,9}", answer))) != sorted(entry["metadata"]["numbers"]):
            return False
        wanted = target if isinstance(target, int) else entry["metadata"][target]
        try:
            return bool(safe_eval.fraction(answer.strip()) == wanted)
        except (SyntaxError, ValueError, ZeroDivisionError):
            return False

    return check


# ── lists ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def _lists_of_texts(answer: str, _entry: Entry) -> bool:
    found = json.loads(answer)
    return isinstance(found, list) and all(
        isinstance(one, list) and all(isinstance(text, str) for text in one) for one in found
    )


def _colours(answer: str, entry: Entry) -> bool:
    """An object of vertices and colours; a list of numbers is taken as one by the library."""
    found = json.loads(answer)
    names = {str(vertex) for vertex in entry["metadata"]["puzzle"]["vertices"]}
    return isinstance(found, dict) and found.keys() == names and all(type(colour) is int for colour in found.values())


# ── moves ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def _drives(answer: str, entry: Entry) -> bool:
    """Each move can be made to its end; the library skips those that cannot."""
    from reasoning_gym.games.rush_hour import Board

    if not re.fullmatch(r"\s*(?:[A-Z][+-]\d{1,2}[\s,]*)+", answer, re.ASCII):
        return False
    board = Board(entry["metadata"]["board_config"])
    pieces = board._pieces
    for name, steps in re.findall(r"([A-Z])([+-]\d+)", answer):
        number = ord(name) - ord("A")
        if number >= len(pieces):
            return False
        before = pieces[number].position
        board.move(name, int(steps))
        if pieces[number].position - before != pieces[number].stride * int(steps):
            return False
    return bool(board.solved)


_MOVES = r"Move disk \d+ from Peg \d+ to Peg \d+\.?"
_CLOCK = r"\d+:\d{2}(?::\d{2}(?:\.\d+)?)?"

CHECKS: Mapping[str, Check] = {
    "advanced_geometry": _form(rf"{_NUMBER}\s*°?|\(?\s*{_NUMBER}\s*,\s*{_NUMBER}\s*\)?"),
    "coin_flip": _probability,
    "complex_arithmetic": lambda answer, _entry: "nan" not in answer.lower(),
    "countdown": _makes("target"),
    "decimal_arithmetic": _decimal,
    "figlet_font": _same(lambda text: text.replace(" ", "").strip().lower()),
    "fraction_simplification": _fraction,
    "game_of_life": _same(lambda text: json.dumps(json.loads(text))),
    "game_of_life_halting": _same(lambda text: text.strip().lower()),
    "graph_color": _colours,
    "gsm_symbolic": _only_number,
    "letter_jumble": _same(lambda text: text.lower().split()),
    "number_format": _candidate,
    "number_sorting": _sorted_numbers,
    "palindrome_partitioning": _lists_of_texts,
    "polynomial_equations": lambda answer, _entry: None not in map(_number, answer.split(",")),
    "pool_matrix": _pooled,
    "puzzle24": _makes(24),
    "quantum_lock": _form(r"[A-C](?:\s*(?:→|->|,)?\s*[A-C])*", re.IGNORECASE),
    "rush_hour": _drives,
    "sokoban": _form(r"[LDUR]+"),
    "spell_backward": _same(lambda text: text.strip().lower()),
    "time_intervals": _form(rf"\d+(?:\s+days?)?|{_CLOCK}|\d+ days, {_CLOCK}"),
    "tower_of_hanoi": _form(rf"{_MOVES}(?:\s*\n\s*{_MOVES})*"),
    "word_sorting": _same(lambda text: [word.strip() for word in text.split(",")]),
}
"""Dataset -> what an answer has to be besides."""
DECIDES = frozenset(
    {"countdown", "fraction_simplification", "game_of_life_halting", "gsm_symbolic", "puzzle24", "rush_hour"}
)
"""Datasets whose check alone says what is right."""


def is_right(dataset: str, entry: Entry, answer: str, raw: Raw) -> bool:
    """Tells whether an answer is right to a question of a dataset. Raises what the library raises on odd input."""
    if dataset == "propositional_logic":
        metadata = entry["metadata"]
        return together.is_right(answer, metadata["premises"], len(metadata["variables"]))
    check = CHECKS.get(dataset)
    if check is not None:
        try:
            passed = check(answer, entry)
        except (TypeError, ValueError):  # no JSON, or JSON of another form
            passed = False
        if not passed or dataset in DECIDES:
            return passed
    found = raw(answer)
    return found >= FULL or (dataset in GRADED and found > GRADED[dataset] + 1e-6)


def asked(dataset: str, entry: Entry, seeds: Seeds, raw: Raw) -> Entry | None:
    """Returns the library's entry as it is asked, or None: it has no meaning, draw again."""
    found = with_meaning(dataset, entry, seeds.tried, together.TOLD)
    return found if found is not None and _has_meaning(dataset, found, raw) else None


def with_meaning(dataset: str, entry: Entry, seed: int, told: str) -> Entry | None:
    """Returns the entry as it is asked, or None where statements or a rule say nothing; `told` is what
    propositional_logic says besides."""
    if dataset == "propositional_logic":
        return together.asked(entry, seed, told)
    if dataset == "arc_1d":
        grids = [*entry["metadata"]["train_examples"], entry["metadata"]["test_example"]]
        return entry if all(grid["input"] != grid["output"] for grid in grids) else None
    return entry


def _has_meaning(dataset: str, entry: Entry, raw: Raw) -> bool:
    if dataset in UNTRIED:
        return True
    key = key_of(entry["answer"], entry["metadata"])
    if key is not None and (len(key.strip()) > ANSWER_LIMIT or not _earns(dataset, entry, key.strip(), raw)):
        return False
    if dataset in SHOWN and key is not None and re.search(rf"(?<!\S){re.escape(key)}(?!\S)", entry["question"]):
        return False
    return not any(_earns(dataset, entry, text, raw) for text in JUNK)


def _earns(dataset: str, entry: Entry, answer: str, raw: Raw) -> bool:
    try:
        return is_right(dataset, entry, answer, raw)
    except (MemoryError, RecursionError):  # of this process, not of the answer
        raise
    except Exception:  # noqa: BLE001 - the boundary: what the library raises at this answer
        return False


# ── propositional_logic in tiny-2 ───────────────────────────────────────────────────────────────────────────────────
_LITERAL = r"\s*(?:¬\s*)*[A-Z]\s*"
_BINARY = rf"{_LITERAL}[∧∨→↔]{_LITERAL}"
_VARIABLE = re.compile(r"\s*[A-Z]\s*")
_CONCLUSION = re.compile(rf"{_LITERAL}|{_BINARY}|\s*(?:¬\s*)*\({_BINARY}\)\s*")
"""The form of a conclusion that is looked at: what else the library takes is no answer here."""
TRIVIAL = 0.25
"""What the library pays for a conclusion that follows and is a variable, or always true."""


def is_key(task: str, entry: Entry, answer: str, raw: Raw) -> bool:
    """Tells the same in tiny-2, where a conclusion may follow from one statement alone."""
    if task != "propositional_logic":
        return is_right(task, entry, answer, raw)
    if not _CONCLUSION.fullmatch(answer):
        return False
    return raw(answer) >= (TRIVIAL if _VARIABLE.fullmatch(answer) else 1)
