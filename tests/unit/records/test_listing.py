"""How often a flooded prefix is listed, and what is found in between."""

from __future__ import annotations

from swarm.records.listing import LISTINGS_APART, NodeFiles
from swarm.store.base import PAGE, Page, Store
from tests.doubles.memory import MemoryPlace, MemoryStore

PREFIX = "peers"
TOOK = 0.1
"""Seconds of a listing."""


class SlowListing:
    """A store whose listings take some time."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.now = 0.0
        self.listings = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def list(self, prefix: str, *, after: str = "", limit: int = PAGE, tags: bool = False) -> Page:
        self.now += TOOK
        self.listings += 1
        return self.inner.list(prefix, after=after, limit=limit, tags=tags)


def slow(names: int) -> SlowListing:
    store = SlowListing(MemoryStore(MemoryPlace(), "anybody"))
    for number in range(names):
        store.inner.put(f"{PREFIX}/a{number:04}.json", b"{}")
    return store


def files(store: SlowListing) -> NodeFiles:
    return NodeFiles(store, lambda: store.now)  # type: ignore[arg-type]


def test_a_thousand_names_are_gone_through_once_a_second() -> None:
    store = slow(PAGE)
    found = files(store)
    for _ in range(20):
        assert len(found.find(PREFIX, [])) == PAGE
        store.now += TOOK
    assert store.listings == 3


def test_a_folder_is_asked_for_no_tag_that_nobody_needs() -> None:
    store = slow(3)
    found = files(store).find(PREFIX, [], tags=True, settled={"a0000", "a0001"})
    assert [bool(found[node].tag) for node in ("a0000", "a0001", "a0002")] == [False, False, True]


def test_a_flooded_prefix_is_listed_a_small_part_of_the_time_and_known_nodes_are_seen_at_once() -> None:
    store = slow(PAGE + 1)
    found = files(store)
    assert len(found.find(PREFIX, ["zoe"], tags=True)) == PAGE + 1
    once = store.listings
    store.inner.put(f"{PREFIX}/zoe.json", b"1")
    store.inner.put(f"{PREFIX}/zack.json", b"1")
    first = found.find(PREFIX, ["zoe", "yann"], tags=True)
    assert [*first] == ["zoe"]
    store.inner.put(f"{PREFIX}/zoe.json", b"2")
    assert found.find(PREFIX, ["zoe"], tags=True)["zoe"].tag not in ("", first["zoe"].tag)
    assert store.listings == once
    store.now += TOOK * once * LISTINGS_APART
    assert "zack" in found.find(PREFIX, [])
    assert store.listings == 2 * once


def test_a_prefix_that_is_no_longer_flooded_is_listed_at_every_look_again() -> None:
    store = slow(PAGE + 1)
    found = files(store)
    found.find(PREFIX, [])
    for number in range(2, PAGE + 1):
        store.inner.remove(f"{PREFIX}/a{number:04}.json")
    store.now += 1000.0
    before = store.listings
    for _ in range(3):
        assert len(found.find(PREFIX, [])) == 2
    assert store.listings == before + 3


def test_what_was_listed_is_good_enough_for_as_long_as_the_caller_says() -> None:
    store = slow(3)
    found = files(store)
    found.find(PREFIX, [], tags=True)
    store.inner.put(f"{PREFIX}/ben.json", b"{}")
    assert "ben" not in found.find(PREFIX, [], tags=True, max_age=60.0)
    assert store.listings == 1
    store.now += 60.0
    assert "ben" in found.find(PREFIX, [], tags=True, max_age=60.0)
    assert "ben" in found.find(PREFIX, [], tags=True)
    assert store.listings == 3
