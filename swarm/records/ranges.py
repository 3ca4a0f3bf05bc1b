"""The range of each number of a row, read off its form: what lies outside is brought to the nearest end of it.

    my_reward, or a judged row's reward, outside [0, 1]   ─▶ the row is left out: it is the figure that all sums are of
    any other number outside its range                    ─▶ clamped
    a dict or list of more than MOST_ENTRIES              ─▶ cut

Rewards and shares lie in [0, 1], seconds and counts are bounded and not negative, everything else is bounded, so that
no sum of rows can overflow. The forms themselves say that integers that are no dict's are not negative.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from operator import attrgetter, ge, le
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET

from swarm.wire.judge_messages import JudgedRow
from swarm.wire.messages import MetricsRow

MOST = 1e12
"""Of what has no range of its own; times all rows that are held it still is an integer of 64 bits."""
MOST_ENTRIES = 1000
"""Of one dict or list: names of nodes, tasks, reasons, groups."""
KEY_COLUMNS = {MetricsRow: "my_reward", JudgedRow: "reward"}
"""What a row is left out for."""
_SLACK = 0.01
"""So far beyond [0, 1] a share is clamped without a word: two clocks are read for a share of time."""
_OF_UNIT = {"reward": (0.0, 1.0), "share": (0.0, 1.0), "seconds": (0.0, 1e9), "Unix seconds": (0.0, 1e11)}
_BY_NAME = {
    "cumulative_reward": (0.0, MOST),
    "publish_to_pool": (-1e9, 1e9),  # between the clocks of two hosts
    "round": (0, 2**53 - 1),
}


class Range(NamedTuple):
    """Both ends belong to it."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """False for NaN."""
        return self.low <= value <= self.high

    def nearest(self, value: float) -> float:
        """The value, or the end of the range next to it."""
        whole = isinstance(value, int)
        return value if self.holds(value) else (int if whole else float)(self.low if value < self.low else self.high)


class _Form(NamedTuple):
    """The columns of one form."""

    names: tuple[str, ...]
    """Of numbers that are always there."""
    values: attrgetter[tuple[float, ...]]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    others: dict[str, Range]
    """Numbers that may be missing, dicts and lists."""


def clamp(row: msgspec.Struct, like: type[msgspec.Struct] = MetricsRow) -> list[str]:
    """Bring a row's numbers into their ranges, in place.

    Args:
        like: the form that says what the columns of this name mean.

    Returns:
        the columns that had to be changed, shares aside that were hardly beyond [0, 1].
    """
    form = _form(type(row), like)
    values = form.values(row)
    changed = []
    if not (all(map(le, form.lows, values)) and all(map(ge, form.highs, values))):
        for name, low, high in zip(form.names, form.lows, form.highs, strict=True):
            changed += _clamp_column(row, name, Range(low, high))
    for name, of_name in form.others.items():
        if (value := getattr(row, name)) is not UNSET and value != {}:
            changed += _clamp_column(row, name, of_name)
    return changed


def is_share(value: float) -> bool:
    """Whether a reward is a share of the full one."""
    return 0 <= value <= 1


def _clamp_column(row: msgspec.Struct, name: str, of_name: Range) -> list[str]:
    value = getattr(row, name)
    if value is UNSET or not isinstance(value, int | float | dict | list):
        return []
    near = _nearest(value, of_name)
    if near is value:
        return []
    setattr(row, name, near)
    is_close = of_name.high == 1 and isinstance(value, int | float) and abs(value - near) <= _SLACK
    return [] if is_close else [name]


def _nearest(value: Any, of_name: Range) -> Any:
    """The same object where all of it is in its range."""
    if isinstance(value, int | float):
        return of_name.nearest(value)
    if not isinstance(value, dict | list):
        return value
    if _is_within(value, of_name):
        return value
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    near = {key: _nearest(entry, of_name) for _, (key, entry) in zip(range(MOST_ENTRIES), entries, strict=False)}
    was = value if isinstance(value, dict) else dict(enumerate(value))
    if len(near) == len(was) and all(near[key] is was[key] for key in near):
        return value
    return near if isinstance(value, dict) else list(near.values())


def _is_within(value: dict[Any, Any] | list[Any], of_name: Range) -> bool:
    """Whether all of it is numbers in the range, or names: the common case, at a third of the time."""
    low, high = of_name
    entries = value.values() if isinstance(value, dict) else value
    if len(value) > MOST_ENTRIES:
        return False
    try:
        return all(low <= entry <= high for entry in entries)
    except TypeError:
        return all(type(entry) is str for entry in entries)


@cache
def _form(form: type[msgspec.Struct], like: type[msgspec.Struct]) -> _Form:
    ranges = {name: of_name for name, of_name in _ranges(like) if name in form.__struct_fields__}
    types = get_type_hints(form)
    names = tuple(name for name in ranges if types[name] in (int, float) and name != KEY_COLUMNS.get(like))
    return _Form(
        names=names,
        values=attrgetter(*names),
        lows=tuple(ranges[name].low for name in names),
        highs=tuple(ranges[name].high for name in names),
        others={n: r for n, r in ranges.items() if n not in names and types[n] is not bool and types[n] is not str},
    )


def _ranges(like: type[msgspec.Struct]) -> Iterator[tuple[str, Range]]:
    for name, hint in get_type_hints(like, include_extras=True).items():
        if name not in ("schema_version", KEY_COLUMNS.get(like)):
            yield name, Range(*_BY_NAME.get(name) or _OF_UNIT.get(_unit(hint), _bounds(hint)))


def _unit(hint: Any) -> str:
    """What a column is measured in, empty where it does not say."""
    if get_origin(hint) is Annotated:
        metas = [meta for meta in get_args(hint)[1:] if isinstance(meta, msgspec.Meta)]
        return next((str(meta.extra["unit"]) for meta in metas if meta.extra and "unit" in meta.extra), "")
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else ()
    return next(filter(None, map(_unit, options)), "")


def _bounds(hint: Any) -> tuple[float, float]:
    """Counts are not negative; what else has no unit of its own may be."""
    return (0, MOST) if "int" in str(hint) and "float" not in str(hint) else (-MOST, MOST)
