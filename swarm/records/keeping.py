"""Keeps what a view holds of one worker's rows: of each the columns that it needs, and of names and lists a bounded
part.

    MetricsRow ─ taking(form) ─▶ fewer columns ─ Keeper ─▶ names shared between rows
                                                  │
                                                  ├ one row's names and lists above MOST_OF_ROW  ─▶ let go
                                                  └ those of all its rows above MOST_OF_WORKER   ─▶ let go, the oldest
                                                                                                    after FIRST first

Names cost who writes a row 40 bytes in a file and a reader 100 in memory or more, so they are bounded as held in
memory. A worker that hears 64 peers takes some 7 KB a row, a fortieth of MOST_OF_ROW, and 2,000 such rows fit. What is
let go is counted in `Odd`; numbers of a row always stay.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from swarm.records.odd import Odd
from swarm.wire.messages import MetricsRow

MOST_OF_ROW = 256 * 2**10
"""Bytes of the names and lists of one row."""
MOST_OF_WORKER = 16 * 2**20
"""Bytes of the names and lists of all rows of one worker."""
FIRST = 10
"""Rows whose names stay whatever comes after them: a summary holds the first ten against the last ten."""
MOST_NAMES = 4096
"""Names of one worker's rows that are held once for all of them: nodes, tasks, models."""
LONGEST_NAME = 64
"""Characters of such a name."""

Form = TypeVar("Form", bound=msgspec.Struct)


class SummedRow(msgspec.Struct):
    """The columns that a summary is made of."""

    timestamp: float
    round: int
    stage: int
    my_reward: float
    cumulative_reward: float
    model: str
    full_answer_rate: float
    answer_tag_rate: float
    task_rewards: dict[str, float]
    task_tag_rates: dict[str, float]
    external_groups: int
    external_by_model: dict[str, int]
    seconds_round: float
    seconds_sharing: float
    seconds_sharing_hidden: float
    seconds_wait: float = 0.0
    local_groups: int = 0
    role: str | UnsetType = UNSET


class ShownRow(msgspec.Struct):
    """The columns that are shown of a round while a run goes on."""

    round: int
    my_reward: float
    answer_tag_rate: float
    finished_rate: float
    zero_advantage_local: float
    external_wanted: int
    external_groups: int
    seconds_generate: float
    seconds_score: float
    seconds_lease: float
    seconds_train: float
    seconds_round: float
    local_groups: int = 0
    role: str | UnsetType = UNSET


class CheckedRow(msgspec.Struct):
    """The columns that a run is checked by."""

    round: int
    stage: int
    node_id: str
    experiment: str
    my_reward: float
    cumulative_reward: float
    local_groups: int
    external_wanted: int
    external_groups: int
    external_by_peer: dict[str, int]
    accepted_by_peer: dict[str, int]
    bytes_published: int
    role: str | UnsetType = UNSET


class _Measuring(Protocol):
    @property
    def local_groups(self) -> int: ...
    @property
    def role(self) -> str | UnsetType: ...


Measuring = TypeVar("Measuring", bound=_Measuring)


def measured(rows: Iterable[Measuring]) -> list[Measuring]:
    """Returns rows whose rewards measure something: all but those of a node that does not train and had no answers."""
    return [row for row in rows if row.local_groups or row.role is UNSET]


@cache
def taking(form: type[Form]) -> Callable[[MetricsRow], Form]:
    """Returns a function that takes a row of this form of a whole one."""
    if form is MetricsRow:
        return lambda row: row  # type: ignore[return-value]  # it is one
    columns = attrgetter(*form.__struct_fields__)
    return lambda row: form(*columns(row))


class Keeper:
    """Bounds what the names and lists in one worker's rows take."""

    def __init__(self, odd: Odd) -> None:
        """`odd`: counts the rows whose names and lists were let go."""
        self._odd = odd
        self._names: dict[str, str] = {}
        self._held = deque[tuple[msgspec.Struct, int]]()
        """Rows that have names, those that are never let go aside, and the bytes of these."""
        self._bytes = 0
        self._seen = 0

    def keep(self, row: Form) -> Form:
        """Returns the row that comes after those seen, as it is held: the same, changed in place."""
        size = self._share(row)
        self._seen += 1
        if size > MOST_OF_ROW:
            self._let_go(row)
            return row
        self._bytes += size
        if size and self._seen > FIRST:
            self._held.append((row, size))
        while self._bytes > MOST_OF_WORKER and self._held:
            oldest, freed = self._held.popleft()
            self._bytes -= freed
            self._let_go(oldest)
        return row

    def _share(self, row: msgspec.Struct) -> int:
        """Put the names that are held already in the place of a row's own; bytes of what is not shared."""
        size = 0
        for column in _columns(type(row)):
            value = getattr(row, column)
            shared = self._shared(value)
            if shared is not value:
                setattr(row, column, shared)
            size += self._size(shared)
        return size

    def _shared(self, value: Any) -> Any:
        if isinstance(value, str):
            return next(self._names_for((value,)))
        if isinstance(value, dict):
            are_numbers = {*map(type, value.values())} <= _NUMBERS
            entries = value.values() if are_numbers else map(self._shared, value.values())
            return dict(zip(self._names_for(value), entries, strict=True)) if value else _NO_NAMES
        return value or _NO_ITEMS if isinstance(value, list) else value

    def _names_for(self, names: Iterable[str]) -> Iterator[str]:
        if (room := MOST_NAMES - len(self._names)) > 0:
            new = (name for name in names if len(name) <= LONGEST_NAME and name not in self._names)
            self._names |= {name: name for name in islice(new, room)}
        return map(self._names.get, names, names)  # the name itself, where it is not held

    def _size(self, value: Any) -> int:
        if value is _NO_NAMES or value is _NO_ITEMS or (isinstance(value, str) and value in self._names):
            return 0
        if value is msgspec.UNSET or (type(value) is int and value <= _SMALL):
            return 0
        size = sys.getsizeof(value)
        if isinstance(value, dict):
            return size + sum(map(sys.getsizeof, value.keys() - self._names.keys())) + self._size_of_entries(value)
        return size + sum(map(self._size, value)) if isinstance(value, list) else size

    def _size_of_entries(self, names: dict[str, Any]) -> int:
        kinds = {*map(type, names.values())}
        if not kinds <= _NUMBERS:
            return sum(map(self._size, names.values()))
        small = kinds == {int} and max(names.values()) <= _SMALL
        return 0 if small else sum(map(sys.getsizeof, names.values()))

    def _let_go(self, row: msgspec.Struct) -> None:
        for column in _columns(type(row)):
            if (held := getattr(row, column)) is not msgspec.UNSET:
                setattr(row, column, _EMPTY[type(held)])
        self._odd.cut_names(f"names of round {getattr(row, 'round', 0)}")


_NUMBERS = {int, float}
"""Types of the entries of most columns, of which a thousand are taken at once."""
_SMALL = 256
"""Integers up to this one are held once by Python itself."""
_NO_NAMES: dict[str, Any] = {}
_NO_ITEMS: list[Any] = []
_EMPTY: dict[type, Any] = {dict: _NO_NAMES, list: _NO_ITEMS, str: ""}
"""One for all rows: an empty dict of its own for each column would be half of what a row takes."""


@cache
def _columns(form: type[msgspec.Struct]) -> tuple[str, ...]:
    """Returns the columns of text, names and lists."""
    types = {field.name: field.type for field in msgspec.structs.fields(form)}
    return tuple(
        name for name, of_name in types.items() if any(kind in str(of_name) for kind in ("str", "dict", "list"))
    )
