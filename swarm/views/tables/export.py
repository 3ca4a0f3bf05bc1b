"""Frames as files for other tools: CSV, Parquet and JSON lines.

Dicts and lists are JSON text in CSV and in Parquet (their keys differ from row to row, which neither can type), and
stay nested in JSON lines. What is missing is an empty field, a null and `null`. All text in CSV is quoted, so that a
completion's newlines survive; one that a spreadsheet would take for a formula has a `'` in front, and what a terminal
would obey is escaped in CSV and JSON lines as in JSON. Parquet has all text as it is. Numbers keep every digit.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from swarm.errors import ConfigError
from swarm.extras import lacking
from swarm.harmless import csv_cell, escaped
from swarm.store.folder.publish import publish_own
from swarm.views.tables.frames import joined

if TYPE_CHECKING:
    from pandas import DataFrame

Format = Literal["csv", "parquet", "jsonl"]
FORMATS: tuple[Format, ...] = get_args(Format)

SLICE = 4096
"""Rows that are turned into text at a time: it takes many times as much as what becomes of it."""


def encoded(blocks: Iterable[DataFrame], form: Format) -> Iterator[bytes]:
    """Yields the bytes of a file that holds all blocks of a table; their index is left out.

    Raises:
        ConfigError: Parquet, and pyarrow is not installed.
    """
    if form == "parquet":
        yield _parquet(joined(blocks))
        return
    for number, rows in enumerate(_slices(blocks)):
        yield _csv(rows, header=number == 0) if form == "csv" else _jsonl(rows)


def write_table(blocks: Iterable[DataFrame], form: Format, target: Path, *, force: bool = False) -> None:
    """Write a table so that the file is there whole or not at all.

    Raises:
        ConfigError: there is such a file already, or pyarrow is missing.
        StoreError: it cannot be written; what was there is as it was.
    """
    refuse_existing(target, force=force)
    publish_own(target, encoded(blocks, form))


def refuse_existing(target: Path, *, force: bool) -> None:
    """Raises ConfigError for a file that is there and not to be replaced."""
    if target.exists() and not force:
        raise ConfigError(f"{target} is there already: name another file with --output, or replace it with --force")


def _slices(blocks: Iterable[DataFrame]) -> Iterator[DataFrame]:
    for block in blocks:
        for first in range(0, max(1, len(block)), SLICE):
            yield block.iloc[first : first + SLICE]


def _csv(frame: DataFrame, *, header: bool) -> bytes:
    flat = without_formulas(_flat(frame))
    return flat.to_csv(index=False, header=header, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n").encode()


def without_formulas(frame: DataFrame) -> DataFrame:
    """Returns the frame with each text as csv_cell makes it: some may come from strangers' rows."""
    texts = [str(name) for name, dtype in frame.dtypes.items() if dtype in ("object", "str")]
    return frame.assign(
        **{name: frame[name].map(lambda cell: csv_cell(cell) if isinstance(cell, str) else cell) for name in texts}
    )


def _parquet(frame: DataFrame) -> bytes:
    buffer = io.BytesIO()
    try:
        _flat(frame).to_parquet(buffer, engine="pyarrow", index=False)
    except ImportError:
        raise lacking("Parquet", "pyarrow", "analysis", "take --format csv") from None
    return buffer.getvalue()


def _jsonl(frame: DataFrame) -> bytes:
    plain = {name: column.astype(object).where(column.notna(), None).tolist() for name, column in frame.items()}
    rows = (dict(zip(plain, values, strict=True)) for values in zip(*plain.values(), strict=True))
    return b"".join(escaped(msgspec.json.encode(row).decode()).encode() + b"\n" for row in rows)


def _flat(frame: DataFrame) -> DataFrame:
    """Returns the same with dicts and lists as JSON text."""
    nested = [name for name, dtype in frame.dtypes.items() if dtype == "object"]
    return frame.assign(**{str(name): frame[name].map(_text).astype("str") for name in nested})


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()  # pandas 2: text is object, too
