"""Records of a growing file, whatever its size and wherever the last reading stopped."""

from __future__ import annotations

import pytest

from swarm.store.records import Cursor, read_on

FAR = 2**23
"""Bytes before the records: more than any single record takes."""
RECORDS = [b"first", b"x" * 100, b"last"]


@pytest.mark.parametrize("limit", [1, 5, 6, 16, 107, 10**6])
def test_a_reading_far_into_a_file_gives_each_record_whole_and_once(limit: int) -> None:
    data, found, cursor, more = b"".join(record + b"\n" for record in RECORDS), list[bytes](), Cursor("it", FAR), True

    def read(begin: int, end: int) -> bytes:
        return data[begin - FAR : max(0, end - FAR)]

    while more:
        records, text, torn, more, *_ = read_on(read, FAR + len(data), cursor, limit, lambda _: "it")
        found, cursor = [*found, *records], Cursor.parsed(text)
        assert not torn
    assert found == RECORDS
