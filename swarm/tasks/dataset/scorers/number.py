"""`number`: the answer is a number of that value, however it is written; options tolerance and relative.

Taken are integers, decimals, an exponent, thousands in threes ("1,234"), a currency before it or a percent sign
behind it ("5%" is 0.05), fractions ("3/4", "1 1/2"), white space around it and a full stop behind it. Values are
compared exactly, as fractions: 0.1 + 0.2 is 0.3. What LaTeX and typography add is taken as well: `\\boxed{5}`, `$5$`,
`\\$5`, `9{,}500`, a currency behind the number ("5 €"), and spaces that do not break, between threes of digits too.
"""

from __future__ import annotations

import re
from fractions import Fraction

from swarm.tasks.dataset.scorers import ScorerFunctions, ScorerRow

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
_MARKS = ((r"\boxed{", "}"), ("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_WRAPPED = tuple(re.compile(f"{re.escape(before)}(.+){re.escape(behind)}", re.DOTALL) for before, behind in _MARKS)
_UNBROKEN = "\u00a0\u202f\u2007\u2009"
"""Spaces at which no line breaks, and the thin one."""
_NO_WIDTH = "\u200b\u2060\ufeff"
_BETWEEN_THREES = re.compile(rf"(?<=[0-9])(?:\{{,\}}|\\,|[{_UNBROKEN}])(?=[0-9]{{3}}(?![0-9]))")
_CURRENCY_BEHIND = re.compile(r"(?P<number>[^$€£¥]*[0-9])\s*[$€£¥]")


def score(row: ScorerRow, answer: str) -> float:
    """1 within the tolerance, which is the larger of the absolute and the relative one."""
    given, right = parse(plain(answer)), wanted(row)
    allowed = max(Fraction(row.options.get("tolerance", 0.0)), Fraction(row.options.get("relative", 0.0)) * abs(right))
    return float(given is not None and abs(given - right) <= allowed)


def parse(text: str) -> Fraction | None:
    """Returns the value of a number, None where the text is none."""
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


def plain(text: str) -> str:
    """Returns a number without what LaTeX and typography put around and into it; any other text as it may be."""
    if len(text) > 2 * DIGITS_LIMIT:
        return text
    text = text.strip(_NO_WIDTH).strip().removesuffix(".").rstrip()
    while wrapped := next(filter(None, (pattern.fullmatch(text) for pattern in _WRAPPED)), None):
        text = wrapped[1].strip().removesuffix(".").rstrip()
    text = _BETWEEN_THREES.sub(",", text.replace(r"\$", "$").replace(r"\%", "%"))
    text = text.translate(dict.fromkeys(map(ord, _UNBROKEN), " "))
    behind = _CURRENCY_BEHIND.fullmatch(text)
    return behind["number"] if behind else text


def wanted(row: ScorerRow) -> Fraction:
    """Returns the number that the column holds. Raises ValueError: it holds none."""
    value = None if isinstance(row.truth, bool) else parse(plain(row.text))
    if value is None:
        raise ValueError(f"expected a number as the answer, got {row.truth!r:.80}")
    return value


NUMBER = ScorerFunctions(score, wanted)
