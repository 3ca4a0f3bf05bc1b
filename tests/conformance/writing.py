"""What stores promise of writing: atomic, durable, exclusive, own order."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from swarm.errors import AlreadyThereError, ProtocolError, StoreError
from swarm.store.base import Store
from tests.conformance.promises import (
    BUNDLE,
    IN_THE_WAY,
    KEY,
    LOG,
    content,
    fails,
    filled,
    names,
    promise,
    reading,
    soon,
    succeeds,
    while_writing,
)
from tests.conformance.worlds import World


# ── atomic ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@promise("atomic")
def check_a_file_is_read_whole_while_it_is_replaced(world: World, tmp: Path) -> None:
    anna, ben = world.open("anna"), world.open()
    versions = [bytes([number]) * 50_000 for number in range(256)]

    def look() -> bytes:
        data = reading(ben, KEY) or versions[0]
        assert data in versions, f"a mixture of {sorted({*data})}, {len(data)} bytes"
        return data

    while_writing(lambda version: anna.put(KEY, versions[version % 256], durable=False), look, 20)


@promise("atomic")
def check_a_bundle_is_seen_whole_while_it_is_replaced(world: World, tmp: Path) -> None:
    anna, ben = world.open("anna"), world.open()

    def put(version: int) -> None:
        data = str(version).encode()
        anna.put_bundle(BUNDLE, filled(a=data, b=data, c=data))

    def look() -> bytes | None:
        try:
            found = content(ben, BUNDLE)
        except (FileNotFoundError, ProtocolError):
            return None  # between two of them, or replaced too often
        assert len(found) == 6, f"half a bundle: {sorted(found)}"
        assert len({*found.values()}) == 1, f"a mixture: {found}"
        return found["a"]

    put(0)
    while_writing(put, look, 20)


@promise("atomic")
def check_a_bundle_that_cannot_be_filled_leaves_the_one_before(world: World, tmp: Path) -> None:
    anna = world.open("anna")
    anna.put_bundle(BUNDLE, filled(a=b"old"))

    def half(folder: Path) -> None:
        (folder / "a").write_bytes(b"new")
        raise OSError("no space left on device")

    fails(StoreError, lambda: anna.put_bundle(BUNDLE, half))
    assert content(world.open(), BUNDLE) == {"a": b"old", "model/a": b"old"}
    assert names(anna, "checkpoints/round_5") == ["anna"]


@promise("atomic")
def check_a_bundle_has_folders_within_folders(world: World, tmp: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "model" / "adapter").mkdir(parents=True)
        (folder / "model" / "adapter" / "weights").write_bytes(b"w")

    world.open("anna").put_bundle(BUNDLE, fill)
    assert content(world.open(), BUNDLE) == {"model/adapter/weights": b"w"}


# ── durable ─────────────────────────────────────────────────────────────────────────────────────────────────────────
@promise("durable")
def check_what_was_acknowledged_outlives_its_writer(world: World, tmp: Path) -> None:
    life = world.open("anna")
    life.put(KEY, b"{}")
    life.put_bundle(BUNDLE, filled(a=b"1"))
    life.append_records(LOG, [b"row"], durable=True)
    del life
    world.open("anna").recover()
    for store in (world.open("anna"), world.open()):
        assert reading(store, KEY) == b"{}"
        assert content(store, BUNDLE) == {"a": b"1", "model/a": b"1"}
        assert store.read_records(LOG).records == [b"row"]


@promise("durable")
def check_a_file_outlives_a_power_cut(world: World, tmp: Path) -> None:
    world.open("anna").put(KEY, b"{}")
    world.open("anna").put("peers/anna.json", b"first", if_absent=True)
    world.cut_power("anna")
    assert reading(world.open(), KEY) == b"{}"
    assert reading(world.open(), "peers/anna.json") == b"first"


@promise("durable")
def check_what_is_durable_outlives_a_power_cut_beside_what_is_not(world: World, tmp: Path) -> None:
    world.open("anna").put("peers/anna.json", b"1", durable=False)
    world.open("anna").append_records(LOG, [b"one"], durable=False)
    world.open("anna").put("peers/ben.json", b"2")
    world.open("anna").put("logs/anna/other", b"3")
    world.cut_power("anna")
    assert reading(world.open(), "peers/ben.json") == b"2"
    assert reading(world.open(), "logs/anna/other") == b"3"


@promise("durable")
def check_a_bundle_outlives_a_power_cut(world: World, tmp: Path) -> None:
    world.open("anna").put_bundle(BUNDLE, filled(a=b"1"))
    world.open("anna").put_bundle(BUNDLE, filled(a=b"2"))
    world.cut_power("anna")
    assert names(world.open(), BUNDLE) == ["a", "model"]
    assert content(world.open(), BUNDLE) == {"a": b"2", "model/a": b"2"}


@promise("durable")
def check_records_outlive_a_power_cut(world: World, tmp: Path) -> None:
    world.open("anna").append_records(LOG, [b"one"], durable=True)
    world.open("anna").append_records(LOG, [b"two"], durable=True)
    world.open("anna").append_records("logs/anna/other.jsonl", [b"first"], durable=True)
    world.cut_power("anna")
    assert world.open().read_records(LOG).records == [b"one", b"two"]
    assert world.open().read_records("logs/anna/other.jsonl").records == [b"first"]


@promise("durable")
def check_what_is_synced_later_outlives_a_power_cut(world: World, tmp: Path) -> None:
    world.open("anna").put(KEY, b"{}", durable=False)
    world.open("anna").append_records(LOG, [b"one"], durable=False)
    for key in (KEY, LOG, "peers/nobody.json"):
        world.open("anna").sync(key)
    world.cut_power("anna")
    assert reading(world.open(), KEY) == b"{}"
    assert world.open().read_records(LOG).records == [b"one"]


@promise("durable")
def check_trying_again_doubles_nothing(world: World, tmp: Path) -> None:
    for _ in range(2):
        for life in range(2):
            world.open("anna").append_records(LOG, [b"one", b"two"], durable=bool(life))
    world.open("anna").append_records(LOG, [b"two"], durable=True)
    assert world.open().read_records(LOG).records == [b"one", b"two"]
    world.open("anna").append_records(LOG, [b"wo"], durable=True)
    assert world.open().read_records(LOG).records == [b"one", b"two", b"wo"]
    life = world.open("anna")
    for record in (b"more", b"last", b"last"):
        life.append_records(LOG, [record], durable=True)
    assert world.open().read_records(LOG).records == [b"one", b"two", b"wo", b"more", b"last"]


@promise("durable")
def check_records_that_are_new_follow_the_same_ones(world: World, tmp: Path) -> None:
    for _ in range(2):
        world.open("anna").append_records(LOG, [b"one", b""], durable=False, once=False)
    assert world.open().read_records(LOG).records == [b"one", b"", b"one", b""]


# ── exclusive ───────────────────────────────────────────────────────────────────────────────────────────────────────
@promise("exclusive")
def check_what_is_there_is_not_replaced_by_who_wants_to_be_first(world: World, tmp: Path) -> None:
    world.open("anna").put("experiment.json", b"anna", if_absent=True)
    error = fails(StoreError, lambda: world.open("ben").put("experiment.json", b"ben", if_absent=True))
    assert isinstance(error, AlreadyThereError)
    assert reading(world.open(), "experiment.json") == b"anna"
    world.open("ben").put("experiment.json", b"ben")
    assert reading(world.open(), "experiment.json") == b"ben"


@promise("exclusive")
def check_of_many_at_once_one_is_first(world: World, tmp: Path) -> None:
    handles = [world.open(f"node-{number}") for number in range(4)]
    begin = threading.Barrier(len(handles))

    def attempt(number: int, key: str) -> bool:
        begin.wait()
        try:
            handles[number].put(key, b"%d" % number, if_absent=True, durable=False)
        except AlreadyThereError:
            return False
        return True

    with ThreadPoolExecutor(len(handles)) as threads:
        for race in range(30):
            key = f"winners/round_{race}.json"
            won = list(threads.map(attempt, range(len(handles)), itertools.repeat(key)))
            assert sum(won) == 1, f"{sum(won)} were first"
            assert reading(world.open(), key) == b"%d" % won.index(True)


# ── own order ───────────────────────────────────────────────────────────────────────────────────────────────────────
@promise("own order")
def check_whoever_sees_a_write_sees_what_its_writer_put_before(world: World, tmp: Path) -> None:
    anna, ben = world.open("anna"), world.open()

    def put(version: int) -> None:
        number = b"%d" % version
        anna.put("rollouts/anna.json", number, durable=False)
        anna.append_records(LOG, [number], durable=False)
        anna.put("rewards/anna.json", number, durable=False)

    def look() -> int:
        now = int(reading(ben, "rewards/anna.json") or -1)
        assert soon(ben, lambda: int(reading(ben, "rollouts/anna.json") or -1) >= now), "a reward before its rollouts"
        assert soon(ben, lambda: int(last_of(ben) or -1) >= now), "a reward before its row"
        return now

    while_writing(put, look, 10)
    for version in (100_000, 100_001):
        put(version)
    look()


def last_of(store: Store) -> bytes:
    return (store.read_records(LOG).records or [b""])[-1]


# ── own way ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def put_in_the_way(world: World, key: str, kind: str) -> None:
    """Something else than what its writer would write; where there are no odd files, a prefix with something in it."""
    if not world.put_odd(key, kind):
        world.open("a stranger").put(f"{key}/below", b"junk")


@promise("own way")
def check_what_stands_in_the_way_of_a_file_goes(world: World, tmp: Path) -> None:
    for kind in IN_THE_WAY:
        key = f"peers/round_1/{kind}.json"
        put_in_the_way(world, key, kind)
        succeeds(lambda key=key: world.open("anna").put(key, b"{}"))  # type: ignore[misc]
        assert reading(world.open(), key) == b"{}"


@promise("own way")
def check_what_stands_in_the_way_of_records_goes(world: World, tmp: Path) -> None:
    for kind in IN_THE_WAY:
        node = kind.replace(" ", "")
        for key in (f"logs/{node}/metrics.jsonl", f"logs/{node}/stdout.log"):
            put_in_the_way(world, key, kind)
        succeeds(lambda node=node: write_records(world.open(node), node))  # type: ignore[misc]
        assert world.open().read_records(f"logs/{node}/metrics.jsonl").records[-1] == b"row"
        assert world.open().read_records(f"logs/{node}/stdout.log").records[-1] == b"line"


def write_records(store: Store, node: str) -> None:
    store.append_records(f"logs/{node}/metrics.jsonl", [b"row"], durable=True)
    log = store.open_log(f"logs/{node}/stdout.log")
    log.write(b"line")
    log.close()


@promise("own way")
def check_what_stands_in_the_way_of_a_bundle_goes(world: World, tmp: Path) -> None:
    for kind in IN_THE_WAY:
        prefix = f"checkpoints/round_5/{kind.replace(' ', '')}"
        if not world.put_odd(prefix, kind):
            world.open("a stranger").put(prefix, b"junk")
        succeeds(lambda prefix=prefix: world.open("anna").put_bundle(prefix, filled(a=b"1")))  # type: ignore[misc]
        assert content(world.open(), prefix) == {"a": b"1", "model/a": b"1"}
