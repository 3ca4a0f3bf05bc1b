"""The range of each number of a row, read off its form: what lies outside is brought to the nearest end of it.

    my_reward, or a judged row's reward, outside [0, 1]   ─▶ the row is left out: it is the figure that all sums are of
    any other number outside its range                    ─▶ clamped
    a dict or list of more than MOST_ENTRIES              ─▶ cut

Rewards and shares lie in [0, 1], seconds and counts are bounded and not negative, everything else is bounded, so that
no sum of rows can overflow. The forms themselves say that integers that are no dict's are not negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, reduce
from operator import attrgetter, ge, le, or_
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET

from swarm.wire.judge_messages import JudgedRow
from swarm.wire.messages import MetricsRow

MOST = 1e12
"""Bound of what has no range of its own; times all rows that are held it still is an integer of 64 bits."""
MOST_ENTRIES = 1000
"""Entries of one dict or list: names of nodes, tasks, reasons, groups."""
KEY_COLUMNS = {MetricsRow: "my_reward", JudgedRow: "reward"}
"""What a row is left out for."""
_SLACK = 0.01
"""So far beyond [0, 1] a share is clamped without a word: two clocks are read for a share of time."""
_OF_UNIT = {"reward": (0.0, 1.0), "share": (0.0, 1.0), "seconds": (0.0, 1e9), "Unix seconds": (0.0, 1e11)}
_BY_NAME = {
    "cumulative_reward": (0.0, MOST),
    "publish_to_pool": (-1e9, 1e9),  # between the clocks of two hosts
    "round": (0, 2**53 - 1),
    **dict.fromkeys(("generating", "publishing", "fetching", "updating"), (-1e9, 1e9)),  # after the round's start
}


Form = TypeVar("Form", bound=msgspec.Struct)


class Range(NamedTuple):
    """Bounds a number; both ends belong to the range."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Tells whether a value lies within; NaN does not."""
        return self.low <= value <= self.high

    def nearest(self, value: float) -> float:
        """Returns the value, or the end of the range next to it."""
        whole = isinstance(value, int)
        return value if self.holds(value) else (int if whole else float)(self.low if value < self.low else self.high)


class _Form(NamedTuple):
    """The columns of one form."""

    names: tuple[str, ...]
    """Names of numbers that are always there."""
    values: attrgetter[tuple[float, ...]]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    others: tuple[str, ...]
    """Names of numbers that may be missing, dicts and lists."""
    other_values: Callable[[msgspec.Struct], Sequence[Any]]
    ranges: tuple[Range, ...]
    """Ranges of these."""


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
    for name, of_name, value in zip(form.others, form.ranges, form.other_values(row), strict=True):
        if not _is_within(value, of_name):
            changed += _clamp_column(row, name, of_name)
    return changed


@cache
def strict(form: type[Form]) -> type[Form]:
    """Returns the form, of which only those rows can be decoded whose numbers `clamp` would leave as they are, and
    whose reward is a share: the decoder tells that in a fifth of the time that `clamp` takes."""
    ranges = dict(_ranges(MetricsRow)) | {KEY_COLUMNS[MetricsRow]: Range(0, 1)}
    fields = [
        (field.name, _bounded(field.type, ranges.get(field.name)), _default_of(field))
        for field in msgspec.structs.fields(form)
    ]
    return msgspec.defstruct(form.__name__, fields, bases=(form,), kw_only=True)  # type: ignore[return-value]


def _default_of(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return msgspec.field(default=field.default)


def _bounded(hint: Any, of_name: Range | None) -> Any:
    """Returns a type with its numbers bounded, and its dicts and lists too."""
    if of_name is None or hint is bool:
        return hint
    if hint in (int, float):
        return Annotated[hint, msgspec.Meta(ge=hint(of_name.low), le=hint(of_name.high))]
    if get_origin(hint) is Annotated:
        return _bounded(get_args(hint)[0], of_name)
    inner = tuple(_bounded(argument, of_name) for argument in get_args(hint))
    match get_origin(hint):
        case origin if origin in (dict, list):
            return Annotated[origin[inner], msgspec.Meta(max_length=MOST_ENTRIES)]
        case origin if origin in (Union, UnionType):
            return reduce(or_, inner)
    return hint


def is_share(value: float) -> bool:
    """Tells whether a reward is a share of the full one."""
    return 0 <= value <= 1


def _is_within(value: Any, of_name: Range) -> bool:
    """Tells whether all of it is in its range, or names: the common case, in a third of the time of clamping. Of nested
    dicts nobody knows here."""
    if value is UNSET or not value:
        return value is UNSET or not isinstance(value, int | float) or of_name.holds(value)
    if not isinstance(value, dict | list):
        return isinstance(value, int | float) and of_name.holds(value)
    (low, high), entries = of_name, value.values() if isinstance(value, dict) else value
    if len(value) > MOST_ENTRIES:
        return False
    try:
        return all(low <= entry <= high for entry in entries)
    except TypeError:
        return all(type(entry) is str or (type(entry) is list and _is_within(entry, of_name)) for entry in entries)


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
    """Returns the same object where all of it is in its range."""
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


@cache
def _form(form: type[msgspec.Struct], like: type[msgspec.Struct]) -> _Form:
    ranges = {name: of_name for name, of_name in _ranges(like) if name in form.__struct_fields__}
    types = get_type_hints(form)
    names = tuple(name for name in ranges if types[name] in (int, float) and name != KEY_COLUMNS.get(like))
    others = tuple(n for n in ranges if n not in names and types[n] is not bool and types[n] is not str)
    return _Form(
        names=names,
        values=attrgetter(*names),
        lows=tuple(ranges[name].low for name in names),
        highs=tuple(ranges[name].high for name in names),
        others=others,
        other_values=_values(others),
        ranges=tuple(ranges[name] for name in others),
    )


def _values(names: tuple[str, ...]) -> Callable[[msgspec.Struct], Sequence[Any]]:
    """Returns a function that gives the columns of these names, always as a sequence."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda row: [getattr(row, name) for name in names]


def _ranges(like: type[msgspec.Struct]) -> Iterator[tuple[str, Range]]:
    for name, hint in get_type_hints(like, include_extras=True).items():
        if name not in ("schema_version", KEY_COLUMNS.get(like)):
            yield name, Range(*_BY_NAME.get(name) or _OF_UNIT.get(_unit(hint), _bounds(hint)))


def _unit(hint: Any) -> str:
    """Returns the unit of a column, empty where it names none."""
    if get_origin(hint) is Annotated:
        metas = [meta for meta in get_args(hint)[1:] if isinstance(meta, msgspec.Meta)]
        return next((str(meta.extra["unit"]) for meta in metas if meta.extra and "unit" in meta.extra), "")
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else ()
    return next(filter(None, map(_unit, options)), "")


def _bounds(hint: Any) -> tuple[float, float]:
    """Counts are not negative; what else has no unit of its own may be."""
    return (0, MOST) if "int" in str(hint) and "float" not in str(hint) else (-MOST, MOST)
