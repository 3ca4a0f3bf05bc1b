"""The rollout files of a run, wherever they lie: where nodes published them, or in the archive.

    rollouts/round_R/stage_S/{node}.json ─┐
    archives/{experiment}/rollouts/ ──────┴▶ RolloutFiles: which there are, and each by stage and node, whole

What is archived goes from the one place after it has come to the other, so that is where a reader looks first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cached_property
from itertools import islice

from swarm.errors import ProtocolError
from swarm.records.archives import Archive
from swarm.records.files import read_form
from swarm.records.listing import Counted, count_files, rounds_in
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import decode
from swarm.wire.group_files import put_together
from swarm.wire.messages import CleanedFile, RolloutFile

MOST_EMPTY = 16
"""Folders of rounds that are looked into for the first one with rollouts: a cleanup leaves no empty ones."""


def read_cleaned(run: Run) -> CleanedFile | None:
    """Reads which rollouts are not where they were published; None if nobody has cleaned up, or it cannot be read."""
    with suppress(ProtocolError):
        return read_form(run.store, keys.CLEANED, CleanedFile)
    return None


def oldest_round(run: Run) -> int | None:
    """Returns the first round of which rollouts are kept, published or in the archive; None: of none that was found.

    Raises:
        StoreError: they cannot be listed.
    """
    published = rounds_in(run.store, keys.ROLLOUTS)[:MOST_EMPTY]
    full = (round_ for round_ in published if any(count_files(run.store, keys.ROLLOUTS, {round_}).nodes.values()))
    return min([*Archive(run).rounds(), *islice(full, 1)], default=None)


class RolloutFiles:
    """Finds and reads the rollout files of one run, as it is when this is made."""

    def __init__(self, run: Run, rounds: Collection[int] | None = None) -> None:
        """`rounds`: these alone. Raises StoreError if they cannot be listed."""
        self._run = run
        self._in_place = count_files(run.store, keys.ROLLOUTS, rounds)
        self._archive = Archive(run)
        parts = self._archive.rounds()
        self._parts = {round_: parts[round_] for round_ in sorted(parts) if rounds is None or round_ in rounds}

    @cached_property
    def _archived(self) -> dict[str, list[str]]:
        """Key -> the files of the archive that say that they have it; one of them may be a stranger's."""
        found: dict[str, list[str]] = {}
        for part in (part for parts in self._parts.values() for part in parts):
            for key in self._archive.contents(part):
                if keys.published_in(key):
                    found.setdefault(key, []).append(part)
        return found

    @cached_property
    def counted(self) -> Counted:
        """Counts which files there are, and what else lies where nodes publish them."""
        nodes = {key: set(there) for key, there in self._in_place.nodes.items()}
        for place in self._archived:
            if (named := keys.published_in(place)) and not keys.group_file_of(place):
                nodes.setdefault(named[0], set()).add(named[1])
        return Counted(nodes, self._in_place.strays)

    def decoded(self, key: RoundKey, node: str, limit: int) -> RolloutFile | None:
        """Reads what a node published for a stage, whole; None if it is nowhere any more.

        Args:
            limit: bytes of its file, and of those of single groups together.

        Raises:
            ProtocolError: it cannot be taken, has another form, or speaks for another node, round or stage.
        """
        place = keys.rollout(key, node)
        try:
            file = decode(self.read(place, limit), RolloutFile, self._run.store.describe(place))
        except FileNotFoundError:
            return None
        if (file.peer_id, file.round, file.stage) != (node, *key):
            said = f"it says {file.peer_id[:80]!r}, round {file.round}, stage {file.stage}"
            raise ProtocolError("misplaced", f"{self._run.store.describe(place)} is another node's, or round's: {said}")
        return put_together(file, node, key, self.read, most_bytes=limit)

    def read(self, place: str, limit: int) -> bytes:
        """Returns a file by its key. Raises FileNotFoundError if it is nowhere, and ProtocolError."""
        with suppress(FileNotFoundError):
            return self._run.store.get(place, limit).data
        return self._from_archive(place)

    def _from_archive(self, place: str) -> bytes:
        refused, named = None, keys.published_in(place)
        meanwhile = self._archive.of_round(named[0].round) if named and place not in self._archived else []
        for part in self._archived.get(place, meanwhile):
            try:
                if (found := self._archive.read(part).get(place)) is not None:
                    return found
            except ProtocolError as error:
                refused = error.as_value()
        if refused and place in self._archived:
            raise refused
        raise FileNotFoundError(place)

    def __iter__(self) -> Iterator[tuple[RoundKey, str]]:
        """Yields stage and node of each, in this order."""
        return self.counted.files
