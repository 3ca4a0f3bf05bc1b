"""Stores that break one promise each, and which checks have to notice it."""

from __future__ import annotations

import os
import posixpath
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import anyio
import pytest

from swarm.errors import AlreadyThereError, ProtocolError, StoreError
from swarm.lines import LogFile
from swarm.store.base import Blob, Kind, Records, Store
from tests.conformance.worlds import World

ANY = 1 << 40
EVERY = "every verb"


class Break(NamedTuple):
    """One thing that a store does wrong."""

    verb: str
    call: Callable[..., Any]
    """Stands in for the verb: takes the store, then what the verb takes."""
    noticed_by: tuple[str, ...]
    """Names of checks, without `check_`."""
    world: str = "memory"
    """Where it is tried."""


BREAKS = {
    "appends the same but once": Break(
        "append_records",
        lambda store, key, records, **_: store.inner.append_records(key, records, durable=True),
        ("records_that_are_new_follow_the_same_ones",),
    ),
    "leaves empty records out": Break(
        "append_records",
        lambda store, key, records, **_: store.inner.append_records(key, [*filter(None, records)], durable=True),
        ("a_file_may_begin_with_an_empty_record",),
    ),
    "appends in any order": Break(
        "append_records",
        lambda store, key, records, **_: store.inner.append_records(key, records[::-1], durable=True),
        (
            "records_come_whole_once_and_in_order_while_they_are_appended",
            "a_limit_leaves_the_rest_to_the_next_reading",
        ),
    ),
    "replaces what is there": Break(
        "put",
        lambda store, key, data, **_: store.inner.put(key, data),
        ("what_is_there_is_not_replaced_by_who_wants_to_be_first", "of_many_at_once_one_is_first"),
    ),
    "forgets the rest": Break(
        "read_records",
        lambda store, *what, **how: store.inner.read_records(*what, **how)._replace(more=False),
        ("a_limit_leaves_the_rest_to_the_next_reading",),
    ),
    "knows no limit": Break(
        "get", lambda store, key, limit: store.inner.get(key, ANY), ("no_more_is_read_than_the_limit",)
    ),
    "knows no pages": Break(
        "list", lambda store, prefix, **_: store.inner.list(prefix), ("a_page_has_no_more_entries_than_asked_for",)
    ),
    "sees nothing in a bundle": Break(
        "stat",
        lambda store, key: None if key.startswith("checkpoints/") and key.count("/") > 2 else store.inner.stat(key),
        ("what_is_in_a_bundle_is_seen_one_by_one",),
    ),
    "lists what was there": Break(
        "list",
        lambda store, prefix, **how: store.common.kept.setdefault(prefix, store.inner.list(prefix, **how)),
        ("a_listing_shows_what_is_there",),
    ),
    "ends with its first page": Break(
        "list",
        lambda store, prefix, **how: store.inner.list(prefix, **how)._replace(next=""),
        ("pages_together_are_the_listing",),
    ),
    "gives no hints": Break("watch", lambda store, *_: anyio.sleep_forever(), ("a_hint_says_that_it_is_time_to_list",)),
    "lets readers write": Break(
        "put",
        lambda store, key, data, **_: store.common.kept.setdefault("a writer", store.inner).put(key, data),
        ("a_store_without_a_writer_writes_nothing",),
    ),
    "goes where keys lead": Break(
        "put",
        lambda store, key, data, **how: store.inner.put(posixpath.normpath(key).lstrip("/"), data, **how),
        ("a_key_that_leads_elsewhere_is_none",),
    ),
}
"""Those that take a line each; the others follow."""


def breaks(verb: str, *noticed_by: str, world: str = "memory") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(call: Callable[..., Any]) -> Callable[..., Any]:
        BREAKS[call.__name__] = Break(verb, call, noticed_by, world)
        return call

    return add


class Common:
    """What all handles of a place share."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.begin = threading.Barrier(4)
        self._looks = 0
        self._looked = threading.Condition()

    def look(self) -> None:
        with self._looked:
            self._looks += 1
            self._looked.notify_all()

    def let_readers_look(self) -> None:
        """Where somebody reads, wait for a look that began by now: so what it sees depends on no thread's turn."""
        with self._looked:
            if before := self._looks:
                self._looked.wait_for(lambda: self._looks > before + 1, timeout=0.2)


class Broken:
    """A store that passes everything on but for one verb."""

    def __init__(self, inner: Store, common: Common, wrong: Break) -> None:
        self.inner = inner
        self.common = common
        self._wrong = wrong

    def __getattr__(self, name: str) -> Any:
        if name in ("get", "open_bundle"):
            self.common.look()
        if self._wrong.verb == EVERY:
            return partial(self._wrong.call, self, name)
        return partial(self._wrong.call, self) if self._wrong.verb == name else getattr(self.inner, name)


class BrokenWorld:
    """A place whose handles are broken."""

    def __init__(self, world: World, wrong: Break) -> None:
        self._world = world
        self._wrong = wrong
        self._common = Common()
        self.cut_power = world.cut_power
        self.put_odd = world.put_odd
        self.logs_wait = world.logs_wait

    def open(self, writer: str | None = None) -> Store:
        return cast(Store, Broken(self._world.open(writer), self._common, self._wrong))


# ── atomic ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@breaks("put", "a_file_is_read_whole_while_it_is_replaced")
def writes_in_two_parts(store: Broken, key: str, data: bytes, **how: bool) -> None:
    store.inner.put(key, data[: len(data) // 2], **how)
    store.common.let_readers_look()
    store.inner.put(key, data, **how)


@breaks(
    "put_bundle",
    "a_bundle_is_seen_whole_while_it_is_replaced",
    "a_bundle_that_cannot_be_filled_leaves_the_one_before",
)
def writes_bundles_file_by_file(store: Broken, prefix: str, fill: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory() as name:
        try:
            fill(Path(name))
        except OSError as error:
            raise StoreError("no space") from error
        finally:
            for path in filter(Path.is_file, Path(name).rglob("*")):
                store.inner.put(f"{prefix}/{path.relative_to(name).as_posix()}", path.read_bytes())
                store.common.let_readers_look()


@breaks("put_bundle", "a_bundle_has_folders_within_folders")
def leaves_out_what_lies_deep(store: Broken, prefix: str, fill: Callable[[Path], None]) -> None:
    def shallow(folder: Path) -> None:
        fill(folder)
        for file in filter(Path.is_file, folder.glob("*/*/*")):
            file.unlink()

    store.inner.put_bundle(prefix, shallow)


# ── durable ─────────────────────────────────────────────────────────────────────────────────────────────────────────
@breaks("put", "what_was_acknowledged_outlives_its_writer")
def acknowledges_before_it_writes(store: Broken, key: str, data: bytes, **how: bool) -> None:
    late = store.common.kept.pop("late", None)
    store.common.kept["late"] = partial(store.inner.put, key, data, **how)
    if late:
        late()


@breaks(
    EVERY,
    "a_file_outlives_a_power_cut",
    "a_bundle_outlives_a_power_cut",
    "records_outlive_a_power_cut",
    "what_is_synced_later_outlives_a_power_cut",
    "what_is_durable_outlives_a_power_cut_beside_what_is_not",
    world="folder",
)
def syncs_nothing(store: Broken, verb: str, *args: Any, **kwargs: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        return getattr(store.inner, verb)(*args, **kwargs)


@breaks("append_records", "trying_again_doubles_nothing")
def appends_again(store: Broken, key: str, records: Sequence[bytes], **how: bool) -> None:
    before = store.inner.get(key, ANY).data if store.inner.stat(key) else b""
    store.inner.put(key, before + b"".join(record + b"\n" for record in records))


# ── exclusive ───────────────────────────────────────────────────────────────────────────────────────────────────────
@breaks("put", "of_many_at_once_one_is_first")
def looks_before_it_writes(store: Broken, key: str, data: bytes, *, if_absent: bool = False, **how: bool) -> None:
    if if_absent:
        there = store.inner.stat(key)
        store.common.begin.wait()  # all of them have looked by now, and none has written
        if there:
            raise AlreadyThereError(key)
    store.inner.put(key, data)


# ── own order ───────────────────────────────────────────────────────────────────────────────────────────────────────
@breaks("put", "whoever_sees_a_write_sees_what_its_writer_put_before")
def holds_rollouts_back(store: Broken, key: str, data: bytes, **how: bool) -> None:
    held = store.common.kept
    if key.startswith("rollouts"):
        key, data, held["write"] = *held.get("write", (key, b"-1")), (key, data)
    store.inner.put(key, data, **how)


@breaks("append_records", "whoever_sees_a_write_sees_what_its_writer_put_before")
def holds_records_back(store: Broken, key: str, records: Sequence[bytes], **how: bool) -> None:
    late = store.common.kept.pop("late", [])
    store.common.kept["late"] = list(records)
    store.inner.append_records(key, late, durable=False)


# ── growing ─────────────────────────────────────────────────────────────────────────────────────────────────────────
@breaks("append_records", "records_come_whole_once_and_in_order_while_they_are_appended")
def appends_in_two_parts(store: Broken, key: str, records: Sequence[bytes], **how: bool) -> None:
    for record in records:
        half = len(record) // 2
        for part in (record[:half], record[half:]):
            store.inner.append_records(key, [part], durable=False)


@breaks("read_records", "the_end_of_a_file_begins_with_a_whole_record_and_is_read_on")
def cuts_a_record_at_the_end(store: Broken, *what: Any, **limit: int) -> Records:
    found = store.inner.read_records(*what, **limit)
    first = [record[1:] for record in found.records[:1]]
    return found._replace(records=[*first, *found.records[1:]]) if found.cut else found


@breaks("read_records", "another_file_is_read_from_its_beginning")
def knows_no_other_file(store: Broken, key: str, cursor: str = "", **limit: int) -> Records:
    found = store.inner.read_records(key, cursor, **limit)
    return Records([], cursor) if found.restarted else found


@breaks(
    "read_records",
    "half_a_record_waits_and_goes_with_the_next_append",
    "a_record_beyond_all_bounds_is_junk_and_the_next_one_is_read",
)
def gives_half_records(store: Broken, key: str, cursor: str = "", **limit: int) -> Records:
    data = store.inner.get(key, ANY).data
    return Records(data[int(cursor or 0) :].split(b"\n"), str(len(data)))


@breaks("open_log", "the_lines_of_a_log_are_records_at_its_end_at_the_latest")
def keeps_log_lines_to_itself(store: Broken, key: str) -> LogFile:
    log = store.inner.open_log(key)
    log.write = lambda line: None  # type: ignore[method-assign]
    return log


# ── bounded ─────────────────────────────────────────────────────────────────────────────────────────────────────────
@breaks("get", "odd_files_are_refused_at_once_and_links_are_not_followed", world="folder")
def follows_links(store: Broken, key: str, limit: int) -> Blob:
    with suppress(OSError), open(os.open(store.inner.describe(key), os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        return Blob(file.read(limit), "")
    raise ProtocolError("not_a_file", key)


@breaks("open_bundle", "a_bundle_gives_regular_files_alone", world="folder")
@contextmanager
def opens_bundles_in_place(store: Broken, prefix: str) -> Iterator[Path]:
    yield Path(store.inner.describe(prefix))


# ── listing ─────────────────────────────────────────────────────────────────────────────────────────────────────────
@breaks("get", "a_tag_is_another_one_when_the_content_may_be_another")
def tags_by_size(store: Broken, key: str, limit: int) -> Blob:
    data = store.inner.get(key, limit).data
    return Blob(data, str(len(data)))


# ── readers and errors ──────────────────────────────────────────────────────────────────────────────────────────────
@breaks("get", "what_is_not_there_is_not_found")
def takes_the_missing_for_empty(store: Broken, key: str, limit: int) -> Blob:
    with suppress(FileNotFoundError):
        return store.inner.get(key, limit)
    return Blob(b"", "")


@breaks("put", "a_key_where_something_else_stands_is_blocked")
def says_never_that_it_is_blocked(store: Broken, key: str, data: bytes, **how: bool) -> None:
    try:
        store.inner.put(key, data, **how)
    except StoreError as error:
        raise StoreError(str(error)) from error


_EXPECTED = {"put": Kind.FILE, "append_records": Kind.FILE, "put_bundle": Kind.PREFIX}


@breaks(
    EVERY,
    "what_stands_in_the_way_of_a_file_goes",
    "what_stands_in_the_way_of_records_goes",
    "what_stands_in_the_way_of_a_bundle_goes",
)
def is_stopped_by_what_stands_there(store: Broken, verb: str, *args: Any, **kwargs: Any) -> Any:
    if (expected := _EXPECTED.get(verb)) and (found := store.inner.stat(args[0])) and found.kind is not expected:
        raise StoreError(f"a {found.kind} stands at {args[0]}", blocked=True)
    return getattr(store.inner, verb)(*args, **kwargs)
