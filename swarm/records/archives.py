"""The archive of a run: rollouts of rounds that were cleaned up, packed by round, byte for byte as they were published.

    {path}/archives/{experiment}/rollouts/round_17-0f3c9a...tar.gz
        archive.json                       ArchiveFile: which run and round, and the SHA-256 of each file
        rollouts/round_17/stage_0/anna.json ...

The digest in the name is that of `archive.json`, so who packs the same files writes the same file, however many do it
at once and wherever they are killed. A round has one, and another for each time that files came after it was packed.
Unpacked in the experiment's folder the files lie where they were.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

from swarm.errors import ProtocolError, StoreError
from swarm.records.files import read_experiment
from swarm.records.listing import entries
from swarm.records.packing import BLOCK, members, pack
from swarm.store.base import Blob, Kind, Store
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.codec import decode, encode
from swarm.wire.messages import ArchiveFile

ABOUT = "archive.json"
LARGEST_FILE = 64 * 2**20
"""Bytes of one file of rollouts; nodes take no larger ones."""
PART_BYTES = 32 * 2**20
"""What of a round is larger is packed into several files."""
MOST_IN_PART = 4096
LARGEST_PART = PART_BYTES + LARGEST_FILE + 4 * BLOCK * (MOST_IN_PART + 2)
"""Bytes, packed or not."""
LARGEST_ABOUT = 2**20
MOST_PARTS = 64
"""Parts of one round that are looked at: one is usual."""


def begun_at(run: Run) -> float:
    """Returns when the run began, by which its files are known from those of an earlier one of its name; 0: nobody can
    tell."""
    with suppress(ProtocolError, StoreError):
        if experiment := read_experiment(run):
            return experiment.created_at
    return 0.0


class Archive:
    """Reads and writes the archive of one run, which may have none."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._begun_at = begun_at(run)
        self._held: tuple[str, dict[str, bytes]] = ("", {})
        """The part that was read last."""

    def rounds(self) -> dict[int, list[str]]:
        """Round -> the files of the archive that hold it. Raises StoreError if they cannot be listed."""
        found: dict[int, list[str]] = {}
        for entry in entries(self._run.archive, keys.ROLLOUTS) if self._run.archive else ():
            round_ = keys.archived_round(entry.name)
            if round_ is not None and entry.kind is Kind.FILE and len(found.setdefault(round_, [])) < MOST_PARTS:
                found[round_].append(f"{keys.ROLLOUTS}/{entry.name}")
        return found

    def of_round(self, round_: int) -> list[str]:
        """Returns the files of the archive that hold one round. Raises StoreError if they cannot be listed."""
        store, start = self._run.archive, f"round_{round_}-"
        page = store.list(keys.ROLLOUTS, after=start, limit=MOST_PARTS).entries if store else []
        there = [entry.name for entry in page if entry.kind is Kind.FILE]
        return [f"{keys.ROLLOUTS}/{name}" for name in there if keys.archived_round(name) == round_]

    def contents(self, part: str) -> dict[str, str]:
        """Key -> SHA-256 of what one file of the archive says that it holds; nothing of what is none of this run's."""
        with suppress(ProtocolError, FileNotFoundError):
            return self._opened(part)[0].files
        return {}

    def read(self, part: str) -> dict[str, bytes]:
        """Key -> bytes of the files in it. Raises ProtocolError for what is no file of this archive."""
        if self._held[0] != part:
            try:
                about, packed = self._opened(part)
            except FileNotFoundError:
                raise ProtocolError("unreadable", f"{part} is not there any more") from None
            self._held = (part, self._checked(part, about, packed))
        return self._held[1]

    def _opened(self, part: str) -> tuple[ArchiveFile, Iterator[tuple[str, bytes]]]:
        """Opens a file of the archive: returns what it says that it holds, and its files."""
        assert self._run.archive
        packed = members(io.BytesIO(self._run.archive.get(part, LARGEST_PART).data), LARGEST_PART)
        name, about = next(packed, ("", b""))
        if name != ABOUT:
            raise ProtocolError("malformed", f"{part} does not begin with {ABOUT}")
        _refuse_larger(part, about, LARGEST_ABOUT)
        return self._about(part, about), packed

    def _checked(self, part: str, about: ArchiveFile, packed: Iterator[tuple[str, bytes]]) -> dict[str, bytes]:
        held = dict[str, bytes]()
        for name, data in packed:
            _refuse_larger(part, data, LARGEST_FILE)
            if about.files.get(name) != hashlib.sha256(data).hexdigest():
                raise ProtocolError("malformed", f"{part}: {name[:200]!r} is not what {ABOUT} says of it")
            held[name] = data
        if held.keys() != about.files.keys():
            raise ProtocolError("malformed", f"{part} lacks files that it names")
        return held

    def _about(self, part: str, data: bytes) -> ArchiveFile:
        about = decode(data, ArchiveFile, f"{part}: {ABOUT}")
        round_ = keys.archived_round(part.rpartition("/")[2])
        if part != keys.archived(about.round, _digest(data)) or about.experiment != self._run.experiment:
            raise ProtocolError("misplaced", f"{part} holds something else than its name says")
        if self._begun_at and about.created_at and about.created_at != self._begun_at:
            raise ProtocolError("misplaced", f"{part} is of an earlier run of this name")
        if any((named := keys.published_in(key)) is None or named[0].round != round_ for key in about.files):
            raise ProtocolError("misplaced", f"{part} names files that are no rollouts of round {round_}")
        return about

    def put(self, round_: int, files: Mapping[str, bytes]) -> None:
        """Add files of a round; when this returns they are on disk, and can be read back.

        Raises:
            StoreError: they cannot be written, or are not what is read back.
        """
        assert self._run.archive
        digests = {key: hashlib.sha256(files[key]).hexdigest() for key in sorted(files)}
        about = encode(
            ArchiveFile(experiment=self._run.experiment, created_at=self._begun_at, round=round_, files=digests)
        )
        part = keys.archived(round_, _digest(about))
        if not self._holds(part, digests):
            packed = pack({ABOUT: about} | {key: files[key] for key in digests})
            self._run.archive.put(part, packed)
        else:
            self._run.archive.sync(part)
        if not self._holds(part, digests):
            raise StoreError(f"{self._run.archive.describe(part)} has other bytes than were written")

    def _holds(self, part: str, digests: Mapping[str, str]) -> bool:
        self._held = ("", {})
        with suppress(ProtocolError):
            return self.read(part).keys() == digests.keys()
        return False


def with_archive(run: Run) -> Run:
    """Returns the run, whose published files are read out of the archive where they are not in their place any more."""
    return replace(run, store=cast("Store", _ArchiveBehind(run)))


class _ArchiveBehind:
    """A store that looks into the archive for what was published and is gone. What goes is archived before, so a file
    that is in neither is nowhere."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run.store, name)

    @cached_property
    def _archive(self) -> Archive:
        return Archive(self._run)

    def get(self, key: str, limit: int) -> Blob:
        try:
            return self._run.store.get(key, limit)
        except FileNotFoundError:
            for data in self._archived(key):
                if len(data) <= limit:
                    return Blob(data, _digest(data))
            raise

    def _archived(self, key: str) -> Iterator[bytes]:
        """Yields each version of a key that files of the archive have and its author may have written; one may be a
        stranger's."""
        named = keys.published_in(key)
        for part in self._archive.of_round(named[0].round) if named else ():
            with suppress(ProtocolError):
                if (data := self._archive.read(part).get(key)) is not None:
                    self._run.trust.check(data, key)
                    yield data


def _refuse_larger(part: str, data: bytes, most: int) -> None:
    if len(data) > most:
        raise ProtocolError("oversized", f"{part}: a file in it has {len(data)} bytes, the limit is {most}")


def _digest(about: bytes) -> str:
    return hashlib.sha256(about).hexdigest()[:16]
