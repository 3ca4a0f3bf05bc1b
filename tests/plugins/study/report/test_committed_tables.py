"""The studies of docs/study: what is committed follows from the per-seed tables, and the pages of docs say it."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

from math import comb
from pathlib import Path
from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.significance import holm
from swarm.plugins.study.report.seed_tables import csv_bytes, write_tables
from tests.plugins.study.report.published import DOCS, PUBLISHED, evidence_of, frames_of, said

ROOT = Path(__file__).parents[4]
STUDIES = sorted(file.parent for file in (ROOT / "docs" / "study").glob("*/tables/study.json"))
"""Those with per-seed tables; earlier ones have none."""
TABLES = sorted(file.parent for file in (ROOT / "docs" / "study").rglob("study.json"))
"""Those of replications, too, which have fewer seeds."""


def of_study(folder: Path) -> Any:
    """The tests of one study, in one process, for they share what follows from its tables."""
    return pytest.param(folder, marks=pytest.mark.xdist_group(str(folder)), id=str(folder.relative_to(DOCS / "study")))


@pytest.mark.parametrize("tables", [*map(of_study, TABLES)])
def test_the_committed_tables_come_out_of_the_per_seed_ones_again(tables: Path) -> None:
    again = {f"{name}.csv": csv_bytes(frame) for name, frame in frames_of(tables).items()}
    write_tables(evidence_of(tables), lambda name, data: again.update({Path(name).name: data}))
    committed = {file.name: file.read_bytes() for file in tables.iterdir() if file.suffix in (".csv", ".json")}
    assert again == committed


PAGED = sorted({DOCS / "study" / one.study / "tables" for one in PUBLISHED})


@pytest.mark.parametrize("tables", [*map(of_study, PAGED)])
def test_the_pages_say_what_the_committed_tables_come_to(tables: Path) -> None:
    for one in PUBLISHED:
        if DOCS / "study" / one.study / "tables" == tables:
            page = " ".join((DOCS / one.page).read_text("utf-8").split())
            assert said(one) in page, f"docs/{one.page} does not say: {said(one)}"


def test_the_page_counts_what_was_declared_and_what_came_out() -> None:
    declared = [pd.read_csv(tables / "declared.csv") for tables in STUDIES]
    rows = pd.concat(declared)
    beyond = rows[rows["p_holm"] < 0.05]
    three = int((beyond["n"] == 3).sum())
    page = " ".join((DOCS / "study/README.md").read_text("utf-8").split())
    assert (
        f"{len(rows)} were declared, in {len(declared)} files, each a Holm family. {len(beyond)} have Holm's p < 0.05"
        in page
    )
    as_one = [p for p in holm(rows["p"].tolist()) if p is not None and p < 0.05]
    assert f"As one single family {len(as_one)} would" in page
    assert three == 10
    assert f"Ten of the {len(beyond)} rest on three seeds" in page


@pytest.mark.parametrize(("runs", "words"), [(5, "no p below 0.008"), (3, "none below 0.10")])
def test_the_page_says_how_small_the_p_of_a_permutation_test_can_be(runs: int, words: str) -> None:
    smallest = 2 / comb(2 * runs, runs)
    assert float(words.split()[-1]) == pytest.approx(smallest, abs=1e-4)
    assert words in " ".join((DOCS / "study/README.md").read_text("utf-8").split())
