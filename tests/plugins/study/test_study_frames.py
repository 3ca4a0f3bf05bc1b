"""The frames of a study: those of its runs, with the columns that say which run a row belongs to."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.cli.main import run
from swarm.plugins.study.frames import get_study_metrics, get_study_rollout_files, study_frame
from swarm.plugins.study.record import read_study
from swarm.views.tables import export as tables_export
from swarm.views.tables import frames
from swarm.views.tables.columns import RUN
from swarm.views.tables.export import Format, encoded
from swarm.views.tables.frames import TABLES, get_experiment_metrics
from tests.layout import Layout
from tests.plugins.study.study_files import record_file
from tests.unit.views.factories import append_events, make_event
from tests.unit.views.tables.small_study import FULL, SMALL, copy_of_small

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.mark.parametrize("table", TABLES)
def test_a_study_has_three_columns_in_front_and_none_twice(tmp_path: Path, table: str) -> None:
    frame = study_frame(SMALL, "small", TABLES[table])
    assert list(frame.columns)[:3] == ["configuration", "seed", "experiment"]
    assert frame.columns.is_unique
    assert set(frame.columns) == {"configuration", "seed", "experiment", *TABLES[table].columns}
    (copy_of_small(tmp_path) / "experiments").rename(tmp_path / "away")
    young = study_frame(tmp_path / "runs", "small", TABLES[table])
    assert {name: str(dtype) for name, dtype in young.dtypes.items()} == RUN | TABLES[table].columns


def test_adaptive_columns_are_missing_values_where_no_rule_was_on() -> None:
    metrics = get_study_metrics(SMALL, "small")
    adaptive = metrics[[name for name in metrics if name.startswith("adaptive_")]]
    assert adaptive.shape[1] == 5
    on = metrics["configuration"] == "adaptive"
    assert adaptive[on].notna().all(axis=None)
    assert adaptive[~on].isna().all(axis=None)
    assert metrics["adaptive_J"].to_numpy(dtype="float64", na_value=float("nan")).dtype == "float64"


def test_a_study_is_its_runs_in_the_order_of_its_record(tmp_path: Path) -> None:
    path = copy_of_small(tmp_path)
    (path / "experiments" / "small_2-2_s1").rename(tmp_path / "away")
    metrics = get_study_metrics(str(path), "small")
    runs = metrics[["configuration", "seed", "experiment"]].drop_duplicates()
    assert runs.iloc[:4].to_numpy().tolist() == [
        ["4/0", 1, "small_4-0_s1"],
        ["4/0", 2, "small_4-0_s2"],
        ["4/0", 3, "small_4-0_s3"],
        ["2/2", 2, "small_2-2_s2"],
    ]
    assert len(runs) == 8


def test_a_study_has_its_own_rounds_of_a_run_that_another_study_let_go_on(tmp_path: Path) -> None:
    path = copy_of_small(tmp_path)
    record = read_study(path, "small")
    append_events(Layout(path, FULL), "worker-0", make_event("node.started", 1.0))
    before = {table: len(study_frame(path, "small", TABLES[table])) for table in ("metrics", "judge", "rewards")}
    shorter = msgspec.structs.replace(record, rounds=record.rounds - 2)
    record_file(path, "small").write_bytes(msgspec.json.encode(shorter))
    metrics = get_study_metrics(path, "small")
    assert metrics["round"].max() == shorter.rounds - 1
    assert get_experiment_metrics(path, FULL)["round"].max() == record.rounds - 1
    assert all(len(study_frame(path, "small", TABLES[table])) < count for table, count in before.items())
    assert study_frame(path, "small", TABLES["events"])["round"].isna().any()


def test_a_study_of_many_runs_can_be_read_again(tmp_path: Path) -> None:
    record = read_study(SMALL, "small")
    many = msgspec.structs.replace(record, runs=record.runs * 500)
    file = record_file(tmp_path, "small")
    file.parent.mkdir(parents=True)
    file.write_bytes(msgspec.json.encode(many))
    assert read_study(tmp_path, "small") == many


def test_the_rollout_files_of_a_study_name_their_runs() -> None:
    found = get_study_rollout_files(SMALL, "small")
    assert set(found["experiment"]) == {FULL}
    assert found.groupby("round")["files"].sum().tolist() == [3] * found["round"].nunique()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_made_piece_by_piece_is_the_same(monkeypatch: pytest.MonkeyPatch, form: Format) -> None:
    """`adaptive_I` is missing in the first rows and there in later ones, so that its pieces differ in type."""
    whole = study_frame(SMALL, "small", TABLES["metrics"])
    written = b"".join(encoded([whole], form))
    monkeypatch.setattr(frames, "BLOCK", 7)
    monkeypatch.setattr(tables_export, "SLICE", 11)
    pieces = study_frame(SMALL, "small", TABLES["metrics"])
    pd.testing.assert_frame_equal(pieces, whole)
    assert b"".join(encoded([pieces], form)) == written


# ── against sums by hand ────────────────────────────────────────────────────────────────────────────────────────────

# A node's reward in round r of the study in tests/fixtures/study is k / 64 with
#
#     k = LEVEL + GAIN r + LUCK of the seed + (0, 1 or 2 for the node)
#
# LEVEL and GAIN are 4 and 1 in 4/0, 8 and 2 in 2/2, 6 and 3 in adaptive. So totals are added up by hand in 64ths: three
# nodes x six rounds give 18 LEVEL + 45 GAIN + 18 LUCK + 18. A node tags 2 k / 64 of its completions, which earn 1/2.
# Each trouble there is one that real runs have met:
#
#     4-0, seed 2     a node was killed while it wrote: junk in the middle of its file, a torn last line
#     2-2, seed 1     a node crashed and did round 3 again: two rows, the last counts; rollouts, rewards and events, too
#     2-2, seed 2     a node joined late, in round 2
#     2-2, seed 3     a node has a folder for logs and no row
#     4-0             rows without the rewards given tagged: an older version did not write them
#     adaptive        rows with the adaptive columns
ALONE = [135 / 64, 153 / 64, 189 / 64]
"""4/0: 72 + 45 + 18, and 18 and 54 more by luck."""
SHARING = [252 / 64, 262 / 64, 174 / 64]
"""2/2: 144 + 90 + 18 = 252; 252 + 36 - 12 - 14 without two rounds of a node; 252 + 18 - 96 without a whole node."""
ADAPTIVE = [279 / 64, 261 / 64, 333 / 64]
"""adaptive: 108 + 135 + 18 = 261, and 18, 0 and 72 more by luck."""


def test_cumulative_rewards_are_those_added_up_by_hand() -> None:
    from swarm.plugins.study.analysis.measures import totals

    found = totals(get_study_metrics(SMALL, "small")).set_index(["configuration", "seed"])
    assert found["cumulative_reward"].loc["4/0"].tolist() == ALONE
    assert found["cumulative_reward"].loc["2/2"].tolist() == SHARING
    assert found["cumulative_reward"].loc["adaptive"].tolist() == ADAPTIVE
    assert found["nodes"].tolist() == [3, 3, 3, 3, 3, 2, 3, 3, 3]
    assert found["rounds"].unique().tolist() == [6]
    assert found["bytes_published"].loc[("2/2", 2)] == (6 + 6 + 4) * 2000
    assert found["mean_adaptive_J"].loc[("adaptive", 1)] == 2


PAGE = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text("utf-8")


def test_the_snippets_of_the_page_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    copy_of_small(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for language, code in re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        if language == "python":
            exec(code, names)
        for line in code.splitlines() if language == "sh" else ():
            assert run(shlex.split(line)[1:]) == 0
    assert names["cumulative"] == 252 / 64
    assert names["per_round"][0] == 9 / 64
    assert names["means"]["4/0"] == 159 / 64
    assert names["given_tagged"].tolist() == [0.5] * 9
    assert names["learned_from"].loc["worker-0", "worker-1"] == 36
    assert names["trajectory"].unique().tolist() == [2.0]
    assert len(names["cut_off"]) == 3 * 2
    assert names["pass_at_1"]["4/0"] == names["given_answered"]["4/0"] == 0.5
    assert len(names["small"]) == len(names["metrics"])
    assert names["table"]["my_reward"].sum() == names["cumulative"]
    assert capfdbinary.readouterr().out.count(b"question_id") == 154
