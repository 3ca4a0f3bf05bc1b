"""Read JSON-lines files that somebody is still writing, or was killed while writing."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from swarm.errors import FolderError

Row = TypeVar("Row", bound=msgspec.Struct)


def read_rows(file: Path, form: type[Row]) -> tuple[list[Row], int]:
    """The whole, valid rows of a file in order, and how many other lines it holds; ([], 0) where it is not there.

    A last line without its newline is still being written: neither a row nor junk.

    Raises:
        FolderError: the file is there but cannot be read.
    """
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise FolderError(f"cannot read {file}: {error.strerror or error}; see that it is a readable file") from error
    rows, junk = [], 0
    for line in data.split(b"\n")[:-1]:
        try:
            rows.append(msgspec.json.decode(line, type=form))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            junk += bool(line.strip())
    return rows, junk
