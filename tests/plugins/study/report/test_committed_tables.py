"""The studies of docs/study: what is committed follows from the per-seed tables, and the pages of docs say it."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

from pathlib import Path
from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.effect_size import improvement
from swarm.plugins.study.analysis.significance import holm, paired, welch
from swarm.plugins.study.report.seed_tables import csv_bytes, write_tables
from tests.plugins.study.report.published import DOCS, PUBLISHED, evidence_of, frames_of, said, tables_in

ROOT = Path(__file__).parents[4]
STUDIES = sorted(file.parent for file in (ROOT / "docs" / "study").glob("*/tables/study.json"))
"""Those with per-seed tables; earlier ones have none."""
TABLES = sorted(file.parent for file in (ROOT / "docs" / "study").rglob("study.json"))
"""Those of replications, too, which have fewer seeds."""


def page_of(name: str) -> str:
    """A page of docs as one line."""
    return " ".join((DOCS / name).read_text("utf-8").split())


def of_study(folder: Path) -> Any:
    """The tests of one study, in one process, for they share what follows from its tables."""
    return pytest.param(folder, marks=pytest.mark.xdist_group(str(folder)), id=str(folder.relative_to(DOCS / "study")))


@pytest.mark.parametrize("tables", [*map(of_study, TABLES)])
def test_the_committed_tables_come_out_of_the_per_seed_ones_again(tables: Path) -> None:
    again = {f"{name}.csv": csv_bytes(frame) for name, frame in frames_of(tables).items()}
    write_tables(evidence_of(tables), lambda name, data: again.update({Path(name).name: data}))
    committed = {file.name: file.read_bytes() for file in tables.iterdir() if file.suffix in (".csv", ".json")}
    assert again == committed


PAGED = sorted({tables_in(one.study) for one in PUBLISHED})


@pytest.mark.parametrize("tables", [*map(of_study, PAGED)])
def test_the_pages_say_what_the_committed_tables_come_to(tables: Path) -> None:
    for one in PUBLISHED:
        if tables_in(one.study) == tables:
            assert said(one) in page_of(one.page), f"docs/{one.page} does not say: {said(one)}"


def test_the_page_counts_what_was_declared_and_what_came_out() -> None:
    declared = [pd.read_csv(tables / "declared.csv") for tables in STUDIES]
    rows = pd.concat(declared)
    beyond = rows[rows["p_holm"] < 0.05]
    three = int((beyond["n"] == 3).sum())
    page = page_of("study/README.md")
    assert (
        f"{len(rows)} were declared, in {len(declared)} files, each a Holm family. {len(beyond)} have Holm's p < 0.05"
        in page
    )
    as_one = [p for p in holm(rows["p"].tolist()) if p is not None and p < 0.05]
    assert f"As one single family {len(as_one)} would" in page
    assert three == 10
    assert f"Ten of the {len(beyond)} rest on three seeds" in page


def test_the_page_counts_what_is_left_without_comparisons_of_runs_that_another_study_had() -> None:
    repeats = {("empty-update", "step-"): 3, ("judged", "rare-"): 1, ("starting-reward", "0.6pc-"): 1}
    kept = []
    for tables in STUDIES:
        rows = pd.read_csv(tables / "declared.csv")
        for (study, prefix), count in repeats.items():
            again = rows["configuration"].str.startswith(prefix) & (tables.parent.name == study)
            assert again.sum() == (count if tables.parent.name == study else 0)
            rows = rows[~again]
        kept.append(rows)
    left = pd.concat(kept)
    beyond = int((left["p_holm"] < 0.05).sum())
    as_one = sum(p is not None and p < 0.05 for p in holm(left["p"].tolist()))
    assert f"without them there are {len(left)}, {beyond} and {as_one}." in page_of("study/README.md")


def test_the_page_names_each_verdict_that_another_test_would_change() -> None:
    """A study declares Welch's test or pairs; the page has Holm's p of both where one alone is below 0.05."""
    changed = []
    for tables in STUDIES:
        declared, runs = pd.read_csv(tables / "declared.csv"), pd.read_csv(tables / "runs.csv")
        ways = []
        for test in (welch, paired):
            ps = []
            for row in declared.itertuples():
                values = runs.pivot(index="seed", columns="configuration", values=row.measure)
                ps.append(test(*(values[name].dropna().tolist() for name in (row.configuration, row.baseline))).p)
            ways.append(holm(ps))
        changed += [(a, b) for a, b in zip(*ways, strict=True) if (a < 0.05) != (b < 0.05)]
    told = page_of("study/README.md").split("Holm's p by Welch's test, then by pairs:")[1].split("No other verdict")[0]
    assert len(changed) == told.count(", 0.") == 9
    for ps in changed:
        assert ", ".join(f"{p:.3f}" if p < 0.0995 else f"{p:.2f}" for p in ps) in told


def test_the_pages_say_what_two_poisoners_cost_over_the_seeds_of_the_study_and_of_its_replication() -> None:
    runs = pd.concat([evidence_of(tables_in(study)).runs for study in ("poisoners", "poisoners/again")])
    of = {str(name): rows["honest_reward"].tolist() for name, rows in runs.groupby("configuration", observed=True)}
    cost = improvement(of["two"], of["honest"])
    assert f"{cost.value:+.1f} % ({cost.low:.1f} to {cost.high:.1f})" in page_of("study/poisoners.md")
    assert f"all seven seeds {cost.value:.0f} % ({cost.low:.0f} to {cost.high:.0f})" in page_of("study/README.md")
    told = f"the others {-cost.value:.0f} % ({-cost.high:.0f} to {-cost.low:.0f}, seven seeds)"
    assert told in page_of("../README.md")


def test_the_page_says_what_pairs_say_of_the_repeated_start() -> None:
    runs = evidence_of(tables_in("starting-reward/again")).runs
    rewards = runs.pivot(index="seed", columns="configuration", values="cumulative_reward")
    found = paired(rewards["0.6pc-4/4"].tolist(), rewards["0.6pc-8/0"].tolist())
    assert f"by the declared Welch test, {found.p:.3f} by pairs" in page_of("study/starting-reward.md")


def test_the_page_says_what_the_rarest_start_earns_in_its_first_round() -> None:
    """In the declared studies of eight nodes: a seed's mean over configurations, then the mean over seeds."""
    rows = []
    for tables in STUDIES:
        evidence = evidence_of(tables)
        record, runs = evidence.record, evidence.runs
        models = {one.name: (record.settings | one.settings).get("model") for one in record.configurations}
        rare = [name for name, model in models.items() if model == ["tiny-2-qwen2-rare"]]
        rows.append(runs[runs["configuration"].isin(rare) & (runs["nodes"] == 8)][["seed", "starting_reward"]])
    by_seed = pd.concat(rows).groupby("seed")["starting_reward"].mean()
    told = f"the rarest start has {by_seed.mean():.3f} over the {len(by_seed)} seeds of all declared studies"
    assert told in page_of("study/starting-reward.md")
