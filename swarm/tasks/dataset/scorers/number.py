"""`number`: the answer is a number of that value, however it is written; options tolerance and relative.

Taken are integers, decimals, an exponent, thousands in threes ("1,234"), a currency before it or a percent sign
behind it ("5%" is 0.05), fractions ("3/4", "1 1/2"), white space around it and a full stop behind it. Values are
compared exactly, as fractions: 0.1 + 0.2 is 0.3.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from swarm.tasks.dataset.scorers import Row

DIGITS_LIMIT = 400
"""Digits before or behind the point, and the largest exponent: a number of a gigabyte is a few characters long."""

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)\s*(?P<currency>[$€£¥]?)\s*(?P<sign_2>[+-]?)\s*"
    rf"(?:(?:(?P<whole>\d+)\s+)?(?P<over>{_DIGITS})\s*/\s*(?P<under>{_DIGITS})"
    rf"|(?P<decimal>{_DIGITS}(?:\.\d*)?|\.\d+)(?:[eE](?P<exponent>[+-]?\d{{1,4}}))?)"
    r"\s*(?P<percent>%?)",
    re.ASCII,
)


def score(row: Row, answer: str) -> float:
    """1 within the tolerance, which is the larger of the absolute and the relative one."""
    given, wanted = parse(answer), _wanted(row)
    allowed = max(Fraction(row.options.get("tolerance", 0.0)), Fraction(row.options.get("relative", 0.0)) * abs(wanted))
    return float(given is not None and abs(given - wanted) <= allowed)


def check(row: Row) -> None:
    """Raises ValueError where the column holds no number, or a tolerance is none."""
    for option in ("tolerance", "relative"):
        if not 0 <= row.options.get(option, 0.0) < math.inf:
            raise ValueError(f"{option} must be a number of 0 or more, got {row.options[option]}")
    _wanted(row)


def parse(text: str) -> Fraction | None:
    """The value of a number, None where the text is none."""
    found = _NUMBER.fullmatch(text.strip().removesuffix(".").rstrip().replace("−", "-"))
    if found is None or len(text) > DIGITS_LIMIT or abs(int(found["exponent"] or 0)) > DIGITS_LIMIT:
        return None
    if found["sign"] and found["sign_2"]:
        return None
    value = _magnitude(found)
    if value is None:
        return None
    value = value / 100 if found["percent"] else value
    return -value if "-" in (found["sign"], found["sign_2"]) else value


def _magnitude(found: re.Match[str]) -> Fraction | None:
    if found["decimal"]:
        value = Fraction(found["decimal"].replace(",", "").removesuffix("."))
        return value * Fraction(10) ** int(found["exponent"] or 0)
    under = int(found["under"].replace(",", ""))
    if under == 0:
        return None
    return int(found["whole"] or 0) + Fraction(int(found["over"].replace(",", "")), under)


def _wanted(row: Row) -> Fraction:
    value = None if isinstance(row.truth, bool) else parse(row.text)
    if value is None:
        raise ValueError(f"expected a number as the answer, got {row.truth!r:.80}")
    return value
