"""Prints the rows of a Parquet file as JSON lines: `python -P -m swarm.tasks.dataset.parquet FILE [COLUMN ...]`.

Dates are text, bytes too where they are UTF-8; what JSON has no number for (NaN, infinity) is null, which no question
may be made of. Exit status 3: pyarrow is missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from swarm.extras import lacking

if sys.platform != "win32":
    import resource

ROWS_AT_A_TIME = 100
MEMORY_BYTES = 2**30
"""Address space beside that of the libraries: what is compressed in a stranger's file can be of any size."""


def main(path: str, *columns: str) -> None:
    """Print all rows; of a file without one of the columns the others, so that the reader says which is missing."""
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # the others reserve a gigabyte of addresses at once
    try:
        from pyarrow import parquet
    except ModuleNotFoundError:
        print(lacking(f"the dataset {path}", "pyarrow", "analysis"), file=sys.stderr)  # noqa: T201
        sys.exit(3)
    _bound_memory()
    try:
        _print(parquet.ParquetFile(path), columns)
    except Exception as error:  # noqa: BLE001 - the boundary: pyarrow's own errors have many bases
        sys.exit(f"cannot be read as Parquet: {error}")


def _bound_memory() -> None:
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _print(file: "parquet.ParquetFile", columns: Sequence[str]) -> None:  # type: ignore[name-defined]  # noqa: F821, UP037
    names = file.schema_arrow.names
    if len(set(names)) < len(names):
        sys.exit("two of its columns have the same name; give each a name of its own")
    chosen = [name for name in names if name in columns] if columns else names
    for batch in file.iter_batches(ROWS_AT_A_TIME, columns=chosen or names[:1], use_threads=False):
        for row in batch.to_pylist():
            sys.stdout.buffer.write(msgspec.json.encode(row, enc_hook=str) + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
