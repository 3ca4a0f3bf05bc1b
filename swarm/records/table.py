"""The one door of a metrics row: from a line of a stranger's to typed columns, each in its range.

    MetricsRow                 declares every column: its name, unit, meaning and default (swarm.wire.metrics)
    columns("round", ...)      a form of a row: the columns that one reader needs; the decoder passes over all others
    a line ─ parse_row(form) ─▶ a row, or None and a count in Odd

    my_reward, or a judged row's reward, outside [0, 1]   ─▶ the row is left out: it is the figure that all sums are of
    any other number outside its range                    ─▶ brought to the nearest end of it
    a dict or list of more than MOST_ENTRIES              ─▶ cut

Rewards and shares lie in [0, 1], seconds and counts are bounded and not negative, everything else is bounded, so that
no sum of rows can overflow. The forms themselves say that integers that are no dict's are not negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET

from swarm import forms
from swarm.records.growing import parse_line
from swarm.wire.judge_messages import JudgedRow
from swarm.wire.messages import SCHEMA_VERSION, MetricsRow

MOST = 1e12
"""Bound of what has no range of its own; times all rows that are held it still is an integer of 64 bits."""
MOST_ENTRIES = 1000
"""Entries of one dict or list: names of nodes, tasks, reasons, groups."""
MOST_EXAMPLES = 5
"""Examples of rows left out, of rows clamped and of rows cut, that are shown."""
KEY_COLUMNS = {MetricsRow: "my_reward", JudgedRow: "reward"}
"""What a row is left out for."""
NEEDED = ("round", "my_reward")
"""Columns that make a line a row; what another version did not write is 0 or empty."""
_SLACK = 0.01
"""So far beyond [0, 1] a share is clamped without a word: two clocks are read for a share of time."""
_OF_UNIT = {"reward": (0.0, 1.0), "share": (0.0, 1.0), "seconds": (0.0, 1e9), "Unix seconds": (0.0, 1e11)}
_BY_NAME = {
    "cumulative_reward": (0.0, MOST),
    "publish_to_pool": (-1e9, 1e9),  # between the clocks of two hosts
    "round": (0, 2**53 - 1),
    **dict.fromkeys(("generating", "publishing", "fetching", "updating"), (-1e9, 1e9)),  # after the round's start
}

Form = TypeVar("Form", MetricsRow, JudgedRow)


class Odd(msgspec.Struct):
    """Counts what was odd about one node's rows, with the first few of them in words."""

    left_out: int = 0
    """Its reward was no share of the full one."""
    clamped: int = 0
    """Some other number was."""
    cut: int = 0
    """Names and lists in it were let go: all of them would take too much memory."""
    why_left_out: list[str] = []
    """Reasons of the first few, in words."""
    why_clamped: list[str] = []
    why_cut: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.left_out or self.clamped or self.cut)

    @property
    def example(self) -> str:
        """Returns one of them, in words; there is one."""
        return (self.why_left_out or self.why_clamped or self.why_cut)[0]

    def count(self, what: Literal["left_out", "clamped", "cut"], why: str) -> None:
        """Count a row, and hold what was odd about one of the first few."""
        setattr(self, what, getattr(self, what) + 1)
        if len(examples := getattr(self, f"why_{what}")) < MOST_EXAMPLES:
            examples.append(why)

    def __str__(self) -> str:
        said = f"{self.left_out} rows left out, {self.clamped} clamped"
        return said + (f", {self.cut} with more names than are held" if self.cut else "")


def columns(*names: str) -> type[MetricsRow]:
    """Returns the form of rows with these columns alone, those of NEEDED among them, each as MetricsRow declares it.

    Nothing else may be asked of such a row. It is typed as a whole row, since that declares its columns.
    """
    declared = _declared()
    named = [*NEEDED, *(name for name in dict.fromkeys((*names, "schema_version")) if name not in NEEDED)]
    fields = [(name, declared[name].type, _default(declared[name])) for name in named[len(NEEDED) :]]
    needed = [(name, declared[name].type) for name in NEEDED]
    return msgspec.defstruct("Columns", [*needed, *fields], gc=False)  # type: ignore[return-value]


@cache
def _declared() -> dict[str, msgspec.structs.FieldInfo]:
    """Returns column -> its declaration; to resolve the types of all takes some milliseconds."""
    return {field.name: field for field in msgspec.structs.fields(MetricsRow)}


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    none = {int: 0, float: 0.0, str: ""}.get(_plain(field.type))
    return msgspec.field(default=none if field.default is msgspec.NODEFAULT else field.default)


def _plain(hint: Any) -> Any:
    return _plain(get_args(hint)[0]) if get_origin(hint) is Annotated else hint


def is_measured(row: MetricsRow) -> bool:
    """Tells whether a row's rewards measure something: not those of a node that trains nothing and had no answers."""
    return bool(row.local_groups or row.role is UNSET)


def measured(rows: Iterable[MetricsRow]) -> list[MetricsRow]:
    """Returns rows whose rewards measure something."""
    return [row for row in rows if is_measured(row)]


# ── from lines to rows ──────────────────────────────────────────────────────────────────────────────────────────────
def parse_row(line: bytes, form: type[Form], odd: Odd | None = None) -> Form | None:
    """Returns one line as a row with each number in its range, or None for anything else, and for a version that is not
    known.

    Args:
        odd: counts what was left out or clamped.
    """
    try:
        sound: Form = forms.decode(line, strict(form))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _changed(line, form, Odd() if odd is None else odd)
    return sound


def parse_rows(lines: Sequence[bytes], form: type[Form], odd: Odd) -> Iterator[Form]:
    """Yields the rows among many lines."""
    return (row for line in lines if (row := parse_row(line, form, odd)) is not None)


def _changed(line: bytes, form: type[Form], odd: Odd) -> Form | None:
    """Returns a row that is not sound as it is."""
    row = parse_line(line, form)
    if row is None or row.schema_version != SCHEMA_VERSION:
        return None
    like = _like(form)
    if not is_share(reward := getattr(row, KEY_COLUMNS[like])):
        odd.count("left_out", f"{KEY_COLUMNS[like]} of round {row.round} expected in [0, 1], got {reward:g}")
        return None
    if changed := clamp(row):
        odd.count("clamped", f"{changed[0]} of round {row.round} is out of its range")
    return row


# ── ranges ──────────────────────────────────────────────────────────────────────────────────────────────────────────
class Range(NamedTuple):
    """Bounds a number; both ends belong to the range."""

    low: float
    high: float

    def nearest(self, value: float) -> float:
        """Returns the value, or the end of the range next to it."""
        if self.low <= value <= self.high:
            return value
        return (int if isinstance(value, int) else float)(self.low if value < self.low else self.high)


def is_share(value: float) -> bool:
    """Tells whether a reward is a share of the full one."""
    return 0 <= value <= 1


def clamp(row: msgspec.Struct) -> list[str]:
    """Bring a row's numbers into their ranges, in place.

    Returns:
        the columns that had to be changed, shares aside that were hardly beyond [0, 1].
    """
    changed = []
    for name, of_name in _ranges(_like(type(row))).items():
        value = getattr(row, name, UNSET)
        near = _nearest(value, of_name)
        if near is value:
            continue
        setattr(row, name, near)
        is_close = of_name.high == 1 and isinstance(value, int | float) and abs(value - near) <= _SLACK
        changed += [] if is_close else [name]
    return changed


def _nearest(value: Any, of_name: Range) -> Any:
    """Returns the same object where all of it is in its range, or is no number."""
    if isinstance(value, int | float):
        return of_name.nearest(value)
    if not isinstance(value, dict | list):
        return value
    was = value if isinstance(value, dict) else dict(enumerate(value))
    near = {key: _nearest(entry, of_name) for _, (key, entry) in zip(range(MOST_ENTRIES), was.items(), strict=False)}
    if len(near) == len(was) and all(near[key] is was[key] for key in near):
        return value
    return near if isinstance(value, dict) else list(near.values())


@cache
def strict(form: type[Form]) -> type[Form]:
    """Returns the form, of which only those rows can be decoded whose version is known, whose numbers `clamp` would
    leave as they are, and whose reward is a share: the decoder tells that in a fifth of the time that `clamp` takes."""
    known = {"schema_version": Range(SCHEMA_VERSION, SCHEMA_VERSION), KEY_COLUMNS[_like(form)]: Range(0, 1)}
    ranges = _ranges(_like(form)) | known
    fields: list[Any] = []
    for field in msgspec.structs.fields(form):
        bounded = _bounded(field.type, ranges.get(field.name))
        fields.append((field.name, bounded) if field.required else (field.name, bounded, _default(field)))
    return msgspec.defstruct(form.__name__, fields, bases=(form,), kw_only=True)  # type: ignore[return-value]


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


def _like(form: type[msgspec.Struct]) -> type[MetricsRow] | type[JudgedRow]:
    """Returns the form that says what the columns of these names mean."""
    return JudgedRow if issubclass(form, JudgedRow) else MetricsRow


@cache
def _ranges(like: type[msgspec.Struct]) -> dict[str, Range]:
    return {
        name: Range(*_BY_NAME.get(name) or _OF_UNIT.get(_unit(hint), _bounds(hint)))
        for name, hint in get_type_hints(like, include_extras=True).items()
        if name not in ("schema_version", KEY_COLUMNS[like]) and _plain(hint) not in (bool, str)
    }


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
