"""Files that grow in a bucket: segments, the lines of logs, and what strangers put among them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import obstore
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swarm.errors import StoreError
from swarm.lines import MOST_TOGETHER, BufferedLog
from swarm.store.base import MOST_PER_READ, PAGE, Records
from swarm.store.bucket import growing
from swarm.store.bucket.growing import GrowingWriter
from swarm.store.bucket.listing import MOST_GROWN
from swarm.store.bucket.log import SealedLog
from tests.unit.store.bucket.buckets import BUSY, ROOT, Faults, MemoryBucket, error

LOG = "logs/anna/metrics.jsonl"
BIRTH = "0" * 20


def segment(start: int) -> str:
    return f"{LOG}~/{BIRTH}-{start:015}"


def whole(bucket: MemoryBucket, limit: int = MOST_PER_READ) -> list[bytes]:
    found, cursor, more = list[bytes](), "", True
    while more:
        records, cursor, _, more, *_ = bucket.open().read_records(LOG, cursor, limit)
        found += records
    return found


def appended(bucket: MemoryBucket, count: int, size: int = 8) -> list[bytes]:
    """Appends so many records, each by itself, by one writer; returns all of them."""
    anna, rows = bucket.open("anna"), [b"%0*d" % (size, number) for number in range(count)]
    for row in rows:
        anna.append_records(LOG, [row], durable=True)
    return rows


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was joined goes at once."""
    monkeypatch.setattr(growing, "GRACE", 0.0)


@pytest.mark.usefixtures("no_grace")
def test_however_many_records_were_appended_a_reader_asks_for_few_segments() -> None:
    bucket = MemoryBucket()
    rows = appended(bucket, 1200, size=3000)
    reader = bucket.open()
    assert reader.read_records(LOG, limit=2**30).records == rows
    assert reader.facts().spent.requests["list"] == 1
    assert reader.facts().spent.requests["get"] <= 3


@pytest.mark.usefixtures("no_grace")
@pytest.mark.parametrize("gone", [0, 100], ids=["whole", "some bytes are gone"])
def test_a_run_of_single_segments_of_before_is_joined_when_its_writer_comes_back(gone: int) -> None:
    bucket = MemoryBucket()
    for number in range(600):
        bucket.write(segment(9 * number + (gone if number else 0)), b"%08d\n" % number)
    more = appended(bucket, 40)
    reader = bucket.open()
    found = reader.read_records(LOG)
    behind = reader.read_records(LOG, found.cursor)
    assert found.records + behind.records == [*(b"%08d" % number for number in range(600)), *more]
    assert reader.facts().spent.requests["get"] <= 4


def test_a_file_of_more_segments_than_a_listing_has_names_is_read_to_its_end() -> None:
    bucket, rows = MemoryBucket(), [b"%08d" % number for number in range(PAGE + 200)]
    for number, row in enumerate(rows):
        bucket.write(segment(9 * number), row + b"\n")
    assert whole(bucket) == rows


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_record_that_the_file_ends_with_already_is_appended_once_and_one_that_ends_like_it_is_another(
    comes_back: bool,
) -> None:
    bucket = MemoryBucket()
    anna = bucket.open("anna")
    for row in (b"q", b"ab", b"ab", b"cab", b"ab"):
        (bucket.open("anna") if comes_back else anna).append_records(LOG, [row], durable=True)
    assert whole(bucket) == [b"q", b"ab", b"cab", b"ab"]


class _Forgetful:
    """A client that leaves some of what it is to delete."""

    def __init__(self, client: Any, kept: set[int]) -> None:
        self._client, self._kept = client, kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def delete(self, names: list[str]) -> None:
        self._client.delete([name for place, name in enumerate(names) if place not in self._kept])


@pytest.mark.usefixtures("no_grace")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 40), max_size=8), st.sets(st.integers(0, 40)), st.integers(1, 400))
def test_whoever_reads_while_segments_are_joined_gets_each_record_once(
    appends: list[int], kept: set[int], limit: int
) -> None:
    """Some of the segments that were joined stay, as a death or a slow server leaves them."""
    bucket, number, found, cursor = MemoryBucket(), 0, list[bytes](), ""
    for count in appends:
        anna = bucket.open("anna")
        anna._client = _Forgetful(anna._client, kept)  # type: ignore[assignment]
        for _ in range(count):
            anna.append_records(LOG, [b"%d" % number], durable=True)
            number += 1
        more = True
        while more:
            records, cursor, torn, more, restarted, _ = bucket.open().read_records(LOG, cursor, limit)
            assert (torn, restarted) == (False, False)
            found += records
    rows = [b"%d" % one for one in range(number)]
    assert found == whole(bucket) == rows


def befalls(fate: str, segment: str, bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """What becomes of a segment between a listing and its reading."""
    get = obstore.get

    def odd(objects: Any, name: str, **options: Any) -> Any:
        if name.endswith(segment) and fate == "refused":
            raise error("- Server returned non-2xx status code: 403 Forbidden: ")
        if name.endswith(segment):
            obstore.delete(objects, name) if fate == "deleted" else bucket.write(segment, b"t")
        return get(objects, name, **options)

    monkeypatch.setattr(obstore, "get", odd)


@pytest.mark.parametrize("fate", ["refused", "shorter"])
def test_what_cannot_be_read_now_is_joined_to_nothing_and_stays(fate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = MemoryBucket()
    for number in range(15):
        bucket.write(segment(9 * number), b"%08d\n" % number)
    before = bucket.names(f"{LOG}~")
    befalls(fate, before[1], bucket, monkeypatch)
    anna = bucket.open("anna")
    for _ in range(8):
        anna.append_records(LOG, [b"last"], durable=True)
    assert {*before} <= {*bucket.names(f"{LOG}~")}
    assert anna.facts().spent.requests["get"] <= 20, "it is not tried with each append"


@pytest.mark.usefixtures("no_grace")
def test_what_could_not_be_joined_for_a_moment_is_joined_later(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = MemoryBucket()
    for number in range(15):
        bucket.write(segment(9 * number), b"%08d\n" % number)
    anna = bucket.open("anna")
    with monkeypatch.context() as patch:
        befalls("refused", bucket.names(LOG)[1], bucket, patch)
        anna.append_records(LOG, [b"last"], durable=True)
    before = len(bucket.names(LOG))
    for _ in range(20):
        anna.append_records(LOG, [b"last"], durable=True)
    assert len(bucket.names(LOG)) < before
    assert whole(bucket) == [*(b"%08d" % number for number in range(15)), b"last"]


def test_a_writer_that_cannot_read_what_it_wrote_last_goes_on_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = MemoryBucket()
    bucket.open("anna").append_records(LOG, [b"one"], durable=True)
    Faults(monkeypatch, "get", ("", ""), *[("before", BUSY)] * 6)
    bucket.open("anna").append_records(LOG, [b"two"], durable=True, once=False)
    assert whole(bucket) == [b"one", b"two"]


@pytest.mark.parametrize(("grace", "listings"), [(0.0, 2), (growing.GRACE, 1)])
def test_what_is_joined_between_a_listing_and_a_reading_is_read_where_it_was_or_is_now(
    grace: float, listings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many joins a reader was slower than: for GRACE seconds all stays where he saw it."""
    monkeypatch.setattr(growing, "GRACE", grace)
    bucket, get = MemoryBucket(), obstore.get
    rows = appended(bucket, 15)
    anna, more = bucket.open("anna"), [b"%03000d" % number for number in range(400)]
    joins = iter([lambda: [anna.append_records(LOG, [row], durable=True) for row in more]])

    def late(objects: Any, name: str, **options: Any) -> Any:
        if (join := next(joins, None)) is not None:
            join()
        return get(objects, name, **options)

    monkeypatch.setattr(obstore, "get", late)
    reader, wanted = bucket.open(), [*rows, *more] if grace == 0 else rows
    assert reader.read_records(LOG).records == wanted
    assert reader.facts().spent.requests["list"] == listings


@pytest.mark.parametrize("between", [b"", b"x" * 100], ids=["gone", "too large to be ours"])
def test_what_is_gone_from_the_middle_or_cannot_be_ours_is_left_out(
    between: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = MemoryBucket()
    for start, data in ((0, b"one\n"), (4, between), (104, b"two\n")):
        if data:
            bucket.write(segment(start), data)
    monkeypatch.setattr(growing, "MOST_PER_APPEND", 50)
    assert whole(bucket) == whole(bucket, limit=2) == [b"one", b"two"]


@pytest.mark.parametrize("birth", [BIRTH, "f" * 20])
def test_an_object_of_no_bytes_in_the_place_of_a_segment_is_none(birth: str) -> None:
    bucket = MemoryBucket()
    bucket.write(f"{LOG}~/{birth}-{0:015}", b"")
    assert bucket.open().read_records(LOG) == Records([], "")
    assert bucket.open().stat(LOG) is None
    bucket.open("anna").append_records(LOG, [b"one"], durable=True)
    assert whole(bucket) == [b"one"]


def test_a_segment_that_reaches_beyond_the_one_behind_it_spoils_no_record_that_comes() -> None:
    bucket = MemoryBucket()
    bucket.write(segment(0), b"one\ntwo\nthree\n")
    bucket.write(segment(4), b"two\n")
    bucket.open("anna").append_records(LOG, [b"four"], durable=True)
    assert whole(bucket) == [b"one", b"two", b"four"]


@pytest.mark.parametrize(("bound", "before"), [("MOST_PER_APPEND", []), ("MOST_GROWN", [b"one"])])
def test_what_no_file_or_segment_can_hold_is_refused_and_what_was_there_stays(
    bound: str, before: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, bound, 20)
    anna = MemoryBucket().open("anna")
    for row in before:
        anna.append_records(LOG, [row], durable=True)
    with pytest.raises(StoreError, match=f"s3://mine/{ROOT}/{LOG}"):
        anna.append_records(LOG, [b"x" * 20], durable=True)
    assert anna.read_records(LOG).records == before


def test_a_file_that_is_made_anew_by_a_clock_that_went_back_is_read_from_its_beginning() -> None:
    bucket = MemoryBucket()
    bucket.open("anna").append_records(LOG, [b"one", b"two"], durable=True)
    cursor = bucket.open().read_records(LOG).cursor
    bucket.open("anna").remove(LOG)
    bucket.write(segment(0), b"another\n")
    found = bucket.open().read_records(LOG, cursor)
    assert (found.records, found.restarted) == ([b"another"], True)


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


def log_of(bucket: MemoryBucket, waits: float) -> BufferedLog:
    file = GrowingWriter(bucket.open("anna")._client, f"{ROOT}/{LOG}")
    return BufferedLog(lambda: SealedLog(file, waits=waits), lambda dropped: b"")


def test_many_lines_of_a_log_are_one_segment_and_equal_ones_stay() -> None:
    bucket = MemoryBucket()
    with log_of(bucket, waits=1e6) as log:
        for _ in range(500):
            log.write(b"the same line")
        assert bucket.names() == []
    assert whole(bucket) == [b"the same line"] * 500
    assert len(bucket.names()) == 1


def test_equal_lines_that_are_sealed_one_after_the_other_stay_in_one_life_and_the_next() -> None:
    bucket = MemoryBucket()
    for _ in range(2):
        log = bucket.open("anna").open_log(LOG)
        log.write(b"the same line")
        log.write(b"the same line")
    assert whole(bucket) == [b"the same line"] * 4


def test_a_line_is_sealed_when_it_is_old_and_at_once_when_there_are_many() -> None:
    bucket = MemoryBucket()
    with log_of(bucket, waits=0.01) as log:
        log.write(b"old")
        until(lambda: whole(bucket) == [b"old"])
    with log_of(bucket, waits=1e6) as log:
        log.write(b"x" * MOST_TOGETHER)
        until(lambda: len(whole(bucket)) == 2)


def test_lines_whose_answer_was_lost_are_sealed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, put, lost = MemoryBucket(), obstore.put, [b"one"]

    def unanswered(objects: Any, name: str, data: bytes, **options: Any) -> Any:
        done = put(objects, name, data, **options)
        if lost and lost[0] in data:
            lost.clear()
            raise error("- Server returned non-2xx status code: 403 Forbidden: ")
        return done

    monkeypatch.setattr(obstore, "put", unanswered)
    with log_of(bucket, waits=0.01) as log:
        log.write(b"one")
        until(lambda: not lost)
        log.write(b"two")
        until(lambda: whole(bucket)[-1:] == [b"two"])
    assert whole(bucket) == [b"one", b"two"]


def test_segments_so_far_off_that_nobody_appended_them_stop_no_writer_and_hide_no_line() -> None:
    bucket = MemoryBucket()
    bucket.open("anna").append_records(LOG, [b"one"], durable=True)
    for birth in (BIRTH, bucket.names(LOG)[0].rpartition("/")[2][:20], "f" * 20):
        for start in range(MOST_GROWN - 1100, MOST_GROWN + 1):
            bucket.write(f"{LOG}~/{birth}-{start:015}{'-000000000000000' * (start % 2)}", b"x\n")
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
    for start, line in ((0, b"one"), (4, b"two"), (8, b"three")):
        bucket.write(segment(start), line + b"\n")
    befalls(fate, bucket.names(LOG)[1], bucket, monkeypatch)
    assert whole(bucket) == [b"one", *([] if fate == "deleted" else [b"\0" * 3]), b"three"]


def test_what_lies_at_a_logs_name_and_is_no_log_goes_when_its_writer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = MemoryBucket()
    bucket.write(LOG, b"x" * 100)
    monkeypatch.setattr(growing, "MOST_PER_APPEND", 50)
    bucket.open("anna").append_records(LOG, [b"one"], durable=True)
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
