"""A study's per-seed tables as files, small enough for a repository: every number of its page comes from them.

    Evidence ─write_tables─▶ tables/study.json, runs.csv, rounds.csv, ... ─read_tables─▶ Evidence

`swarm study report --from-tables FOLDER` writes the page again from such a folder. Numbers keep every digit.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from swarm import forms
from swarm.errors import ConfigError, ProtocolError
from swarm.harmless import text_of_cell
from swarm.plugins.study.record import LARGEST_RECORD, RECORD, StudyRecord
from swarm.plugins.study.report.evidence import Evidence, checked_window
from swarm.store.base import Store
from swarm.store.place import open_place
from swarm.views.tables.export import without_formulas
from swarm.wire.codec import encode

Put = Callable[[str, bytes], None]
"""Writes a file of a report, named from the report's folder on. Raises StoreError."""
TABLES = "tables"
FILES = {
    "runs": "runs.csv",
    "rounds": "rounds.csv",
    "tasks": "tasks_by_run.csv",
    "crossings": "crossings.csv",
    "learners": "learners.csv",
    "held_out": "held_out_by_window.csv",
    "exams": "exam_by_task.csv",
}
"""Field of Evidence -> its file, named as the table of the page where there is one."""
LATER_FILES = {
    "agents": "agents_by_round.csv",
    "knowledge": "knowledge_by_round.csv",
    "taught": "taught.csv",
    "models": "models_by_run.csv",
    "planted": "planted_by_round.csv",
    "splits": "splits_by_round.csv",
}
"""The same of what few studies have: written where there is something, and empty where there is no file."""
TEXT = {"whose", "configuration", "experiment", "task", "node_id", "model", "state", "other_versions", "basis"}
"""Columns of text: nothing in them is a number, or missing."""
LARGEST_TABLE = 1 << 28
"""Bytes of a table that is read; one of 1000 runs of 1000 rounds has half of it."""
LONGEST_HEADER = 1 << 16
"""Bytes of its first line; every column costs memory."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")


def write_tables(evidence: Evidence, put: Put) -> None:
    """Write a study's record, without what is only of this place, and its per-seed tables."""
    record = msgspec.structs.replace(evidence.record, command=_without_path(evidence.record.command))
    put(f"{TABLES}/{RECORD}", msgspec.json.format(encode(record), indent=1) + b"\n")
    for field, name in FILES.items():
        put(f"{TABLES}/{name}", csv_bytes(getattr(evidence, field)))
    for field, name in LATER_FILES.items():
        if len(frame := getattr(evidence, field)):
            put(f"{TABLES}/{name}", csv_bytes(frame))


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """Returns a frame as CSV, without its index; no text in it is a formula."""
    return without_formulas(frame).to_csv(index=False, lineterminator="\n").encode()


def _without_path(command: str) -> str:
    """Returns a command line without the place where the shared folder lay: that is nothing of the study's."""
    words = shlex.split(command)
    kept = [word for before, word in zip(["", *words], words, strict=False) if "--path" not in (before, word)]
    return shlex.join(word for word in kept if not word.startswith("--path="))


def read_tables(folder: Path, window: int | None) -> Evidence:
    """Returns a study from its committed tables.

    Args:
        folder: that write_tables wrote; no link in it is followed.
        window: rounds of the moving averages; None: a tenth of the rounds, at most 100.

    Raises:
        ConfigError: a table is missing or damaged, or the window is not positive.
    """
    store = open_place(folder).beside("")
    record = _record(store)
    tables: dict[str, Any] = {field: _table(store, name) for field, name in FILES.items()}
    tables |= {field: _table(store, name) for field, name in LATER_FILES.items() if store.stat(name)}
    source = f"--from-tables {shlex.quote(str(folder))}"
    return Evidence(record=record, window=checked_window(window, record), source=source, **tables)


def _record(store: Store) -> StudyRecord:
    try:
        return forms.decode(store.get(RECORD, LARGEST_RECORD).data, StudyRecord)
    except FileNotFoundError:
        raise ConfigError(
            f"no {RECORD} in {store.describe()}: expected a folder of tables of `swarm study report`"
        ) from None
    except (msgspec.MsgspecError, ProtocolError) as error:
        raise ConfigError(f"{store.describe(RECORD)} is no record of a study: {error}") from None


def _table(store: Store, name: str) -> pd.DataFrame:
    try:
        data = store.get(name, LARGEST_TABLE).data
        if b"\n" not in data[:LONGEST_HEADER]:
            raise ValueError(f"its first line has more than {LONGEST_HEADER} bytes, or no end")
        read = pd.read_csv(BytesIO(data), dtype="str", keep_default_na=False)
        return pd.DataFrame({column: _column(column, read[column]) for column in map(str, read)})
    except FileNotFoundError:
        raise ConfigError(f"no {name} in {store.describe()}: write the tables anew with `swarm study report`") from None
    except (ValueError, ProtocolError) as error:
        raise ConfigError(f"{store.describe(name)} is no table of `swarm study report`: {error}") from None


def _column(name: str, cells: pd.Series[str]) -> pd.Series[Any]:
    return cells.map(text_of_cell) if name in TEXT else _numbers(cells.tolist())


def _numbers(cells: list[str]) -> pd.Series[Any]:
    """Flags, whole numbers, or real ones to the last digit, of which some may be missing."""
    if set(cells) <= {"True", "False"} and cells:
        return pd.Series([cell == "True" for cell in cells])
    if all(map(_WHOLE.fullmatch, cells)):
        return pd.Series(list(map(int, cells)), dtype="int64")
    return pd.Series([float(cell) if cell else math.nan for cell in cells], dtype="float64")
