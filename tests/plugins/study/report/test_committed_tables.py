"""The studies of docs/study: every number that is committed follows from the committed per-seed tables."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

from swarm.plugins.study.report.write import write_report_from_tables
from tests.plugins.study.report.recomputed import numbers

ROOT = Path(__file__).parents[4]
STUDIES = sorted(file.parent for file in (ROOT / "docs" / "study").glob("*/tables/study.json"))
"""Those with per-seed tables; earlier ones have none."""
TABLES = sorted(file.parent for file in (ROOT / "docs" / "study").rglob("study.json"))
"""Those of replications, too, which have fewer seeds."""


@pytest.mark.parametrize("tables", TABLES, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_the_command_writes_the_committed_tables_again(tables: Path, tmp_path: Path) -> None:
    write_report_from_tables(tables, tmp_path, formats=("csv",))
    again = {file.name: file.read_bytes() for file in (tmp_path / "tables").iterdir()}
    committed = {file.name: file.read_bytes() for file in tables.iterdir() if file.suffix in (".csv", ".json")}
    assert again == committed


@pytest.mark.parametrize("tables", STUDIES, ids=lambda folder: folder.parent.name)
def test_twenty_numbers_and_more_come_out_of_the_runs_by_other_means(tables: Path) -> None:
    found = list(numbers(tables))
    assert len(found) >= 20
    for what, said, recomputed in found:
        assert said == pytest.approx(recomputed, rel=1e-9), what
