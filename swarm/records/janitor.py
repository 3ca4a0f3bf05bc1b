"""Cleans up after a run: takes away the rollouts of old rounds, and archives them before where that is asked for.

    cleaned.json says so ─▶ completions and weights of rounds that nobody redoes go
                         ─▶ each round: list ─▶ read ─▶ Archive.put ─▶ list again: as they were read? ─▶ remove
                                          └─ to be deleted: the whole round at once

Any number of processes may do it at once, and each may be killed at any moment: nothing is removed but what is in the
archive on disk, and what is done is found done. The same files are packed once; of a round that was half removed when
its janitor was killed, the rest is packed once more. What one may not remove, as another user's file where that is
forbidden, stays for who may.

Which rounds, retention.py says. What strangers left in them goes with them; archived is what nodes would have read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from swarm.errors import ProtocolError, StoreError
from swarm.records.archives import LARGEST_FILE, MOST_IN_PART, PART_BYTES, Archive
from swarm.records.listing import entries, rounds_in
from swarm.records.retention import worth_archiving
from swarm.records.rollouts import read_cleaned
from swarm.store.base import Blob, Entry, Kind
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import CleanedFile

ROUNDS_AT_ONCE = 50
"""Rounds of one pass, the latest first; more are left for the next one."""
MOST_REMOVED = 5000
"""Names that one pass removes one by one."""
NO_SUCH_NAME = "nothing.json"
"""A name that is never there: with it goes a folder that is empty, and no other."""


class Rules(NamedTuple):
    """Says how to clean up."""

    archive: bool
    """Keep what is taken away in the archive."""
    most_files: int
    most_bytes: int
    """Bytes of nodes that nobody knows, in one round: what is archived of theirs."""


class Cleaned(NamedTuple):
    """Counts what one pass of cleaning has done."""

    rounds: int = 0
    """Rounds of which nothing is left."""
    files: int = 0
    """That were archived."""
    bytes: int = 0
    refused: str = ""
    """Why something could not be removed."""
    left: int = 0
    """Old rounds that it did not come to."""


class Janitor:
    """Cleans up the run for one process."""

    def __init__(self, run: Run, name: str, rules: Rules, wall: Callable[[], float]) -> None:
        """`name`: who cleans up; `wall`: Unix seconds."""
        self._run = run
        self._name = name
        self._rules = rules
        self._wall = wall
        self._recovered = False
        self._left = 0
        """Names that may still be removed in this pass."""
        self._refused = ""

    def clean(self, before: int, known: Collection[str], redone: int | None = None) -> Cleaned:
        """One pass over the rounds before one. Blocking.

        Args:
            known: nodes that have done their part.
            redone: the first round that somebody may have to redo, whose completions and weights stay; None: that one.

        Raises:
            StoreError: the place fails; what was begun is gone on with by the next pass.
        """
        self._left, self._refused = MOST_REMOVED, ""
        if self._rules.archive and self._run.archive and not self._recovered:
            self._run.archive.recover()  # of a former life
            self._recovered = True
        if any(round_ < before for round_ in rounds_in(self._run.store, keys.ROLLOUTS)):
            before = self._announced(before)
        old = [round_ for round_ in rounds_in(self._run.store, keys.ROLLOUTS) if round_ < before]
        spent = before if redone is None else min(before, redone)
        for prefix in (keys.COMPLETIONS, keys.WEIGHTS):
            for round_ in [one for one in rounds_in(self._run.store, prefix) if one < spent][-ROUNDS_AT_ONCE:]:
                self._remove(f"{prefix}/round_{round_}", Kind.PREFIX)
        done = Cleaned()
        for round_ in reversed(old[-ROUNDS_AT_ONCE:]):
            one = self._archive(round_, known) if self._rules.archive else self._delete(round_)
            done = Cleaned(done.rounds + one.rounds, done.files + one.files, done.bytes + one.bytes)
        return done._replace(refused=self._refused, left=max(0, len(old) - ROUNDS_AT_ONCE))

    def _announced(self, before: int) -> int:
        """Say it before anything goes: who looks for a file that is not there shall know why. Where only another
        machine may say it, as in a replicated folder, what that has said; that is returned."""
        said = read_cleaned(self._run)
        if said and said.rollouts_before >= before and said.archived >= self._rules.archive:
            return before
        told = said.rollouts_before if said else 0
        file = CleanedFile(
            rollouts_before=max(before, told),
            archived=self._rules.archive,
            cleaned_by=self._name,
            cleaned_at=self._wall(),
        )
        try:
            self._run.store.put(keys.CLEANED, encode(file))
        except StoreError as error:
            if not error.blocked:
                raise
            self._refused = str(error)
            return min(before, told)
        return before

    # ── delete ──────────────────────────────────────────────────────────────────────────────────────────────────────
    def _delete(self, round_: int) -> Cleaned:
        prefix = f"{keys.ROLLOUTS}/round_{round_}"
        whole = self._remove(prefix, Kind.PREFIX)
        if not whole:  # some of it is another user's
            for key, entry in self._found(prefix):
                self._remove(key, entry.kind)
        return Cleaned(rounds=int(whole))

    def _remove(self, key: str, kind: Kind) -> bool:
        """Removes a key; False: this process may not, which is told and no failure."""
        try:
            if kind is Kind.PREFIX:
                self._run.store.remove_prefix(key)
            else:
                self._run.store.remove(key)
        except StoreError as error:
            self._refused = self._refused or str(error)
            return False
        return True

    # ── archive ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def _archive(self, round_: int, known: Collection[str]) -> Cleaned:
        prefix = f"{keys.ROLLOUTS}/round_{round_}"
        found = self._found(prefix)
        files = [
            (key, named[1], entry)
            for key, entry in found
            if (named := keys.published_in(key)) and entry.kind is Kind.FILE and entry.size <= LARGEST_FILE
        ]
        chosen = worth_archiving(files, known, self._rules.most_files, self._rules.most_bytes)
        taken, archive, archived, size = set(chosen), Archive(self._run), dict[str, str](), 0
        for part in self._in_parts(chosen):
            archive.put(round_, {key: blob.data for key, blob in part.items()})
            archived |= {key: blob.tag for key, blob in part.items()}
            size += sum(len(blob.data) for blob in part.values())
        may_go = {key: entry.tag for key, entry in found if key not in taken} | archived
        gone = [
            may_go.get(key) == entry.tag and self._left > 0 and self._clear(key, entry.kind)
            for key, entry in sorted(self._found(prefix), key=lambda one: one[0] not in archived)
        ]  # as it is now: what came or changed since stays
        return Cleaned(int(all(gone)), len(archived), size)

    def _in_parts(self, chosen: Sequence[str]) -> Iterator[dict[str, Blob]]:
        """Reads files, and yields as many at a time as one file of the archive takes."""
        part, size = dict[str, Blob](), 0
        for key in chosen:
            with suppress(FileNotFoundError, ProtocolError):  # it is gone, or became something else: as it is then
                part[key] = blob = self._run.store.get(key, LARGEST_FILE)
                size += len(blob.data)
            if size >= PART_BYTES or len(part) >= MOST_IN_PART:
                yield part
                part, size = {}, 0
        if part:
            yield part

    def _clear(self, key: str, kind: Kind) -> bool:
        self._left -= 1
        return self._remove(key, kind)

    def _found(self, prefix: str) -> list[tuple[str, Entry]]:
        """Returns what lies in a round's stages, and beside them; folders that are empty are removed at once."""
        found = list[tuple[str, Entry]]()
        for entry in entries(self._run.store, prefix, tags=True):
            place = f"{prefix}/{entry.name}"
            if keys.stage_of(entry.name) is None or entry.kind is not Kind.PREFIX:
                found.append((place, entry))
            else:
                there = [(f"{place}/{one.name}", one) for one in entries(self._run.store, place, tags=True)]
                found += there
                if not there:
                    self._remove(f"{place}/{NO_SUCH_NAME}", Kind.FILE)
        if not found:
            self._remove(f"{prefix}/{NO_SUCH_NAME}", Kind.FILE)
        return found
