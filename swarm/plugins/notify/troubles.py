"""Finds what an operator has to know of a run, and what has changed of it since the last message. Pure.

    Status, room of the place ─▶ troubles ─▶ Troubles ─┐
                    Troubles that were told before ────┴▶ changes ─▶ Change, begun or over

A trouble begins once and ends once, however often it is looked at. A node that is behind has to catch up before its
trouble ends, so that one on the edge does not ring at every look.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median_high
from typing import NamedTuple

import msgspec

from swarm.harmless import printable
from swarm.records.hints import FILLING, GB, NEARLY_FULL, PLENTY
from swarm.records.liveness import ACTIVE, STOPPED
from swarm.store.base import Room
from swarm.views.status import NodeStatus, Status
from swarm.views.text import age, shorten

SILENT, BEHIND = "silent", "behind"
FULL = {"disk-75": FILLING, "disk-90": NEARLY_FULL}
"""What is said of a disk -> the share from which on it is said."""
SLOW = "short-rounds"
"""Code of the hint that a node is slower than the clock."""
LAG, CAUGHT_UP = 3, 1
"""Rounds by which a node falls behind, and by which it may be behind again to keep up."""
LONGEST_NAME = 64


class RunTrouble(NamedTuple):
    """Names what is wrong, and with whom."""

    what: str
    """`silent`, `behind`, `disk-75` or `disk-90`."""
    node: str
    """Empty: the place itself."""


Troubles = Mapping[RunTrouble, str]
"""Trouble -> what is said of it."""


class Change(msgspec.Struct, frozen=True):
    """A trouble that has begun, or is over, as a message tells it."""

    what: str
    node: str
    well: bool
    """It is over."""
    text: str
    """The same for people."""


def troubles(status: Status, room: Room | None, told: Troubles) -> dict[RunTrouble, str]:
    """Returns what is wrong now.

    Args:
        room: of the place, as this machine sees it; None: nobody knows.
        told: what was wrong before.
    """
    slow = {node for hint in status.hints if hint.code == SLOW for node in hint.nodes}
    found = dict[RunTrouble, str]()
    for node in status.nodes:
        name = _name(node.node)
        behind = RunTrouble(BEHIND, node.node)
        if is_silent(node):
            found[RunTrouble(SILENT, node.node)] = (
                f"{name} is silent: its last heartbeat was {age(node.seen_ago or 0)} ago"
            )
            found |= {behind: told[behind]} if behind in told else {}  # whether it is will be seen when it is back
        elif (lag := _lag(node, status)) >= (CAUGHT_UP + 1 if behind in told else LAG):
            found[behind] = f"{name} is {lag} rounds behind"
        elif node.node in slow and node.live:
            found[behind] = f"{name} needs more time than a round lasts"
    return found | _disk(status, room)


def is_silent(node: NodeStatus) -> bool:
    """Tells whether a node has registered, has not said goodbye, and beats no more."""
    return node.seen_ago is not None and not node.live and node.status != STOPPED


def _lag(node: NodeStatus, status: Status) -> int:
    """Returns by how many rounds a live worker is behind the clock, or behind the middle of those that keep their
    own."""
    if node.round < 0 or status.finished or not _works(node):
        return 0
    if status.round is not None and not status.own_clocks and not status.alone:
        return status.round - node.round
    return median_high(other.round for other in status.nodes if _works(other)) - node.round


def _works(node: NodeStatus) -> bool:
    return node.live and node.status == ACTIVE and node.role == "worker"


def _disk(status: Status, room: Room | None) -> dict[RunTrouble, str]:
    """Returns how full the place is: as this machine sees it, or else as the nodes say."""
    if room is None or not room.total:
        said = ((hint.code, node) for hint in status.hints if hint.code in FULL for node in hint.nodes)
        return {RunTrouble(code, node): f"the disk of {_name(node)} fills up" for code, node in said}
    used = 1 - min(1.0, room.free / room.total)
    text = f"the disk of the shared place is {used:.0%} full, {room.free / GB:.2f} GB are free"
    return {RunTrouble(code, ""): text for code, share in FULL.items() if used >= share and room.free <= PLENTY}


def changes(told: Troubles, now: Troubles, status: Status) -> list[Change]:
    """Returns what has begun and what is over since it was told."""
    nodes = {node.node: node for node in status.nodes}
    begun = [Change(*trouble, False, text) for trouble, text in now.items() if trouble not in told]
    over = [Change(*trouble, True, _over(trouble, nodes)) for trouble in told if trouble not in now]
    return begun + over


def _over(trouble: RunTrouble, nodes: Mapping[str, NodeStatus]) -> str:
    name, node = _name(trouble.node), nodes.get(trouble.node)
    if trouble.what in FULL:
        return f"the disk of {name or 'the shared place'} has room again"
    if node is None or not node.live:
        return f"{name} has left"
    return f"{name} is back" if trouble.what == SILENT else f"{name} keeps up again"


def _name(node: str) -> str:
    return shorten(printable(node), LONGEST_NAME)
