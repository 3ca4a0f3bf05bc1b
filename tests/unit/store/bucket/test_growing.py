"""Files that grow in a bucket: segments, the lines of logs, and what strangers put among them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import obstore
import pytest

from swarm.store.base import MOST_PER_READ, Records
from swarm.store.bucket import growing
from swarm.store.bucket.growing import GrowingWriter
from swarm.store.bucket.listing import MOST_GROWN
from swarm.store.bucket.log import SEALED_AT, SealedLog
from tests.unit.store.bucket.buckets import ROOT, MemoryBucket, error

LOG = "logs/anna/metrics.jsonl"
BIRTH = "0" * 20


def segment(start: int) -> str:
    return f"{LOG}~/{BIRTH}-{start:015}"


def whole(bucket: MemoryBucket, limit: int = MOST_PER_READ) -> list[bytes]:
    found, cursor, more = list[bytes](), "", True
    while more:
        records, cursor, _, more, _ = bucket.open().read_records(LOG, cursor, limit)
        found += records
    return found


def test_small_segments_put_together_into_one_are_read_on_where_the_reader_was() -> None:
    bucket = MemoryBucket()
    bucket.write(segment(0), b"one\n")
    bucket.write(segment(4), b"two\n")
    bucket.write(segment(8), b"three\n")
    found = bucket.open().read_records(LOG, limit=5)
    assert found.records == [b"one", b"two"]
    bucket.write(segment(0), b"one\ntwo\nthree\n")
    assert bucket.open().read_records(LOG, found.cursor).records == [b"three"]
    for start in (4, 8):
        bucket.open("anna")._client.delete([f"{ROOT}/{segment(start)}"])
    later = bucket.open().read_records(LOG, found.cursor)
    assert (later.records, later.restarted) == ([b"three"], False)
    assert whole(bucket) == [b"one", b"two", b"three"]


def test_what_is_gone_from_the_middle_is_left_out() -> None:
    bucket = MemoryBucket()
    bucket.write(segment(0), b"one\n")
    bucket.write(segment(100), b"two\n")
    assert whole(bucket) == [b"one", b"two"]
    assert whole(bucket, limit=2) == [b"one", b"two"]


def test_a_segment_too_large_to_be_ours_is_skipped() -> None:
    bucket = MemoryBucket()
    bucket.write(segment(0), b"one\n")
    bucket.write(segment(4), b"x" * 100)
    bucket.write(segment(104), b"two\n")
    most, growing.MOST_PER_APPEND = growing.MOST_PER_APPEND, 50
    try:
        assert whole(bucket) == [b"one", b"two"]
    finally:
        growing.MOST_PER_APPEND = most


def test_half_a_line_at_the_end_of_a_segment_goes_with_the_next_append() -> None:
    bucket = MemoryBucket()
    bucket.write(segment(0), b"one\ntw")
    assert bucket.open().read_records(LOG).torn
    bucket.open("anna").append_records(LOG, [b"three"], durable=True)
    assert whole(bucket) == [b"one", b"three"]
    assert bucket.open().read_records(LOG) == bucket.open().read_records(LOG)


def test_a_file_put_as_one_object_is_read_and_becomes_a_segment_when_it_grows() -> None:
    bucket = MemoryBucket()
    bucket.open("anna").put(LOG, b"one\ntwo\n")
    before = bucket.open().read_records(LOG)
    assert before.records == [b"one", b"two"]
    bucket.open("anna").append_records(LOG, [b"three"], durable=True)
    after = bucket.open().read_records(LOG, before.cursor)
    assert (after.records, after.restarted) == ([b"one", b"two", b"three"], True)
    assert not [name for name in bucket.names() if name == LOG]


def test_a_file_that_is_put_again_has_no_old_segments() -> None:
    bucket = MemoryBucket()
    bucket.open("anna").append_records(LOG, [b"old"], durable=True)
    bucket.open("anna").put(LOG, b"new\n")
    assert whole(bucket) == [b"new"]


def test_nothing_new_costs_one_listing() -> None:
    bucket = MemoryBucket()
    bucket.open("anna").append_records(LOG, [b"one"], durable=True)
    cursor, ben = bucket.open().read_records(LOG).cursor, bucket.open()
    assert ben.read_records(LOG, cursor) == Records([], cursor)
    assert ben.facts().spent.requests == {"list": 1}


def until(holds: Callable[[], bool]) -> None:
    """Wait for what another thread does; the suite's time-out is against hanging."""
    while not holds():
        threading.Event().wait(0.005)


def log_of(bucket: MemoryBucket, after: float) -> tuple[SealedLog, GrowingWriter]:
    file = GrowingWriter(bucket.open("anna")._client, f"{ROOT}/{LOG}")
    return SealedLog(file, after=after), file


def test_many_lines_of_a_log_are_one_segment_and_equal_ones_stay() -> None:
    bucket = MemoryBucket()
    log, _ = log_of(bucket, after=1e6)
    for _ in range(500):
        log.write(b"the same line")
    assert bucket.names() == []
    log.close()
    assert whole(bucket) == [b"the same line"] * 500
    assert len(bucket.names()) == 1


def test_a_line_is_sealed_when_it_is_old_and_at_once_when_there_are_many() -> None:
    bucket = MemoryBucket()
    log, _ = log_of(bucket, after=0.01)
    log.write(b"old")
    until(lambda: whole(bucket) == [b"old"])
    log.close()
    log, _ = log_of(bucket, after=1e6)
    log.write(b"x" * SEALED_AT)
    until(lambda: len(whole(bucket)) == 2)
    log.close()


def test_segments_so_far_off_that_nobody_appended_them_stop_no_writer_and_hide_no_line() -> None:
    bucket = MemoryBucket()
    bucket.open("anna").append_records(LOG, [b"one"], durable=True)
    for birth in (BIRTH, bucket.names(LOG)[0].rpartition("/")[2][:20], "f" * 20):
        for start in range(MOST_GROWN - 1100, MOST_GROWN + 1):
            bucket.write(f"{LOG}~/{birth}-{start:015}", b"x\n")
    bucket.open("anna").append_records(LOG, [b"two"], durable=True)
    assert whole(bucket) == whole(bucket, limit=2) == [b"one", b"two"]
    assert [(entry.name, entry.size) for entry in bucket.open().list("logs/anna", tags=True).entries] == [
        ("metrics.jsonl", 8)
    ]


@pytest.mark.parametrize("fate", ["deleted", "shorter", "refused"])
def test_a_segment_that_is_another_one_when_it_is_read_costs_its_own_lines_alone(
    fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = MemoryBucket()
    for line in (b"one", b"two", b"three"):
        bucket.open("anna").append_records(LOG, [line], durable=True)
    second, get = bucket.names(LOG)[1], obstore.get

    def changed(objects: Any, name: str, **options: Any) -> Any:
        if name.endswith(second) and fate == "refused":
            raise error("- Server returned non-2xx status code: 403 Forbidden: ")
        if name.endswith(second):
            obstore.delete(objects, name) if fate == "deleted" else bucket.write(second, b"t")
        return get(objects, name, **options)

    monkeypatch.setattr(obstore, "get", changed)
    assert whole(bucket) == [b"one", b"\0" * 3, b"three"]


def test_what_lies_at_a_logs_name_and_is_no_log_goes_when_its_writer_comes() -> None:
    bucket = MemoryBucket()
    bucket.write(LOG, b"x" * 100)
    most, growing.MOST_PER_APPEND = growing.MOST_PER_APPEND, 50
    try:
        bucket.open("anna").append_records(LOG, [b"one"], durable=True)
    finally:
        growing.MOST_PER_APPEND = most
    assert whole(bucket) == [b"one"]


def test_a_log_of_many_segments_is_listed_in_time_that_grows_with_their_number() -> None:
    few, many = (_steps_of_listing(number) for number in (500, 2000))
    assert many < 8 * few


def _steps_of_listing(segments: int) -> int:
    """Calls of Python functions, as those of C count nothing here."""
    bucket, steps = MemoryBucket(), 0
    for number in range(segments):
        bucket.write(segment(number), b"\n")

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    store = bucket.open()
    sys.setprofile(count)
    try:
        store.list("logs/anna", tags=True)
    finally:
        sys.setprofile(None)
    return steps
