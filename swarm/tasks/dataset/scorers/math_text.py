"""`math`: the answer is mathematics of the same value as the column's, in LaTeX or plain, boxed or not.

Read and compared by math-verify (https://github.com/huggingface/Math-Verify), which knows fractions, roots, sets,
intervals, matrices, equations and more. It reads LaTeX with a grammar and executes no text, but sympy does: what does
is replaced as for reasoning-gym (swarm.tasks.gym.disarm), what it imports late is imported here, and its time-outs,
which are signals, give way to the limits of swarm.tasks.bounded.

`\\$18` is read as a number, as the MATH datasets write it, and no answer is taken that only looks equal to the library:

    0.4999999999 for 1/2      decimals are compared to as many places as are written, six at least
    0.5,0.5 for 1/2           a list of several things is no single one, also where they are the same
    1:2 for 1/2               a ratio is the answer to a ratio
    0.4=0.5 for 1/2           an equation of numbers has to hold
    yadnoM for Monday         a word is no product of letters
"""

from __future__ import annotations

import functools
import logging
import re
from typing import Any

from swarm.tasks.dataset.scorers import ScorerFunctions, ScorerRow
from swarm.tasks.gym import safe_eval
from swarm.tasks.gym.disarm import disarm
from swarm.tasks.gym.imports import make_sympy_ready

LEAST_PLACES = 6
"""Places of decimals, as the library compares them."""
MOST_PLACES = 100
_PLACES = re.compile(r"[.](\d+)", re.ASCII)
_RATIO = re.compile(r"[\w)}\]]\s*(?::|\\colon(?![a-z]))\s*[\w({\\-]")
_LISTING = re.compile(r"[,;]")
_WORDS = re.compile(r"[A-Za-z]{4,}(?:[ -][A-Za-z]+)*")
_AROUND_WORDS = re.compile(r"\\(?:boxed|text[a-z]*|math[a-z]*)\b|[{}$\\()\[\].]")
_ESCAPED_DOLLAR = re.compile(r"(?<!\\)\\\$")
_UNBROKEN = dict.fromkeys(map(ord, "\u00a0\u202f\u2007\u2009"), " ")
_LOGGERS = ("math_verify", "latex2sympy2_extended")
_WARM = (
    *((r"\boxed{x^2+2x+1}", "(x+1)^2"), (r"\frac{1}{2}", "0.5"), (r"\{1,2\}", r"\{2,1\}"), (r"(1,\infty)", "x>1")),
    *((r"\sqrt{8}", r"2\sqrt{2}"), ("x=5", "5"), (r"10\%", "0.1"), (r"\sin^2 x+\cos^2 x", "1"), ("1,024", "2^{10}")),
    *((r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",) * 2, (r"\int_0^1 x dx", r"\frac12"), (r"\log_2 8", "3")),
    *((r"\binom52", "10"), ("5!", "120"), ("x^2-5x+6=0", "(x-2)(x-3)=0"), (r"\text{Monday}", "Monday")),
)
"""What is compared once, as tables are made and classes defined by then."""


def score(row: ScorerRow, answer: str) -> float:
    import math_verify  # seconds, and an extra: only who asks such a task has it, since `prepare`

    if _WORDS.fullmatch(row.text.strip()):
        return float(_words(row.text) == _words(answer))
    wanted, given = _read(_without_money(row.text)), _read(_without_money(answer))
    if not wanted or not given or _is_other(row.text, wanted[0], answer, given[0]):
        return 0.0
    places = _places(row.text, answer)
    if any(not math_verify.verify([one], [other], places, timeout_seconds=None) for one, other in _claims(given[0])):
        return 0.0
    return float(math_verify.verify(wanted, given, places, timeout_seconds=None))


def _without_money(text: str) -> str:
    """A dollar sign that is text is none of LaTeX's marks; spaces are spaces."""
    return _ESCAPED_DOLLAR.sub("", text).translate(_UNBROKEN)


def _words(text: str) -> str:
    """Returns a text without LaTeX's marks, spaces and case."""
    return " ".join(_AROUND_WORDS.sub(" ", text).split()).casefold()


def _places(*texts: str) -> int:
    """Returns to how many places decimals are compared: as many as any of them has."""
    written = [len(digits) for text in texts for digits in _PLACES.findall(text)]
    return min(max([LEAST_PLACES, *written]), MOST_PLACES)


def _is_other(wanted_text: str, wanted: Any, given_text: str, given: Any) -> bool:
    """Tells whether an answer is of another kind than what it is held against: a ratio, or a list."""
    if _RATIO.search(given_text) and ":" not in wanted_text and "colon" not in wanted_text:
        return not _is_set(wanted)
    return _is_set(given) and not _is_set(wanted) and (_length(given) > 1 or bool(_LISTING.search(given_text)))


def _is_set(found: Any) -> bool:
    """Sets, intervals and tuples."""
    return (hasattr(found, "is_FiniteSet") and bool(found.is_FiniteSet or getattr(found, "is_Interval", False))) or (
        type(found).__name__ in ("Tuple", "Union", "Intersection", "Complement", "ConditionSet")
    )


def _length(found: Any) -> int:
    """Returns how many things a set was written as, equal ones too."""
    return len(getattr(found, "_unsorted_args", None) or found.args)


def _claims(given: Any) -> list[tuple[Any, Any]]:
    """Returns both sides of equations between numbers alone, which the library does not look at: it takes the last
    side."""
    relations = given.args if type(given).__name__ == "And" else [given]
    return [(one.lhs, one.rhs) for one in relations if getattr(one, "is_Equality", False) and not one.free_symbols]


def check(row: ScorerRow) -> None:
    """Raises ValueError where there is nothing to compare with; that it can be read is not looked at: it takes long."""
    if not row.text.strip():
        raise ValueError("the answer is empty, which no completion's may be")


@functools.lru_cache(maxsize=16)
def _read(text: str) -> list[Any]:
    """Returns what math-verify finds; text without any mark of LaTeX's mathematics is mathematics as a whole."""
    import math_verify

    whole = text if "$" in text or r"\boxed" in text or r"\[" in text or r"\(" in text else f"${text}$"
    found: list[Any] = math_verify.parse(whole, parsing_timeout=None)
    return found


def prepare() -> None:
    """Import and warm up all that `score` needs, and take away what executes text, in a scoring server."""
    import math_verify.parser

    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what is logged of an error is read from source files
    make_sympy_ready()
    for one, other in _WARM:
        score(ScorerRow({}, one, {}), other)
    disarm()
    vars(math_verify.parser)["parse_expr"] = safe_eval.expression
    for cached in (_read, math_verify.parser.parse_latex_cached, math_verify.parser.parse_expr_cached):
        cached.cache_clear()


MATH = ScorerFunctions(score, check, prepare=prepare)
