"""Frames as files: read back, they are the frames."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from swarm.errors import ConfigError, StoreError
from swarm.views.tables import frames
from swarm.views.tables.columns import Columns
from swarm.views.tables.export import FORMATS, Format, encoded, write_table
from swarm.views.tables.frames import TABLES, experiment_blocks, experiment_frame, get_experiment_metrics, get_rollouts
from tests.unit.views.tables.small_study import FULL, SMALL, empty_run

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


def read_back(data: bytes, form: Format, columns: Columns) -> pd.DataFrame:
    """As docs/metrics.md tells to."""
    if form == "jsonl":
        rows = [json.loads(line) for line in data.splitlines()]
        return pd.DataFrame(rows, columns=list(columns)).astype(columns)
    if form == "csv":
        text = {name for name, dtype in columns.items() if dtype in ("str", "object")}
        dtypes = {name: "str" if name in text else dtype for name, dtype in columns.items()}
        missing = {name: [""] for name in columns if name not in text}
        frame = pd.read_csv(io.BytesIO(data), dtype=dtypes, keep_default_na=False, na_values=missing)
        for name in text:
            frame[name] = frame[name].str.removeprefix("'")
    else:
        frame = pd.read_parquet(io.BytesIO(data))
    for name in (name for name, dtype in columns.items() if dtype == "object"):
        frame[name] = frame[name].map(json.loads).astype(object)
    return frame


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("table", TABLES)
def test_read_back_a_table_equals_its_frame_and_block_by_block_it_is_the_same_file(
    table: str, form: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty completions of two million characters each took 2.9 GB: a block ends behind a megabyte of text, too."""
    frame = experiment_frame(SMALL, FULL, TABLES[table])
    whole = b"".join(encoded([frame], form))
    pd.testing.assert_frame_equal(read_back(whole, form, TABLES[table].columns), frame, check_exact=form != "csv")
    monkeypatch.setattr(frames, "BLOCK", 7)
    monkeypatch.setattr(frames, "BLOCK_TEXT", 100)
    blocks = [*experiment_blocks(SMALL, FULL, TABLES[table])]
    assert len(blocks) > 1
    assert b"".join(encoded(blocks, form)) == whole


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("table", TABLES)
def test_without_a_row_there_are_the_columns(tmp_path: Path, table: str, form: Format) -> None:
    frame = experiment_frame(tmp_path, empty_run(tmp_path).experiment, TABLES[table])
    back = read_back(b"".join(encoded([frame], form)), form, TABLES[table].columns)
    pd.testing.assert_frame_equal(back, frame, check_index_type=False)


def test_the_text_of_a_completion_survives_csv() -> None:
    texts = ["a\nb", 'say "x",\n', "", "NA", "-1", "'=1"]
    rollouts = get_rollouts(SMALL, FULL).head(6).assign(response=texts)
    back = read_back(b"".join(encoded([rollouts], "csv")), "csv", TABLES["rollouts"].columns)
    assert back["response"].tolist() == texts


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1"])
def test_no_text_in_csv_is_a_formula_and_numbers_stay_numbers(text: str) -> None:
    frame = pd.DataFrame({"text": [text], "number": [-1.5]})
    cell, number = b"".join(encoded([frame], "csv")).decode().split("\n", 1)[1].rsplit(",", 1)
    assert cell.startswith("\"'")
    assert number == "-1.5\n"


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_what_a_terminal_would_obey_is_escaped(form: Format) -> None:
    frame = pd.DataFrame({"text": ["a\x1b[2J\x9b\u202e\u200bz"], "nested": [{"\u2066": "\x7f"}]})
    written = b"".join(encoded([frame], form)).decode()
    assert "a\\u001b[2J\\u009b\\u202e\\u200bz" in written
    assert all(c.isprintable() or c == "\n" for c in written)


def test_numbers_keep_every_digit_in_csv() -> None:
    frame = pd.DataFrame({"x": [0.1 + 0.2, 1 / 3, 1_700_000_002.123456, 5e-324]})
    assert [float(line) for line in b"".join(encoded([frame], "csv")).split()[1:]] == frame["x"].tolist()


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_is_replaced_only_by_force_and_whole(tmp_path: Path, form: Format) -> None:
    target, frame = tmp_path / "new" / "metrics", get_experiment_metrics(SMALL, FULL)
    write_table([frame], form, target)
    assert target.read_bytes() == b"".join(encoded([frame], form))
    with pytest.raises(ConfigError, match=r"metrics is there already.*--force"):
        write_table([frame.head(1)], form, target)
    assert target.read_bytes() == b"".join(encoded([frame], form))
    write_table([frame.head(1)], form, target, force=True)
    assert target.read_bytes() == b"".join(encoded([frame.head(1)], form))
    assert [file.name for file in target.parent.iterdir()] == ["metrics"]


def test_a_file_that_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(StoreError, match="cannot write"):
        write_table([get_experiment_metrics(SMALL, FULL)], "csv", tmp_path / "file" / "metrics.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="cannot write"):
        write_table([get_experiment_metrics(SMALL, FULL)], "csv", tmp_path / "folder", force=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "kept"


def test_without_pyarrow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = get_experiment_metrics(SMALL, FULL)
    monkeypatch.setitem(sys.modules, "pandas.io.parquet", None)
    with pytest.raises(ConfigError, match=r"pyarrow.*pip install .*pyarrow"):
        b"".join(encoded([frame], "parquet"))
