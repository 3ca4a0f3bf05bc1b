"""`swarm export`: from a source's name to a file."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from swarm.cli.export import TableName
from swarm.views.tables.frames import TABLES
from tests.unit.cli.conftest import Typed
from tests.unit.views.tables.small_study import FULL, SMALL

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_settings_from_outside: None) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWARM_PATH", str(SMALL))


def lines_of(name: str) -> list[str]:
    return Path(name).read_text().splitlines()


def test_every_table_can_be_asked_for() -> None:
    assert get_args(TableName) == tuple(TABLES)


def test_the_file_is_named_after_its_source_and_table(typed: Typed) -> None:
    assert typed("export", FULL).out == f"wrote 18 rows of metrics to {FULL}-metrics.csv\n"
    assert len(lines_of(f"{FULL}-metrics.csv")) == 1 + 18


def test_the_output_says_the_format_unless_it_is_given(typed: Typed) -> None:
    typed("export", FULL, "-o", "a.parquet")
    assert Path("a.parquet").read_bytes().startswith(b"PAR1")
    typed("export", FULL, "-o", "b.parquet", "--format", "jsonl")
    assert Path("b.parquet").read_bytes().startswith(b"{")


def test_a_file_that_is_there_is_replaced_only_by_force(typed: Typed) -> None:
    Path("a.csv").write_text("mine")
    for source in (FULL, "nothing"):  # before any reading
        assert "a.csv is there already" in typed("export", source, "-o", "a.csv", code=2).err
    assert Path("a.csv").read_text() == "mine"
    typed("export", FULL, "-o", "a.csv", "--force")
    assert len(lines_of("a.csv")) == 19
