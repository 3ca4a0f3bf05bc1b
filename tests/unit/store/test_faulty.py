"""What each fault does to those who share a place."""

from __future__ import annotations

import pytest

from tests.conformance.promises import names
from tests.doubles.faulty import Faults, FaultyPlace, FaultyStore, Killed, Step, Version
from tests.doubles.memory import MemoryPlace

BIG = 1 << 20


class Planned(Faults):
    """Faults that a test sets by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.late = 0.0
        self.strikes: BaseException | None = None
        self.at = Step.DRAFT
        self.share = 0.0
        self.older = 0
        self.after_death: list[str] = []

    def sees(self, reader: str, version: Version) -> bool:
        return self.now >= version.time + self.late

    def stale(self, reader: str, key: str) -> int:
        return self.older

    def step(self, writer: str, key: str, step: Step) -> None:
        if self.strikes and step is self.at:
            strikes, self.strikes = self.strikes, None
            raise strikes

    def kept(self, version: Version) -> float:
        return self.share

    def reached(self, name: str) -> None:
        self.after_death.append(name)


class World:
    def __init__(self) -> None:
        self.faults = Planned()
        self.memory = MemoryPlace()
        self.place = FaultyPlace(self.faults, lambda: self.faults.now)

    def handle(self, name: str) -> FaultyStore:
        return FaultyStore(self.place, self.memory.open(name), name)

    def struck(self, handle: FaultyStore, at: Step, put: bytes) -> None:
        self.faults.strikes, self.faults.at = Killed(), at
        with pytest.raises(Killed):
            handle.put("state", put)

    def cut_power(self, name: str) -> None:
        self.place.cut_power(name, self.memory.open(name))


@pytest.fixture
def world() -> World:
    return World()


def test_a_late_write_is_seen_late_by_others_and_at_once_by_its_writer(world: World) -> None:
    anna, bob = world.handle("anna"), world.handle("bob")
    world.faults.late = 5.0
    anna.put("peers/anna.json", b"1")
    assert names(anna, "peers") == ["anna.json"]
    assert names(bob, "peers") == []
    with pytest.raises(FileNotFoundError):
        bob.get("peers/anna.json", BIG)
    world.faults.now = 5.0
    old = bob.get("peers/anna.json", BIG)
    anna.put("peers/anna.json", b"2")
    assert (old.data, bob.get("peers/anna.json", BIG)) == (b"1", old), "the old version whole, with its own tag"
    assert anna.get("peers/anna.json", BIG).tag != old.tag


def test_what_was_removed_is_listed_until_the_removal_is_seen(world: World) -> None:
    anna, bob = world.handle("anna"), world.handle("bob")
    anna.put("peers/anna.json", b"1")
    world.faults.late = 5.0
    world.faults.now = 10.0
    assert names(bob, "peers") == ["anna.json"]
    anna.remove("peers/anna.json")
    assert names(bob, "peers") == ["anna.json"]
    world.faults.now = 15.0
    assert names(bob, "peers") == []


def test_a_stale_read_gives_an_older_version_once_more(world: World) -> None:
    anna, bob = world.handle("anna"), world.handle("bob")
    for number in range(3):
        anna.put("state", b"%d" % number)
    world.faults.older = 2
    assert bob.get("state", BIG).data == b"0"
    world.faults.older = 0
    assert bob.get("state", BIG).data == b"2"


def test_a_handle_of_a_dead_process_answers_nothing_and_tells_of_it(world: World) -> None:
    anna = world.handle("anna")
    world.struck(anna, Step.DURABLE, b"new")
    with pytest.raises(Killed):
        anna.get("state", BIG)
    assert world.faults.after_death == ["anna"]
    assert world.handle("anna").get("state", BIG).data == b"new", "its next life sees what the last one wrote"


def test_a_power_cut_takes_back_what_is_not_durable_and_nothing_else(world: World) -> None:
    anna, bob = world.handle("anna"), world.handle("bob")
    anna.put("state", b"safe")
    world.struck(anna, Step.VISIBLE, b"new")
    assert bob.get("state", BIG).data == b"new"
    world.cut_power("anna")
    assert bob.get("state", BIG).data == b"safe"


def test_a_kill_within_an_append_leaves_half_a_record_that_nobody_reads(world: World) -> None:
    anna = world.handle("anna")
    anna.append_records("log", [b"one"], durable=True)
    world.faults.strikes, world.faults.at = Killed(), Step.HALF
    with pytest.raises(Killed):
        anna.append_records("log", [b"two"], durable=True)
    read = world.handle("bob").read_records("log")
    assert (read.records, read.torn) == ([b"one"], True)
    world.handle("anna").append_records("log", [b"three"], durable=True)
    assert world.handle("bob").read_records("log").records == [b"one", b"three"]


def test_a_power_cut_may_tear_the_last_record(world: World) -> None:
    anna = world.handle("anna")
    anna.append_records("log", [b"one"], durable=True)
    anna.append_records("log", [b"twenty"], durable=False)
    world.faults.share = 0.5
    world.cut_power("anna")
    read = world.handle("bob").read_records("log")
    assert (read.records, read.torn) == ([b"one"], True)
