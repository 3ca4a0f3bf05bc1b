"""What stores promise of reading: growing, bounded, listing; readers and errors."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import anyio
import pytest

from swarm.errors import ProtocolError, StoreError
from swarm.store.base import MOST_PER_RECORD, Kind, Records, end_of, get_many
from tests.conformance.promises import (
    BIG,
    BUNDLE,
    KEY,
    LOG,
    ODD,
    content,
    fails,
    filled,
    names,
    promise,
    reading,
    refused,
    while_writing,
)
from tests.conformance.worlds import World


# ── growing ─────────────────────────────────────────────────────────────────────────────────────────────────────────
@promise("growing")
def check_records_come_whole_once_and_in_order_while_they_are_appended(world: World, tmp: Path) -> None:
    anna, ben = world.open("anna"), world.open()
    cursor, found, width, lead = "", list[bytes](), 300, threading.Semaphore(10)

    def append(version: int) -> None:
        lead.acquire(timeout=1.0)  # a writer that runs far ahead of its reader shows no more
        anna.append_records(LOG, [b"%d" % version * width, b"-%d" % version], durable=False)

    def look() -> int:
        nonlocal cursor
        lead.release()
        records, cursor, *_ = ben.read_records(LOG, cursor, limit=1000)
        found.extend(records)
        return len(found)

    while_writing(append, look, 20)
    while ben.read_records(LOG, cursor).records:
        look()
    expected = (record for v in itertools.count() for record in (b"%d" % v * width, b"-%d" % v))
    assert found == list(itertools.islice(expected, len(found)))
    assert ben.read_records(LOG, cursor) == Records([], cursor)


@promise("growing")
def check_a_limit_leaves_the_rest_to_the_next_reading(world: World, tmp: Path) -> None:
    written = [b"%03d" % number for number in range(100)]
    world.open("anna").append_records(LOG, written, durable=False)
    ben, cursor, found, more = world.open(), "", list[bytes](), True
    while more:
        records, cursor, torn, more, *_ = ben.read_records(LOG, cursor, limit=40)
        assert len(records) <= 11
        assert not torn
        found += records
    assert found == written


@promise("growing")
def check_the_end_of_a_file_begins_with_a_whole_record_and_is_read_on(world: World, tmp: Path) -> None:
    anna, ben = world.open("anna"), world.open()
    written = [b"%03d" % number for number in range(100)]
    assert ben.read_records(LOG, end_of(40)).records == []
    for record in written:
        anna.append_records(LOG, [record], durable=False)
    for size, first in ((3, 100), (4, 99), (7, 99), (8, 98), (40, 90), (399, 1), (400, 0), (2**30, 0)):
        found = ben.read_records(LOG, end_of(size))
        assert (found.records, found.cut) == (written[first:], first > 0)
        assert (found.torn, found.more, found.restarted) == (False, False, False)
    anna.append_records(LOG, [b"next"], durable=False)
    assert ben.read_records(LOG, found.cursor).records == [b"next"]
    records, cursor, *_ = ben.read_records(LOG, end_of(2**10), limit=40)
    assert len(records) <= 11
    assert records + ben.read_records(LOG, cursor).records == [*written, b"next"]


@promise("growing")
def check_another_file_is_read_from_its_beginning(world: World, tmp: Path) -> None:
    anna = world.open("anna")
    anna.append_records(LOG, [b"one", b"two"], durable=False)
    cursor = world.open().read_records(LOG).cursor
    anna.remove(LOG)
    assert world.open().read_records(LOG, cursor).records == []
    anna.append_records(LOG, [b"another", b"file", b"that is longer"], durable=False)
    found = world.open().read_records(LOG, cursor)
    assert (found.records, found.restarted) == ([b"another", b"file", b"that is longer"], True)
    assert not world.open().read_records(LOG, found.cursor).restarted


@promise("growing")
def check_half_a_record_waits_and_goes_with_the_next_append(world: World, tmp: Path) -> None:
    anna, ben = world.open("anna"), world.open()
    anna.put(LOG, b"one\ntw")
    found = ben.read_records(LOG)
    assert (found.records, found.torn, found.more) == ([b"one"], True, False)
    anna.append_records(LOG, [b"three"], durable=True)
    assert world.open().read_records(LOG).records == [b"one", b"three"]


@promise("growing")
def check_a_file_may_begin_with_an_empty_record(world: World, tmp: Path) -> None:
    anna, put = world.open("anna"), "logs/anna/put.jsonl"
    anna.append_records(LOG, [b""], durable=False)
    assert world.open().read_records(LOG).records == [b""]
    anna.put(put, b"\n")
    anna.append_records(put, [b"one"], durable=False)
    assert world.open().read_records(put).records == [b"", b"one"]


@promise("growing")
def check_the_lines_of_a_log_are_records_at_its_end_at_the_latest(world: World, tmp: Path) -> None:
    log = world.open("anna").open_log("logs/anna/stdout.log")
    try:
        log.write(b"one")
        log.reopen()
        log.write(b"two")
        found = world.open().read_records("logs/anna/stdout.log").records
        assert found in ([b"one", b"two"], []) if world.logs_wait else found == [b"one", b"two"]
    finally:
        log.close()
    assert world.open().read_records("logs/anna/stdout.log").records == [b"one", b"two"]


# ── bounded ─────────────────────────────────────────────────────────────────────────────────────────────────────────
@promise("bounded")
def check_no_more_is_read_than_the_limit(world: World, tmp: Path) -> None:
    anna, ben = world.open("anna"), world.open()
    anna.put(KEY, b"x" * 1000)
    assert len(ben.get(KEY, 1000).data) == 1000
    refused("oversized", lambda: ben.get(KEY, 999))
    found, there, _ = get_many(ben, [KEY, LOG, KEY], 999)
    assert isinstance(found, ProtocolError)
    assert found.reason == "oversized"
    assert there is None
    ben.get_to_file(KEY, tmp / "whole", 1000)
    assert (tmp / "whole").read_bytes() == b"x" * 1000
    refused("oversized", lambda: ben.get_to_file(KEY, tmp / "copy", 999))
    assert not (tmp / "copy").exists()


@promise("bounded")
def check_a_record_beyond_all_bounds_is_junk_and_the_next_one_is_read(world: World, tmp: Path) -> None:
    longest, junk, rest = b"x" * MOST_PER_RECORD, b"y" * (3 * MOST_PER_RECORD), [b"z" * 2000, b"next"]
    world.open("anna").append_records(LOG, [longest, junk, *rest], durable=False)
    cursor, found, more = "", list[bytes](), True
    while more:
        records, cursor, _, more, *_ = world.open().read_records(LOG, cursor, limit=1000)
        assert sum(map(len, records)) <= MOST_PER_RECORD + 1000
        found += records
    assert found == [longest, b"", *rest]


@promise("bounded")
def check_a_page_has_no_more_entries_than_asked_for(world: World, tmp: Path) -> None:
    anna = world.open("anna")
    for number in range(10):
        anna.put(f"peers/{number}.json", b"", durable=False)
    assert len(world.open().list("peers", limit=3).entries) == 3


@promise("bounded")
def check_odd_files_are_refused_at_once_and_links_are_not_followed(world: World, tmp: Path) -> None:
    ben = world.open("ben")
    for kind in ODD:
        key = f"odd/{kind}/it"
        if not world.put_odd(key, kind):
            return
        refused("not_a_file", lambda key=key: ben.get(key, BIG))  # type: ignore[misc]
        refused("not_a_file", lambda key=key: ben.get_to_file(key, tmp / "copy", BIG))  # type: ignore[misc]
        refused("not_a_file", lambda key=key: ben.read_records(key))  # type: ignore[misc]
        odd, gone = get_many(ben, [key, f"odd/{kind}/gone"], BIG)
        assert isinstance(odd, ProtocolError)
        assert gone is None
        expected = Kind.PREFIX if kind == "folder" else Kind.OTHER
        assert [ben.list(f"odd/{kind}", tags=tags).entries[0].kind for tags in (True, False)] == [expected] * 2
        found = ben.stat(key)
        assert found
        assert found.kind is expected
        ben.sync(key)
    assert not (tmp / "copy").exists()
    world.put_odd("odd/sparse", "sparse")
    refused("oversized", lambda: ben.get("odd/sparse", BIG))


@promise("bounded")
def check_a_bundle_gives_regular_files_alone(world: World, tmp: Path) -> None:
    world.open("anna").put_bundle(BUNDLE, filled(a=b"1"))
    for kind in ODD[:3]:
        world.put_odd(f"{BUNDLE}/model/{kind}", kind)
    for store in (world.open(), world.open("anna")):
        assert content(store, BUNDLE) == {"a": b"1", "model/a": b"1"}


@promise("bounded")
def check_what_is_in_a_bundle_is_seen_one_by_one(world: World, tmp: Path) -> None:
    anna, ben = world.open("anna"), world.open()
    for size in (1, 3):
        anna.put_bundle(BUNDLE, filled(a=b"x" * size))
        for store in (anna, ben):
            assert (names(store, BUNDLE), names(store, f"{BUNDLE}/model")) == (["a", "model"], ["a"])
            seen = {name: store.stat(f"{BUNDLE}/{name}") for name in ("a", "model", "model/a", "b", "model/b")}
            assert {name: entry.kind for name, entry in seen.items() if entry} == {
                "a": Kind.FILE,
                "model": Kind.PREFIX,
                "model/a": Kind.FILE,
            }
            assert [(e.name, e.size) for e in seen.values() if e and e.kind is Kind.FILE] == [("a", size), ("a", size)]


# ── listing ─────────────────────────────────────────────────────────────────────────────────────────────────────────
@promise("listing")
def check_a_listing_shows_what_is_there(world: World, tmp: Path) -> None:
    anna, ben = world.open("anna"), world.open()
    assert names(ben, "peers") == []
    for name in ("b", "a", "c"):
        anna.put(f"peers/{name}.json", name.encode())
    assert names(ben, "peers") == ["a.json", "b.json", "c.json"]
    anna.remove("peers/b.json")
    anna.remove("peers/b.json")
    assert names(ben, "peers") == ["a.json", "c.json"]
    anna.put("peers/round_1/x.json", b"")
    kinds = {entry.name: entry.kind for entry in ben.list("peers").entries}
    assert kinds == {"a.json": Kind.FILE, "c.json": Kind.FILE, "round_1": Kind.PREFIX}
    anna.put_bundle(BUNDLE, filled(a=b"1"))
    anna.remove_prefix(BUNDLE)
    anna.remove_prefix(BUNDLE)
    fails(FileNotFoundError, lambda: content(ben, BUNDLE))
    assert names(ben, BUNDLE) == []


@promise("listing")
def check_pages_together_are_the_listing(world: World, tmp: Path) -> None:
    anna, ben = world.open("anna"), world.open()
    written = sorted(f"{number}.json" for number in range(25))
    for name in written:
        anna.put(f"peers/{name}", b"", durable=False)
    found, after = list[str](), ""
    while page := ben.list("peers", after=after, limit=10):
        found += [entry.name for entry in page.entries]
        if not (after := page.next):
            break
    assert found == written
    assert ben.list("peers", limit=25).next == ""


@promise("listing")
def check_a_tag_is_another_one_when_the_content_may_be_another(world: World, tmp: Path) -> None:
    anna, ben = world.open("anna"), world.open()
    seen: dict[str, bytes] = {}
    for data in (b"one", b"two", b"two", b"more"):
        anna.put(KEY, data, durable=False)
        listed, found, got = (
            ben.list("rollouts/round_3/stage_0", tags=True).entries[0],
            ben.stat(KEY),
            ben.get(KEY, BIG),
        )
        assert listed == found == ("anna.json", Kind.FILE, len(data), got.tag)
        assert ben.get(KEY, BIG).tag == got.tag
        assert seen.setdefault(got.tag, data) == data


@promise("listing")
def check_a_hint_says_that_it_is_time_to_list(world: World, tmp: Path) -> None:
    anna, ben = world.open("anna"), world.open("ben")
    if world.logs_wait:
        return

    async def look() -> None:
        hinted = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ben.watch, ["peers"], 60.0, hinted.set)
            for number in range(9):
                anna.put(f"peers/{number}.json", b"", durable=False)
                with anyio.move_on_after(0.25):
                    await hinted.wait()
                    break
            tasks.cancel_scope.cancel()
        assert hinted.is_set(), "no hint for anything"

    anyio.run(look)


# ── readers and errors ──────────────────────────────────────────────────────────────────────────────────────────────
@promise("readers")
def check_a_store_without_a_writer_writes_nothing(world: World, tmp: Path) -> None:
    world.open("anna").put(KEY, b"{}")
    ben = world.open()
    for attempt in (
        lambda: ben.put(KEY, b"ben"),
        lambda: ben.append_records(LOG, [b"x"], durable=False),
        lambda: ben.put_bundle(BUNDLE, filled(a=b"1")),
        lambda: ben.remove(KEY),
        lambda: ben.remove_prefix("rollouts"),
    ):
        fails(StoreError, attempt)
    assert reading(world.open(), KEY) == b"{}"
    assert names(ben, "logs") == names(ben, "checkpoints") == []


@promise("errors")
def check_what_is_not_there_is_not_found(world: World, tmp: Path) -> None:
    ben = world.open("ben")
    for key in (KEY, "archives/demo/rows"):
        fails(FileNotFoundError, lambda key=key: ben.get(key, BIG))  # type: ignore[misc]
        fails(FileNotFoundError, lambda key=key: ben.get_to_file(key, tmp / "copy", BIG))  # type: ignore[misc]
    fails(FileNotFoundError, lambda: content(ben, BUNDLE))
    assert get_many(ben, [KEY], BIG) == [None]
    assert ben.stat(KEY) is None
    assert ben.list("rollouts") == ([], "", 0)
    assert ben.read_records(LOG) == Records([], "")
    ben.sync(KEY)
    ben.remove(KEY)
    ben.remove_prefix("rollouts")
    assert not (tmp / "copy").exists()


@promise("errors")
def check_a_key_where_something_else_stands_is_blocked(world: World, tmp: Path) -> None:
    anna = world.open("anna")
    anna.put(KEY, b"{}")
    for key in ("rollouts", f"{KEY}/below", "reward.png"):
        if key == "reward.png":
            anna.put(f"{key}/below", b"")
        error = fails(StoreError, lambda key=key: anna.put(key, b""))  # type: ignore[misc]
        assert isinstance(error, StoreError)
        assert error.blocked
    assert reading(world.open(), KEY) == b"{}"


@promise("errors")
def check_a_key_that_leads_elsewhere_is_none(world: World, tmp: Path) -> None:
    anna = world.open("anna")
    for key in ("peers/../x", "peers//x", "/etc/passwd", "peers/."):
        with pytest.raises(ValueError, match="expected a key"):
            anna.put(key, b"")
