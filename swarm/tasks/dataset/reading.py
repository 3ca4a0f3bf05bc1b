"""Rows of a file, one after the other, bounded and checked: JSON lines, CSV with a header, Parquet; and all of them,
packed.

What is wrong is said with the file and the line; of Parquet, with the row, from 1 on.
"""

from __future__ import annotations

import array
import csv
import mmap
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from swarm.children import child_environment, module_command
from swarm.errors import ConfigError
from swarm.tasks.dataset.scorers import json_text

LINE_LIMIT = 2**20
"""Bytes of a line of a file, which holds a row at most."""
COLUMNS_LIMIT = 1_000
PACKED_LIMIT = 2 * 2**30
"""Bytes of the rows of one task: what is compressed in a file can be a million times as large."""
_LIBRARIES_MISSING = 3
"""Exit status of the process that reads Parquet."""

EXAMPLE = '{"question": "What is 2 + 3?", "answer": "5"}'
"""A line of a file of questions, for messages."""
LONGEST_SHOWN = 40
"""Characters of a line that a message shows."""

Rows = Iterator[tuple[int, Mapping[str, Any]]]
"""Line numbers, from 1 on, and what is in the columns."""


class UnreadableError(Exception):
    """A file cannot be read; says where and why."""


def rows_of(path: Path, columns: Sequence[str] | None) -> Rows:
    """Returns all rows of a file, by its name's ending.

    Args:
        columns: what is needed at least, None for all.

    Raises:
        UnreadableError: it is not what its name says, or something is larger than it may be.
        ConfigError: a library is missing.
    """
    if path.suffix.lower() == ".parquet":
        yield from _parquet(path, columns)
        return
    with path.open("rb") as file:
        yield from (_csv if path.suffix.lower() == ".csv" else json_lines)(file, path)


def json_lines(file: IO[bytes], path: Path) -> Rows:
    """Returns an object in each line that is not blank."""
    for number, text in _lines(file, path):
        if not text.strip():
            continue
        try:
            row = json_text.loads(text)
            problem = ""
        except ValueError as error:
            row, problem = None, f": {error}"
        if not isinstance(row, dict):
            raise UnreadableError(
                f"{path}:{number}: expected an object of JSON in each line, such as {EXAMPLE}, got "
                f"{text.strip()[:LONGEST_SHOWN]!r}{problem}"
            )
        yield number, row


def _csv(file: IO[bytes], path: Path) -> Rows:
    """Yields each row of a CSV file with its line. A row has as many fields as the header, each a text. Raises
    UnreadableError."""
    csv.field_size_limit(LINE_LIMIT)
    reader = csv.reader((text for _, text in _lines(file, path)), strict=True)
    try:
        header = next(reader, [])
        if not 0 < len(header) <= COLUMNS_LIMIT:
            raise UnreadableError(f"{path}:1: expected a header of 1 to {COLUMNS_LIMIT} columns, got {len(header)}")
        if twice := [name for name in header if header.count(name) > 1]:
            raise UnreadableError(f"{path}:1: two columns are called {twice[0]!r:.80}; give each a name of its own")
        for fields in reader:
            if len(fields) != len(header) and fields:
                raise UnreadableError(
                    f"{path}:{reader.line_num}: expected {len(header)} fields, as the header has, got {len(fields)}"
                )
            if fields:
                yield reader.line_num, dict(zip(header, fields, strict=True))
    except csv.Error as error:
        raise UnreadableError(f"{path}:{reader.line_num}: {error}") from None


def _lines(file: IO[bytes], path: Path) -> Iterator[tuple[int, str]]:
    """Yields lines as text, each bounded; a byte order mark at the start is none of it."""
    number = 0
    while line := file.readline(LINE_LIMIT + 1):
        number += 1
        if len(line) > LINE_LIMIT:
            raise UnreadableError(f"{path}:{number}: the line has more than {LINE_LIMIT} bytes")
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise UnreadableError(
                f"{path}:{number}: expected UTF-8, got the byte {line[error.start]:#04x} in "
                f"column {len(line[: error.start].decode(errors='replace')) + 1}; save the file as UTF-8"
            ) from None
        yield number, text


def _parquet(path: Path, columns: Sequence[str] | None) -> Rows:
    """Reads Parquet in a process of its own: pyarrow starts threads, and a scoring server may have one alone."""
    command = module_command("swarm.tasks.dataset.parquet", str(path), *(columns or ()))
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, env=child_environment(os.environ)) as process,
    ):
        assert process.stdout is not None
        try:
            yield from json_lines(process.stdout, path)
            process.wait()
        finally:
            process.kill()
        if process.returncode != 0:
            said.seek(0)
            words = said.read().decode(errors="replace").strip()
            if process.returncode == _LIBRARIES_MISSING:
                raise ConfigError(words)
            raise UnreadableError(f"{path}: {words[-500:]}")


class PackedRows:
    """All rows of a task, packed into a file without a name that is mapped read-only.

    A child that is forked shares these pages without a copy of their table, so that 100,000 rows cost it no more than
    500; and nothing that runs in a child can change them for the next one.
    """

    def __init__(self, rows: Iterable[bytes]) -> None:
        """Put them there, each packed already.

        Raises:
            OSError: no room for temporary files.
            UnreadableError: they are too large, and whatever the iterable raises.
        """
        self._ends = array.array("Q", [0])
        with tempfile.NamedTemporaryFile() as file:
            for packed in rows:
                if self._ends[-1] + len(packed) > PACKED_LIMIT:
                    raise UnreadableError(f"more than {PACKED_LIMIT} bytes of rows; take a part")
                file.write(packed)
                self._ends.append(self._ends[-1] + len(packed))
            file.write(b"\0")  # an empty file cannot be mapped
            file.flush()
            read_only = os.open(file.name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._pages = mmap.mmap(read_only, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(read_only)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.msgpack.decode(self._pages[self._ends[number] : self._ends[number + 1]])
        return found
