"""What an operator is told of a run: each trouble once when it begins, and once when it is over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.plugins.notify.entry import PAUSE, Message, Notifier
from swarm.plugins.notify.targets import UndeliveredError
from swarm.store.base import Room
from swarm.views.status import Status, StatusReader
from tests.layout import Layout
from tests.unit.views.factories import START, append, make_experiment, make_peer, make_row, make_state, run_of, write

NOW = START + 110
GB = 10**9
ROOMY = Room(free=90 * GB, inodes=None, total=100 * GB)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A run that goes on in round 3, with alice, bob and the clock."""
    made = make_experiment(tmp_path, rounds=3)
    write(made.state_file, make_state(made, round=3, max_rounds=99, updated_at=NOW))
    make_peer(made, "clock", node_role="coordinator", status="active", round=3, last_seen=NOW)
    for worker in ("alice", "bob"):
        beat(made, worker)
    return made


def beat(layout: Layout, node: str, **fields: Any) -> None:
    make_peer(layout, node, **{"last_seen": NOW, "round": 3, "status": "active"} | fields)


def read(layout: Layout) -> Status:
    return StatusReader(run_of(layout), liveness_timeout=15.0).read(NOW)


class Told:
    """Takes messages, unless it is away."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.away = False
        self.said: list[str] = []
        self.room: Room | None = ROOMY
        self.now = 0.0
        self.notifier = Notifier(self._take, lambda: self.room, lambda: NOW, lambda: self.now, self.said.append)

    def _take(self, message: bytes) -> None:
        if self.away:
            raise UndeliveredError("it is away")
        self.messages.append(msgspec.json.decode(message, type=Message))

    def look(self, layout: Layout) -> list[tuple[str, str, bool]]:
        """Looks twice, and returns what was told by then: the second look has nothing to tell."""
        self.messages.clear()
        for _ in range(2):
            self.notifier.look(read(layout))
        assert len(self.messages) <= 1
        return [(change.what, change.node, change.well) for told in self.messages for change in told.changes]


@pytest.mark.parametrize(
    ("again", "text"), [({}, "bob is back"), ({"status": "stopped", "last_seen": NOW - 60}, "bob has left")]
)
def test_a_node_that_goes_silent_is_told_once_and_once_when_it_is_back_or_said_goodbye(
    layout: Layout, again: dict[str, Any], text: str
) -> None:
    told = Told()
    assert told.look(layout) == [], "a healthy run is silent"
    beat(layout, "bob", last_seen=NOW - 60)
    assert told.look(layout) == [("silent", "bob", False)]
    assert told.messages[0].text == "exp: bob is silent: its last heartbeat was 60s ago"
    beat(layout, "bob", **again)
    assert told.look(layout) == [("silent", "bob", True)]
    assert told.messages[0].changes[0].text == text


def test_a_node_falls_behind_at_three_rounds_and_keeps_up_again_at_one(layout: Layout) -> None:
    told = Told()
    found = []
    for round_ in (1, 0, 1, 2):
        beat(layout, "bob", round=round_)
        found.append(told.look(layout))
    assert found == [[], [("behind", "bob", False)], [], [("behind", "bob", True)]]


def test_a_node_that_is_slower_than_the_clock_is_behind_whatever_round_it_works_on(layout: Layout) -> None:
    for number in range(3, 13):
        append(layout.metrics_file("bob"), msgspec.json.encode(make_row(layout, "bob", number, late=True)))
    assert Told().look(layout) == [("behind", "bob", False)]


def test_who_is_behind_and_goes_silent_is_not_told_to_keep_up(layout: Layout) -> None:
    told = Told()
    beat(layout, "bob", round=0)
    told.look(layout)
    beat(layout, "bob", round=0, last_seen=NOW - 60)
    assert told.look(layout) == [("silent", "bob", False)]
    beat(layout, "bob", round=3)
    assert sorted(told.look(layout)) == [("behind", "bob", True), ("silent", "bob", True)]


def test_a_disk_that_fills_is_told_in_two_steps(layout: Layout) -> None:
    told, found = Told(), []
    for free in (20, 5, 20, 90):
        told.room = Room(free=free * GB, inodes=None, total=100 * GB)
        found.append(told.look(layout))
    seventy_five, ninety = ("disk-75", ""), ("disk-90", "")
    assert found == [[(*seventy_five, False)], [(*ninety, False)], [(*ninety, True)], [(*seventy_five, True)]]
    told.room = Room(free=200 * GB, inodes=None, total=9000 * GB)
    assert told.look(layout) == [], "a large disk has room"


def test_a_message_that_nobody_takes_is_said_once_and_told_later(layout: Layout) -> None:
    told = Told()
    told.away = True
    beat(layout, "bob", last_seen=NOW - 60)
    assert told.look(layout) == []
    told.now += PAUSE
    assert told.look(layout) == []
    assert len(told.said) == 1
    assert "it is away" in told.said[0]
    told.away = False
    assert told.look(layout) == [], "it is left alone for a while"
    told.now += PAUSE
    assert told.look(layout) == [("silent", "bob", False)]


def test_a_flood_of_strangers_is_told_in_bounded_messages(layout: Layout) -> None:
    for number in range(70):
        beat(layout, f"stranger-{number}", last_seen=NOW - 60)
    told = Told()
    for _ in range(3):
        told.notifier.look(read(layout))
    assert [len(one.changes) for one in told.messages] == [64, 6]
