"""The measurements of a place's health: what they have in common, and their figures.

    Place.health(name) ─▶ Health ─▶ figures ─▶ verdicts: swarm.views.doctor

What is tried out goes through the verbs of a store, for a folder and a bucket alike. Nothing is left behind: what is
written lies in one folder of its own, outside everything that nodes watch or count, and goes at the end.
"""

from __future__ import annotations

import math
import os
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from swarm.errors import ProtocolError
from swarm.store.base import Room, Store

MOST_ENTRIES = 500_000
"""Entries of a survey: a few seconds on a local disk; of a place with more, the first are surveyed, and that is
said."""

TRIALS = "trials"
"""Prefix of what is tried out."""
TYPICAL = 60_000
"""Bytes of a typical rollout file."""
SEEN_IN = 10.0
"""Seconds for which a write is looked for."""
VISIBLE, SAMPLES = 5, 20
"""Trials of each kind."""

NEWEST_WATCHED = 16
"""Folders in a folder that a watcher watches. Work goes on in one or two rounds at a time; the older ones are found by
listing."""


@dataclass(frozen=True)
class FileSystem:
    kind: str
    """Name as in the mount table: ext4, tmpfs, nfs4, fuse.rclone, overlay ...; `unknown` where there is no such
    table."""
    mount: str
    """The folder that it is mounted at; empty where that is not known."""
    delivers_events: bool
    """inotify tells of every writer's files. False: of those of this host at most. True where nothing is known, since
    whoever watches also lists the folder every few seconds."""


class Writing(NamedTuple):
    there: bool
    """The shared place exists."""
    parent: str
    """Where it is, or would be made."""
    problem: str
    """Why it cannot be written, empty if it can."""
    seconds: Sequence[float]
    """Seconds of one durable write each."""


@dataclass
class Survey:
    """Lists what lies in an experiment. Names are as they would be printed, relative to it."""

    bytes_by_part: Counter[str] = field(default_factory=Counter)
    """Part (rollouts, checkpoints, logs, ...) -> bytes that its files take up on disk."""
    files_by_part: Counter[str] = field(default_factory=Counter)
    drafts_by_node: Counter[str] = field(default_factory=Counter)
    """Node -> bytes of half-written files."""
    conflicts: list[str] = field(default_factory=list)
    """Copies that replication tools made."""
    not_text: list[str] = field(default_factory=list)
    """Names that are not UTF-8."""
    unreadable: list[str] = field(default_factory=list)
    complete: bool = True


class Permission(NamedTuple):
    """One thing that a node does with a bucket."""

    name: str
    problem: str
    """Why it cannot, empty if it can."""


@dataclass
class Visibility:
    """Seconds from the end of a write until it was seen, of each trial; infinite where it was not in time."""

    read: list[float] = field(default_factory=list)
    listed: list[float] = field(default_factory=list)
    replaced: list[float] = field(default_factory=list)
    """Until it was read in the place of another one."""


@dataclass
class Latency:
    """Seconds of single requests, with what was tried again within them."""

    put: list[float] = field(default_factory=list)
    get: list[float] = field(default_factory=list)
    list: list[float] = field(default_factory=list)


class Health(ABC):
    """Measures one place, and one experiment in it, whether they are there yet or not."""

    there: bool
    """There is such an experiment."""
    problem: str
    """Why nothing can be tried out; empty if it can."""
    trial: Store
    """Where nothing is yet, for trials."""

    def skew(self, wall: Callable[[], float]) -> float:
        """Returns seconds by which the place's clock is ahead of `wall`; 0.0 where nothing can be tried out.

        Half the time that a write takes is the error.
        """
        if self.problem:
            return 0.0
        before = wall()
        written = self.written_now()
        return written - (before + wall()) / 2

    def latency(self) -> Latency:
        """Time requests of the size of a rollout file, one after the other. Raises StoreError."""
        data, found = os.urandom(TYPICAL), Latency()
        for number in range(SAMPLES):
            key = f"{TRIALS}/timed-{number}.json"
            found.put.append(_timed(partial(self.trial.put, key, data)))
            found.get.append(_timed(partial(self.trial.get, key, TYPICAL)))
            found.list.append(_timed(partial(self.trial.list, TRIALS)))
        return found

    def visibility(self) -> Visibility:
        """Write files, and write over them, and look for each version until it is there. Raises StoreError."""
        seen = Visibility()
        for number in range(VISIBLE):
            name = f"seen-{number}.json"
            self.trial.put(f"{TRIALS}/{name}", b"1")
            written = time.monotonic()
            seen.read.append(_until(written, partial(self._reads, name, b"1")))
            seen.listed.append(_until(written, partial(self._lists, name)))
            self.trial.put(f"{TRIALS}/{name}", b"2")
            seen.replaced.append(_until(time.monotonic(), partial(self._reads, name, b"2")))
        return seen

    def _reads(self, name: str, data: bytes) -> bool:
        with suppress(FileNotFoundError, ProtocolError):
            return self.trial.get(f"{TRIALS}/{name}", len(data)).data == data
        return False

    def _lists(self, name: str) -> bool:
        return any(entry.name == name for entry in self.trial.list(TRIALS).entries)

    @abstractmethod
    def written_now(self) -> float:
        """Write, and return the time by the place's clock, Unix seconds."""

    @abstractmethod
    def written_at(self, key: str) -> float:
        """Returns when a file was written, by the place's clock, Unix seconds; 0.0 where that cannot be told."""

    @abstractmethod
    def survey(self) -> Survey:
        """Walk over everything in the experiment. Nothing is opened, no link is followed."""


class FolderHealth(Health):
    """Measures a folder."""

    @abstractmethod
    def writing(self) -> Writing:
        """Write as nodes do, and take the time."""

    @abstractmethod
    def room(self) -> Room:
        """Returns how much may still be written."""

    @abstractmethod
    def file_system(self) -> FileSystem:
        """Returns what the folder lies on."""


class BucketHealth(Health):
    """Measures a bucket."""

    permissions: Sequence[Permission]

    @abstractmethod
    def creates_once(self) -> bool:
        """Tells whether who creates an object that is there is refused."""


def _until(since: float, is_there: Callable[[], bool]) -> float:
    """Returns seconds from the write to the look that saw it, 0 where the first one did: what a look takes is latency,
    and so is what was done between the write and that look."""
    if is_there():
        return 0.0
    while (began := time.monotonic() - since) < SEEN_IN:
        if is_there():
            return began
        time.sleep(0.05)
    return math.inf


def _timed(request: Callable[[], object]) -> float:
    began = time.monotonic()
    request()
    return time.monotonic() - began
