"""A study's per-seed tables as files, small enough for a repository: every number of its page comes from them.

    Evidence ─write_tables─▶ tables/study.json, runs.csv, rounds.csv, ... ─read_tables─▶ Evidence without nodes' rows

`swarm study report --from-tables FOLDER` writes the page again from such a folder. Numbers keep every digit.
"""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from swarm.errors import ConfigError
from swarm.harmless import text_of_cell
from swarm.study.record import RECORD, StudyRecord
from swarm.study.report.evidence import Evidence, checked_window
from swarm.study.tables.export import without_formulas
from swarm.wire.codec import encode

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
TEXT = {"configuration", "experiment", "task", "node_id", "model", "state", "other_versions", "basis"}
"""Columns of text: nothing in them is a number, or missing."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")


def write_tables(evidence: Evidence, folder: Path) -> None:
    """Write a study's record and per-seed tables."""
    folder.mkdir(parents=True, exist_ok=True)
    record = msgspec.structs.replace(evidence.record, command=_without_path(evidence.record.command))
    (folder / RECORD).write_bytes(msgspec.json.format(encode(record), indent=1) + b"\n")
    for field, name in FILES.items():
        (folder / name).write_bytes(csv_bytes(getattr(evidence, field)))


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """A frame as CSV, without its index; no text in it is a formula."""
    return without_formulas(frame).to_csv(index=False, lineterminator="\n").encode()


def _without_path(command: str) -> str:
    """A command line without the place where the shared folder lay: that is nothing of the study's."""
    words = shlex.split(command)
    kept = [word for before, word in zip(["", *words], words, strict=False) if "--path" not in (before, word)]
    return shlex.join(word for word in kept if not word.startswith("--path="))


def read_tables(folder: Path, window: int | None) -> Evidence:
    """A study from its committed tables.

    Args:
        folder: that write_tables wrote.
        window: rounds of the moving averages; None: a tenth of the rounds, at most 100.

    Raises:
        ConfigError: a table is missing or damaged, or the window is not positive.
    """
    record = _record(folder / RECORD)
    tables: dict[str, Any] = {field: _table(folder / name) for field, name in FILES.items()}
    source = f"--from-tables {shlex.quote(str(folder))}"
    return Evidence(record=record, window=checked_window(window, record), source=source, **tables)


def _record(file: Path) -> StudyRecord:
    try:
        return msgspec.json.decode(file.read_bytes(), type=StudyRecord)
    except FileNotFoundError:
        raise ConfigError(
            f"no {file.name} in {file.parent}: expected a folder of tables of `swarm study report`"
        ) from None
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{file} is no record of a study: {error}") from None


def _table(file: Path) -> pd.DataFrame:
    try:
        read = pd.read_csv(file, dtype="str", keep_default_na=False)
        return pd.DataFrame({name: _column(name, read[name]) for name in map(str, read)})
    except FileNotFoundError:
        raise ConfigError(f"no {file.name} in {file.parent}: write the tables anew with `swarm study report`") from None
    except ValueError as error:
        raise ConfigError(f"{file} is no table of `swarm study report`: {error}") from None


def _column(name: str, cells: pd.Series[str]) -> pd.Series[Any]:
    return cells.map(text_of_cell) if name in TEXT else _numbers(cells.tolist())


def _numbers(cells: list[str]) -> pd.Series[Any]:
    """Flags, whole numbers, or real ones to the last digit, of which some may be missing."""
    if set(cells) <= {"True", "False"} and cells:
        return pd.Series([cell == "True" for cell in cells])
    if all(map(_WHOLE.fullmatch, cells)):
        return pd.Series(list(map(int, cells)), dtype="int64")
    return pd.Series([float(cell) if cell else math.nan for cell in cells], dtype="float64")
