"""Reads what a node's events and printed lines say: how its life ended, what a coordinator closed, what went wrong.

node.starting ─▶ a new life, not ended
    node.finished, reason finished ─▶ finished after so many rounds; experiment.finished of a coordinator, too
    node.finished, reason stopped  ─▶ stopped after so many rounds
    node.finished, reason missed   ─▶ missed: its rounds were over when it came, all or the rest
    process.failed                 ─▶ failed: an error that was expected to be possible, with its words
    process.crashed                ─▶ crashed: any other
no end, and no heartbeat ─▶ it was killed, or its machine ended
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from swarm.errors import ProtocolError
from swarm.records import growing
from swarm.records.growing import lines_of, parse_line
from swarm.store.base import Kind
from swarm.store.run import Run
from swarm.wire import keys

FINISHED, STOPPED, MISSED, FAILED, CRASHED = "finished", "stopped", "missed", "failed", "crashed"
MOST_ALARMS = 100
"""Lines of one file that are kept as alarms; more of them say nothing new."""
LONGEST_ALARM = 2_000
"""Bytes of such a line that are kept."""
MOST_OVERDUE = 100_000
"""Rounds that are held as closed by their interval; as many as rows."""
_OUT_OF_MEMORY = re.compile(rb"out of memory|OutOfMemory|MemoryError|cannot allocate memory", re.IGNORECASE)


class Ending(NamedTuple):
    """Says how a node's last life ended."""

    how: str
    """FINISHED, STOPPED, MISSED, FAILED or CRASHED."""
    rounds_done: int | None = None
    """Where it was said."""
    error: str = ""


class Alarm(NamedTuple):
    """A line that speaks of a crash, or of memory running out."""

    number: int
    """Counted from 1."""
    line: bytes


class NodeEvents:
    """Sums up the events of one node."""

    def __init__(self) -> None:
        self.lines = 0
        self.junk = 0
        """Lines that are no event; after MOST_JUNK of them, all that come."""
        self.torn = False
        """The file ends in a line without its newline."""
        self.ending: Ending | None = None
        """None: it lives, or ended without a word."""
        self.overdue: set[int] = set()
        """Rounds that it closed, as coordinator, at the end of their interval."""
        self.alarms: list[Alarm] = []
        self.expected_workers: int | tuple[str, ...] | None = None
        """How many, or which, it began its last life with as coordinator."""
        self.rounds_lost = 0
        """Updates that it could not redo after it was killed, over all its lives."""

    def observe(self, lines: Sequence[bytes]) -> None:
        """Take note of the lines that come after those seen."""
        for line in lines:
            self.lines += 1
            if self.junk >= growing.MOST_JUNK:
                self.junk += 1
                continue
            event = parse_line(line, _Event)
            if event is None:
                self.junk += 1
            else:
                self._take(event)
            if (event is not None and event.event == "process.crashed") or is_out_of_memory(line):
                _keep(self.alarms, self.lines, line)

    def _take(self, event: _Event) -> None:
        match event.event:
            case "node.starting":
                self.ending = None
            case "node.finished":
                how = event.reason if event.reason in (FINISHED, MISSED) else STOPPED
                self.ending = Ending(how, event.rounds_done if type(event.rounds_done) is int else None)
            case "experiment.finished":
                self.ending = self.ending or Ending(FINISHED)
            case "process.failed" | "process.crashed" if self.ending is None:
                self.ending = Ending(event.event.removeprefix("process."), error=_words(event.error))
            case "coordinator.ready":
                self.expected_workers = _count_or_names(event.expected_workers)
            case "rounds.lost" if type(event.count) is int:
                self.rounds_lost += event.count
            case "round.opened" | "round.last_closed" if event.reason == "interval" and event.round:
                if len(self.overdue) < MOST_OVERDUE:
                    self.overdue.add(event.round - 1)


class _Event(msgspec.Struct, gc=False):
    event: str
    timestamp: float
    round: int | None = None
    reason: object = None
    rounds_done: object = None
    error: object = None
    count: object = None
    expected_workers: object = None


def _words(said: object) -> str:
    return said[:LONGEST_ALARM] if isinstance(said, str) else ""


def _count_or_names(said: object) -> int | tuple[str, ...] | None:
    if type(said) is int and said > 0:
        return said
    if isinstance(said, list) and said and len(said) <= MOST_ALARMS:
        return tuple(name for name in said if isinstance(name, str))
    return None


class Printed(NamedTuple):
    """Holds what matters of a node's stdout.log."""

    bytes: int
    """0 for what is no file."""
    alarms: list[Alarm]


def read_printed(run: Run, node: str) -> Printed:
    """Look through what a node printed."""
    try:
        entry = run.store.stat(keys.stdout(node))
    except ProtocolError:
        entry = None
    if entry is None or entry.kind is not Kind.FILE:
        return Printed(0, [])
    alarms: list[Alarm] = []
    for number, line in enumerate(lines_of(run.store, keys.stdout(node)), 1):
        if is_out_of_memory(line):
            _keep(alarms, number, line)
    return Printed(entry.size, alarms)


def is_out_of_memory(line: bytes) -> bool:
    """Tells whether a line speaks of memory running out."""
    return b"memory" in line.lower() and _OUT_OF_MEMORY.search(line) is not None


def _keep(alarms: list[Alarm], number: int, line: bytes) -> None:
    if len(alarms) < MOST_ALARMS:
        alarms.append(Alarm(number, line[:LONGEST_ALARM]))
