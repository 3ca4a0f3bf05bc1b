"""The frames of a study: those of its runs, with the columns that say which run a row belongs to."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from swarm.errors import ExperimentError
from swarm.plugins.study.frames import get_study_judge_metrics, get_study_metrics, get_study_rollout_files, study_frame
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


def test_the_judge_of_a_study() -> None:
    judged = get_study_judge_metrics(SMALL, "small")
    asked = judged.groupby("configuration", sort=False)["full_answer"]
    assert asked.count().to_dict() == {"4/0": 54, "2/2": 46, "adaptive": 54}
    assert asked.sum().to_dict() == {"4/0": 27, "2/2": 11, "adaptive": 12}


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


def test_a_study_that_is_not_there_is_an_error_that_names_those_that_are() -> None:
    with pytest.raises(ExperimentError, match=r"no study 'smal'.*small"):
        get_study_metrics(SMALL, "smal")


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
