"""Rows are read from files that somebody still writes, or was killed while writing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swarm.errors import FolderError
from swarm.folder.jsonl import read_rows


class Row(msgspec.Struct):
    round: int


def test_lesson_torn_last_lines_a_line_without_its_newline_is_neither_row_nor_junk(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"round":0}\n{"round":1}\n{"rou')
    assert read_rows(file, Row) == ([Row(0), Row(1)], 0)
    file.write_bytes(b'{"round":0}\n{"round":1}\n{"round":2}')
    assert read_rows(file, Row) == ([Row(0), Row(1)], 0)


def test_lines_that_are_no_rows_are_counted_and_blank_ones_are_not(tmp_path: Path) -> None:
    junk = [b'{"rou{"round":1}', b"\xff\xfe", b'{"round":"x"}', b"null", b"[" * 100_000]
    (tmp_path / "m.jsonl").write_bytes(b"\n".join([b'{"round":0}', *junk, b"", b"  ", b'{"round":2,"more":1}', b""]))
    assert read_rows(tmp_path / "m.jsonl", Row) == ([Row(0), Row(2)], len(junk))


def test_a_file_that_is_not_there_has_no_rows(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "m.jsonl", Row) == ([], 0)


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").mkdir()
    with pytest.raises(FolderError, match=r"cannot read .*m\.jsonl: Is a directory"):
        read_rows(tmp_path / "m.jsonl", Row)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=100))
def test_whatever_a_file_holds_it_can_be_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "m.jsonl").write_bytes(b'{"round":0}\n' + data)
    rows, junk = read_rows(tmp_path / "m.jsonl", Row)
    assert rows[0] == Row(0)
    assert len(rows) + junk <= 1 + data.count(b"\n")
