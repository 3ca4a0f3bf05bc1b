"""Stores that break one promise each, and which checks have to notice it."""

from __future__ import annotations

import os
import posixpath
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, cast

import anyio
import pytest

from swarm.errors import AlreadyThereError, ProtocolError, StoreError
from swarm.lines import LogFile
from swarm.store.base import MOST_PER_READ, PAGE, Blob, Entry, Kind, Page, Records, Store
from tests.conformance.worlds import World

ANY = 1 << 40


class Broken:
    """A store that passes everything on; each subclass does one thing wrong."""

    noticed_by: ClassVar[tuple[str, ...]]
    """Names of checks, without `check_`."""
    world: ClassVar[str] = "memory"
    """Where it is tried."""

    def __init__(self, inner: Store, common: dict[str, Any]) -> None:
        self.inner = inner
        self.common = common
        """Shared by all handles of a place."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class BrokenWorld:
    """A place whose handles are broken."""

    def __init__(self, world: World, kind: type[Broken]) -> None:
        self._world = world
        self._kind = kind
        self._common: dict[str, Any] = {}
        self.cut_power = world.cut_power
        self.put_odd = world.put_odd
        self.logs_wait = world.logs_wait

    def open(self, writer: str | None = None) -> Store:
        return cast(Store, self._kind(self._world.open(writer), self._common))


# ── atomic ──────────────────────────────────────────────────────────────────────────────────────────────────────────
class WritesInSteps(Broken):
    """Lets readers look between two steps, so that what they could see does not depend on the threads' turns."""

    noticed_by = ()

    @property
    def _looked(self) -> threading.Condition:
        return cast(threading.Condition, self.common.setdefault("looked", threading.Condition()))

    @contextmanager
    def looking(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self._looked:
                self.common["looks"] = self.common.get("looks", 0) + 1
                self._looked.notify_all()

    def let_readers_look(self) -> None:
        """Where somebody reads, wait for a look that began after the last step."""
        with self._looked:
            before = self.common.get("looks", 0)
            if before:
                self._looked.wait_for(lambda: self.common["looks"] > before + 1, timeout=0.2)


class WritesInTwoParts(WritesInSteps):
    noticed_by = ("a_file_is_read_whole_while_it_is_replaced",)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        self.inner.put(key, data[: len(data) // 2], if_absent=if_absent, durable=durable)
        self.let_readers_look()
        self.inner.put(key, data, durable=durable)

    def get(self, key: str, limit: int) -> Blob:
        with self.looking():
            return self.inner.get(key, limit)


class WritesBundlesFileByFile(WritesInSteps):
    noticed_by = ("a_bundle_is_seen_whole_while_it_is_replaced", "a_bundle_that_cannot_be_filled_leaves_the_one_before")

    def put_bundle(self, prefix: str, fill: Callable[[Path], None]) -> None:
        with tempfile.TemporaryDirectory() as name:
            try:
                fill(Path(name))
            except OSError as error:
                raise StoreError("no space") from error
            finally:
                for path in Path(name).rglob("*"):
                    if path.is_file():
                        self.inner.put(f"{prefix}/{path.relative_to(name).as_posix()}", path.read_bytes())
                        self.let_readers_look()

    @contextmanager
    def open_bundle(self, prefix: str) -> Iterator[Path]:
        with self.looking(), self.inner.open_bundle(prefix) as folder:
            yield folder


# ── durable ─────────────────────────────────────────────────────────────────────────────────────────────────────────
class AcknowledgesBeforeItWrites(Broken):
    noticed_by = ("what_was_acknowledged_outlives_its_writer",)
    late: Callable[[], None] = staticmethod(lambda: None)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        self.late()
        self.late = lambda: self.inner.put(key, data, if_absent=if_absent, durable=durable)


class SyncsNothing(Broken):
    world = "folder"
    noticed_by = (
        "a_file_outlives_a_power_cut",
        "a_bundle_outlives_a_power_cut",
        "records_outlive_a_power_cut",
        "what_is_synced_later_outlives_a_power_cut",
        "what_is_durable_outlives_a_power_cut_beside_what_is_not",
    )

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.inner, name)

        def unsynced(*args: Any, **kwargs: Any) -> Any:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(os, "fsync", lambda _: None)
                return call(*args, **kwargs)

        return unsynced


class AppendsAgain(Broken):
    noticed_by = ("trying_again_doubles_nothing",)

    def append_records(self, key: str, records: Sequence[bytes], *, durable: bool, once: bool = True) -> None:
        before = self.inner.get(key, ANY).data if self.inner.stat(key) else b""
        self.inner.put(key, before + b"".join(record + b"\n" for record in records))


class AppendsTheSameButOnce(Broken):
    noticed_by = ("records_that_are_new_follow_the_same_ones",)

    def append_records(self, key: str, records: Sequence[bytes], *, durable: bool, once: bool = True) -> None:
        self.inner.append_records(key, records, durable=durable)


# ── exclusive ───────────────────────────────────────────────────────────────────────────────────────────────────────
class ReplacesWhatIsThere(Broken):
    noticed_by = ("what_is_there_is_not_replaced_by_who_wants_to_be_first", "of_many_at_once_one_is_first")

    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        self.inner.put(key, data, durable=durable)


class LooksBeforeItWrites(Broken):
    noticed_by = ("of_many_at_once_one_is_first",)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        looked = self.common.setdefault("looked", threading.Barrier(4))
        if if_absent:
            there = self.inner.stat(key)
            looked.wait()  # all of them have looked by now, and none has written
            if there:
                raise AlreadyThereError(key)
        self.inner.put(key, data, durable=durable)


# ── own order ───────────────────────────────────────────────────────────────────────────────────────────────────────
class HoldsRolloutsBack(Broken):
    noticed_by = ("whoever_sees_a_write_sees_what_its_writer_put_before",)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        held = self.common
        if key.startswith("rollouts"):
            key, data, held["write"] = *held.get("write", (key, b"-1")), (key, data)
        self.inner.put(key, data, if_absent=if_absent, durable=durable)


class HoldsRecordsBack(Broken):
    noticed_by = ("whoever_sees_a_write_sees_what_its_writer_put_before",)

    def append_records(self, key: str, records: Sequence[bytes], *, durable: bool, once: bool = True) -> None:
        late = self.common.pop("late", [])
        self.common["late"] = list(records)
        self.inner.append_records(key, late, durable=durable, once=once)


# ── growing ─────────────────────────────────────────────────────────────────────────────────────────────────────────
class AppendsInAnyOrder(Broken):
    noticed_by = (
        "records_come_whole_once_and_in_order_while_they_are_appended",
        "a_limit_leaves_the_rest_to_the_next_reading",
    )

    def append_records(self, key: str, records: Sequence[bytes], *, durable: bool, once: bool = True) -> None:
        self.inner.append_records(key, [*reversed(records)], durable=durable, once=once)


class AppendsInTwoParts(Broken):
    noticed_by = ("records_come_whole_once_and_in_order_while_they_are_appended",)

    def append_records(self, key: str, records: Sequence[bytes], *, durable: bool, once: bool = True) -> None:
        for record in records:
            self.inner.append_records(key, [record[: len(record) // 2]], durable=durable, once=once)
            self.inner.append_records(key, [record[len(record) // 2 :]], durable=durable, once=once)


class ForgetsTheRest(Broken):
    noticed_by = ("a_limit_leaves_the_rest_to_the_next_reading",)

    def read_records(self, key: str, cursor: str = "", limit: int = MOST_PER_READ) -> Records:
        return self.inner.read_records(key, cursor, limit)._replace(more=False)


class CutsARecordAtTheEnd(Broken):
    noticed_by = ("the_end_of_a_file_begins_with_a_whole_record_and_is_read_on",)

    def read_records(self, key: str, cursor: str = "", limit: int = MOST_PER_READ) -> Records:
        found = self.inner.read_records(key, cursor, limit)
        first = [record[1:] for record in found.records[:1]]
        return found._replace(records=[*first, *found.records[1:]]) if found.cut else found


class KnowsNoOtherFile(Broken):
    noticed_by = ("another_file_is_read_from_its_beginning",)

    def read_records(self, key: str, cursor: str = "", limit: int = MOST_PER_READ) -> Records:
        found = self.inner.read_records(key, cursor, limit)
        return Records([], cursor) if found.restarted else found


class GivesHalfRecords(Broken):
    noticed_by = (
        "half_a_record_waits_and_goes_with_the_next_append",
        "a_record_beyond_all_bounds_is_junk_and_the_next_one_is_read",
    )

    def read_records(self, key: str, cursor: str = "", limit: int = MOST_PER_READ) -> Records:
        data = self.inner.get(key, ANY).data
        start = int(cursor or 0)
        return Records(data[start:].split(b"\n"), str(len(data)))


class KeepsLogLinesToItself(Broken):
    noticed_by = ("the_lines_of_a_log_are_records_at_its_end_at_the_latest",)

    def open_log(self, key: str) -> LogFile:
        log = self.inner.open_log(key)
        log.write = lambda line: None  # type: ignore[method-assign]
        return log


# ── bounded ─────────────────────────────────────────────────────────────────────────────────────────────────────────
class KnowsNoLimit(Broken):
    noticed_by = ("no_more_is_read_than_the_limit", "a_page_has_no_more_entries_than_asked_for")

    def get(self, key: str, limit: int) -> Blob:
        return self.inner.get(key, ANY)

    def list(self, prefix: str, *, after: str = "", limit: int = PAGE, tags: bool = False) -> Page:
        return self.inner.list(prefix, after=after, tags=tags)


class FollowsLinks(Broken):
    world = "folder"
    noticed_by = ("odd_files_are_refused_at_once_and_links_are_not_followed",)

    def get(self, key: str, limit: int) -> Blob:
        with suppress(OSError), open(os.open(self.inner.describe(key), os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            return Blob(file.read(limit), "")
        raise ProtocolError("not_a_file", key)


class OpensBundlesInPlace(Broken):
    world = "folder"
    noticed_by = ("a_bundle_gives_regular_files_alone",)

    @contextmanager
    def open_bundle(self, prefix: str) -> Iterator[Path]:
        yield Path(self.inner.describe(prefix))


class SeesNothingInABundle(Broken):
    noticed_by = ("what_is_in_a_bundle_is_seen_one_by_one",)

    def stat(self, key: str) -> Entry | None:
        return None if key.startswith("checkpoints/") and key.count("/") > 2 else self.inner.stat(key)


# ── listing ─────────────────────────────────────────────────────────────────────────────────────────────────────────
class ListsWhatWasThere(Broken):
    noticed_by = ("a_listing_shows_what_is_there",)

    def list(self, prefix: str, *, after: str = "", limit: int = PAGE, tags: bool = False) -> Page:
        page = self.inner.list(prefix, after=after, limit=limit, tags=tags)
        return cast(Page, self.common.setdefault(f"{prefix} {after}", page))


class EndsWithItsFirstPage(Broken):
    noticed_by = ("pages_together_are_the_listing",)

    def list(self, prefix: str, *, after: str = "", limit: int = PAGE, tags: bool = False) -> Page:
        return self.inner.list(prefix, after=after, limit=limit, tags=tags)._replace(next="")


class TagsBySize(Broken):
    noticed_by = ("a_tag_is_another_one_when_the_content_may_be_another",)

    def get(self, key: str, limit: int) -> Blob:
        blob = self.inner.get(key, limit)
        return Blob(blob.data, str(len(blob.data)))


class GivesNoHints(Broken):
    noticed_by = ("a_hint_says_that_it_is_time_to_list",)

    async def watch(self, prefixes: Sequence[str], interval: float, hint: Callable[[], None]) -> None:
        await anyio.sleep_forever()


# ── readers and errors ──────────────────────────────────────────────────────────────────────────────────────────────
class LetsReadersWrite(Broken):
    noticed_by = ("a_store_without_a_writer_writes_nothing",)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        self.common.setdefault("a writer", self.inner).put(key, data)


class TakesTheMissingForEmpty(Broken):
    noticed_by = ("what_is_not_there_is_not_found",)

    def get(self, key: str, limit: int) -> Blob:
        with suppress(FileNotFoundError):
            return self.inner.get(key, limit)
        return Blob(b"", "")


class SaysNeverThatItIsBlocked(Broken):
    noticed_by = ("a_key_where_something_else_stands_is_blocked",)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        try:
            self.inner.put(key, data, if_absent=if_absent, durable=durable)
        except StoreError as error:
            raise StoreError(str(error)) from error


class IsStoppedByWhatStandsThere(Broken):
    noticed_by = (
        "what_stands_in_the_way_of_a_file_goes",
        "what_stands_in_the_way_of_records_goes",
        "what_stands_in_the_way_of_a_bundle_goes",
    )

    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        self._see_that_it_is(key, Kind.FILE)
        self.inner.put(key, data, if_absent=if_absent, durable=durable)

    def append_records(self, key: str, records: Sequence[bytes], *, durable: bool, once: bool = True) -> None:
        self._see_that_it_is(key, Kind.FILE)
        self.inner.append_records(key, records, durable=durable, once=once)

    def put_bundle(self, prefix: str, fill: Callable[[Path], None]) -> None:
        self._see_that_it_is(prefix, Kind.PREFIX)
        self.inner.put_bundle(prefix, fill)

    def _see_that_it_is(self, key: str, kind: Kind) -> None:
        found = self.inner.stat(key)
        if found is not None and found.kind is not kind:
            raise StoreError(f"a {found.kind} stands at {key}", blocked=True)


class GoesWhereKeysLead(Broken):
    noticed_by = ("a_key_that_leads_elsewhere_is_none",)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        self.inner.put(posixpath.normpath(key).lstrip("/"), data, if_absent=if_absent, durable=durable)
