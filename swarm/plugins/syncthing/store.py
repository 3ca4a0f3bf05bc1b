"""The store of an experiment in a replicated folder: one key space over the subtrees of all members.

    put, append, remove ─▶ the own subtree, if the key is this member's
    get, stat, records  ─▶ the subtree of the key's owner: what lies under it anywhere else is nobody's
    list                ─▶ all subtrees, and of each the names that its member owns
    watch               ─▶ all subtrees; and the host's list of members, which is followed

Beneath is the folder store, with all of its bounds: a peer's device writes whatever it likes into that peer's subtree,
links and pipes included. The own subtree is a folder store of its own. Of all others the root is the subtree itself,
for a link in the place of `experiments` or of the experiment is a stranger's there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import NamedTuple

import anyio
from anyio import to_thread

from swarm.errors import AlreadyThereError, ProtocolError, StoreError
from swarm.lines import LogFile
from swarm.plugins.syncthing.membership import Membership, MembersRecord
from swarm.store.base import (
    MOST_NAMES,
    MOST_PER_READ,
    PAGE,
    Blob,
    Entry,
    Facts,
    Hint,
    Kind,
    Page,
    Prefixes,
    Records,
)
from swarm.store.folder.beneath import EXPERIMENTS, Within
from swarm.store.folder.store import FolderStore

FOLLOWED_EVERY = 5.0
"""Seconds between looks at the host's list of members."""
Follow = Callable[[], object]
"""Takes over what is new in the host's list; blocking."""


class _Subtree(NamedTuple):
    """Says where an experiment's keys lie in one subtree."""

    store: FolderStore
    below: str
    """What stands before a key there: empty, or a prefix with its slash."""

    def at(self, key: str) -> str:
        return f"{self.below}{key}".removesuffix("/")


def _page(of: _Subtree, prefix: str, after: str = "", limit: int = MOST_NAMES, *, tags: bool = False) -> Page:
    """Lists one subtree. What another member put in the place of a folder hides that member's names, and no others."""
    try:
        return of.store.list(of.at(prefix), after=after, limit=limit, tags=tags)
    except StoreError:
        if not of.below:
            raise
        return Page([])


def _ends(subtrees: Sequence[_Subtree], prefix: str, share: int) -> Sequence[str]:
    """Returns behind which name of each subtree nothing is listed; "": all is.

    Where there are more names than are listed at most, other members' are cut to their shares: what one of them makes
    without bounds hides his own. Where there are not, such as of many rounds that all have, no name goes.
    """
    names = {entry.name for each in subtrees for entry in _page(each, prefix).entries}
    if len(names) < MOST_NAMES:
        return [""] * len(subtrees)
    return [_page(each, prefix, limit=share).next if each.below else "" for each in subtrees]


def _cut(page: Page, end: str) -> Page:
    if not end or (page.next and page.next < end):
        return page
    return Page([entry for entry in page.entries if entry.name <= end], "", page.looked)


def _merged(pages: Sequence[Page], limit: int, shown: Callable[[int, Entry], bool]) -> Page:
    """Returns the names of several pages that begin behind the same name, in their order, each once; prefixes are one.

    Args:
        pages: of at most `limit` entries each.
        shown: whether an entry of the page of that number is one.
    """
    ends = [page.next for page in pages if page.next]
    end = min(ends, default="")  # behind it some subtree may have names that were not listed yet
    found: dict[str, Entry] = {}
    for number, page in enumerate(pages):
        for entry in page.entries:
            if (not end or entry.name <= end) and shown(number, entry):
                found[entry.name] = entry
    names = sorted(found)
    entries = [found[name] for name in names[:limit]]
    looked = sum(page.looked for page in pages)
    return Page(entries, entries[-1].name if len(names) > limit else end, looked)


class ReplicatedStore:
    """Keys are the files of their owners' subtrees."""

    def __init__(
        self,
        path: Path,
        experiment: str,
        record: MembersRecord,
        writer: str | None = None,
        follow: Follow | None = None,
    ) -> None:
        """Opens nothing yet.

        Args:
            record: who is a member.
            writer: who writes here, a name that no other process of this machine has; None: nobody.
            follow: called now and then while a writer watches.
        """
        self._path = path
        self._experiment = experiment
        self._record = record
        self._follow = follow
        self._own: tuple[str, FolderStore] | None = None
        self._writer = writer

    # ── where a key lies ────────────────────────────────────────────────────────────────────────────────────────────
    def _members(self) -> Membership:
        return self._record.read()

    def _subtree(self, member: str, members: Membership) -> _Subtree:
        if member == members.own:
            return _Subtree(self._own_subtree(members), "")
        return _Subtree(FolderStore(self._path / member), f"{EXPERIMENTS}/{self._experiment}/")

    def _own_subtree(self, members: Membership) -> FolderStore:
        """One and the same, for it remembers that it held something."""
        if self._own is None or self._own[0] != members.own:
            root = self._path / members.own / EXPERIMENTS / self._experiment
            self._own = (members.own, FolderStore(root, self._writer, below=2))
        return self._own[1]

    def _owners(self, key: str) -> _Subtree | None:
        """Returns the one subtree in which a key may lie."""
        members = self._members()
        owner = members.owner_of(key) if key else None
        return self._subtree(owner, members) if owner in members.subtrees_of(key) and owner else None

    def _reading(self, key: str) -> _Subtree:
        """Raises FileNotFoundError: no member has such a key."""
        if (found := self._owners(key)) is None:
            raise FileNotFoundError(f"{self.describe(key)} is no member's")
        return found

    def _writing(self, key: str) -> FolderStore:
        """Raises StoreError: it is not this member's to write."""
        members = self._members()
        if self._writer is not None and members.owner_of(key) != members.own:
            owner = members.owner_of(key)
            raise StoreError(
                f"{key} is {f'of the member {owner}' if owner else 'of no member'}, and this machine is {members.own} "
                f"in {self._path}: name nodes {members.own} or {members.own}-SOMETHING (--node-id)"
                + (f"; the clock and the experiment are {members.host}'s" if owner == members.host else ""),
                blocked=True,
            )
        return self._own_subtree(members)

    def describe(self, key: str = "") -> str:
        if key and (found := self._owners(key)):
            return found.store.describe(found.at(key))
        return str(self._path / EXPERIMENTS / self._experiment / key)

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def get(self, key: str, limit: int) -> Blob:
        found = self._reading(key)
        return found.store.get(found.at(key), limit)

    def get_to_file(self, key: str, target: Path, limit: int) -> None:
        found = self._reading(key)
        found.store.get_to_file(found.at(key), target, limit)

    def stat(self, key: str) -> Entry | None:
        members = self._members()
        if found := self._owners(key):
            return found.store.stat(found.at(key))
        subtrees = [self._subtree(member, members) for member in members.subtrees_of(key)]
        return next((entry for each in subtrees if (entry := _prefix_at(each, key))), None)

    def list(self, prefix: str, *, after: str = "", limit: int = PAGE, tags: bool = False) -> Page:
        members = self._members()
        of = members.subtrees_of(prefix)
        subtrees = [self._subtree(member, members) for member in of]
        pages = [_page(each, prefix, after, limit, tags=tags) for each in subtrees]
        share = MOST_NAMES // len(members.members)
        if after or any(page.next or len(page.entries) > share for page in pages):
            pages = list(map(_cut, pages, _ends(subtrees, prefix, share)))

        def is_owners(number: int, entry: Entry) -> bool:
            key = f"{prefix}/{entry.name}" if prefix else entry.name
            if of[number] not in members.subtrees_of(key):
                return False
            return entry.kind is Kind.PREFIX or members.owner_of(key) is not None

        return _merged(pages, limit, is_owners)

    def open_bundle(self, prefix: str) -> AbstractContextManager[Path]:
        found = self._reading(prefix)
        return found.store.open_bundle(found.at(prefix))

    def read_records(self, key: str, cursor: str = "", limit: int = MOST_PER_READ) -> Records:
        if (found := self._owners(key)) is None:
            return Records([], cursor)
        return found.store.read_records(found.at(key), cursor, limit)

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def facts(self) -> Facts:
        return self._own[1].facts() if self._own else Facts()

    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        if if_absent and self._of_another(key):
            raise AlreadyThereError(f"{self.describe(key)} is there already")
        self._writing(key).put(key, data, if_absent=if_absent, durable=durable)

    def _of_another(self, key: str) -> bool:
        members = self._members()
        return members.owner_of(key) != members.own and self.stat(key) is not None

    def put_bundle(self, prefix: str, fill: Callable[[Path], None]) -> None:
        self._writing(prefix).put_bundle(prefix, fill)

    def append_records(self, key: str, records: Sequence[bytes], *, durable: bool, once: bool = True) -> None:
        self._writing(key).append_records(key, records, durable=durable, once=once)

    def open_log(self, key: str) -> LogFile:
        return self._writing(key).open_log(key)

    def sync(self, key: str) -> None:
        self._writing(key).sync(key)

    def recover(self) -> None:
        self._own_subtree(self._members()).recover()

    def remove(self, key: str) -> None:
        self._writing(key).remove(key)

    def remove_prefix(self, prefix: str) -> None:
        """Removes what this member wrote; of a prefix below which others write too, that alone."""
        members = self._members()
        shared = members.owner_of(prefix) is None and members.own in members.subtrees_of(prefix)
        (self._own_subtree(members) if shared else self._writing(prefix)).remove_prefix(prefix)

    # ── hints ───────────────────────────────────────────────────────────────────────────────────────────────────────
    async def watch(self, prefixes: Sequence[str], interval: float, hint: Hint, among_them: Prefixes = tuple) -> None:
        async with anyio.create_task_group() as tasks:
            if self._writer is not None and self._follow is not None:
                tasks.start_soon(_now_and_then, self._follow)
            while True:
                members = await to_thread.run_sync(self._members)
                async with anyio.create_task_group() as watching:
                    watching.start_soon(self._watch, members, prefixes, interval, hint, among_them)
                    await self._until_others_belong(members)
                    watching.cancel_scope.cancel()
                hint()

    async def _watch(
        self, members: Membership, prefixes: Sequence[str], interval: float, hint: Hint, among_them: Prefixes
    ) -> None:
        from swarm.store.folder.watch import watch  # here, for commands that only look start without it

        def places(of: Sequence[str]) -> list[Within]:
            found = [self._within(member, prefix) for prefix in of for member in members.subtrees_of(prefix)]
            return [place for place in found if os.path.isdir(place.root)]

        if not (roots := await to_thread.run_sync(places, prefixes)):
            await anyio.sleep_forever()
        await watch(roots, interval, hint, lambda folder: None, lambda: places(tuple(among_them())))

    def _within(self, member: str, prefix: str) -> Within:
        return Within(self._path / member, (EXPERIMENTS, self._experiment, *filter(None, prefix.split("/"))))

    async def _until_others_belong(self, members: Membership) -> None:
        now = members
        while now == members:
            await anyio.sleep(FOLLOWED_EVERY)
            with suppress(StoreError):
                now = await to_thread.run_sync(self._members)


async def _now_and_then(follow: Follow) -> None:
    while True:
        await to_thread.run_sync(follow)
        await anyio.sleep(FOLLOWED_EVERY)


def _prefix_at(of: _Subtree, key: str) -> Entry | None:
    with suppress(ProtocolError):  # somebody put something else there
        entry = of.store.stat(of.at(key)) if of.at(key) else None
        return entry if entry and entry.kind is Kind.PREFIX else None
    return None
