"""The names of a prefix, page by page, out of a recursive listing: obstore knows no other one that can be bounded.

    rollouts/round_0/stage_0/anna.json ─┐
    rollouts/round_0/stage_0/ben.json  ─┴▶ PREFIX round_0      a page full of one child is enough: the next is behind it
    logs/anna/metrics.jsonl~/7f-000    ─┐
    logs/anna/metrics.jsonl~/7f-512    ─┴▶ FILE metrics.jsonl  of the size of all its segments
    checkpoints/round_5/anna/~manifest ──▶ PREFIX anna         data without a manifest is nothing yet

A stranger can put objects whose names obstore refuses (`peers//x`, `peers/../x`, control characters), and with them
the whole page. Such a name is stepped over where it comes before all that could count; elsewhere what comes before it
on its page cannot be seen, and that is an error which names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from obstore.exceptions import InvalidPathError

from swarm.errors import StoreError
from swarm.store.base import MOST_NAMES, PAGE, Entry, Kind, Page
from swarm.store.bucket import names
from swarm.store.bucket.client import BucketClient, tag_of
from swarm.store.bucket.names import BEHIND, Segment, Tail

if TYPE_CHECKING:
    from obstore import ObjectMeta

MOST_PAGES = MOST_NAMES // PAGE
"""Requests of one listing; a flood beyond that is not seen whole."""


def objects(client: BucketClient, prefix: str, after: str = "") -> Iterator[ObjectMeta]:
    """Yields all objects below a prefix whose names lie behind `after`, in the server's order, at most MOST_NAMES of
    them.

    Odd ones are left out, as in all that lists here.
    """
    walk = Walk(client, prefix, after)
    while (found := walk.next()) is not None:
        yield found


class Walk:
    """Goes through the objects below a prefix, and may leap."""

    def __init__(self, client: BucketClient, prefix: str, after: str = "") -> None:
        self._client = client
        self._prefix = prefix
        self._left = MOST_PAGES
        self.looked = 0
        """Objects that were come by, odd ones too."""
        self._go_on(after)

    def leap(self, after: str) -> None:
        """Go on behind this name; never back, for names that end in BEHIND can be anybody's."""
        if after <= self._after:
            return
        self._go_on(after)

    def _go_on(self, after: str) -> None:
        self._after = after
        self._pages = self._client.pages(self._prefix, after)
        self._page: Iterator[ObjectMeta] = iter(())

    def next(self) -> ObjectMeta | None:
        while True:
            while (found := next(self._page, None)) is None:
                if self._left <= 0 or not self._turn():
                    return None
            self._after = found["path"]
            self.looked += 1
            start, slash, below = found["path"].partition(f"{self._prefix}/")
            if not start and slash and not names.is_odd(below):
                return found

    def _unreadable(self, start: str) -> StoreError:
        where = self._client.describe(self._prefix)
        return StoreError(
            f"cannot list {where}: a name that begins with {start[:200]!r} has empty parts, "
            "`..` or control characters, and hides others; remove that object by the provider's own tools"
        )

    def _turn(self) -> bool:
        """Ask for the next page, or for one behind what cannot be named; False: there is none."""
        self._left -= 1
        try:
            page = next(self._pages, None)
        except InvalidPathError as error:
            behind = names.behind_odd(str(error), self._prefix)
            if behind <= self._after:
                raise self._unreadable("".join(names.odd_part(str(error)))) from None
            self.leap(behind)
            return True
        if page is None:
            return False
        self._page = iter(page)
        return True


def list_page(client: BucketClient, prefix: str, after: str, limit: int, *, tags: bool, bundles: bool = False) -> Page:
    """Returns one page of a prefix that is no bundle; it implements Store.list.

    Args:
        bundles: all that lies deeper is of bundles.
    """
    walk, found = Walk(client, prefix, _offset(prefix, after)), _Found(tags, bundles)
    most = max(1, min(limit, MOST_NAMES))
    while (there := walk.next()) is not None:
        name, slash, rest = there["path"].removeprefix(f"{prefix}/").partition("/")
        if f"{name}{slash}" == after:  # its name begins with BEHIND
            continue
        if found.is_new(name, rest) and len(found.entries) >= most:
            return found.page()._replace(looked=walk.looked)
        if (found.take(name, rest, there)) >= PAGE and (behind := found.behind(name, rest)):
            walk.leap(f"{prefix}/{behind}")
    return found.page()._replace(next="", looked=walk.looked)


def _offset(prefix: str, after: str) -> str:
    if not after:
        return ""
    return f"{prefix}/{after}{BEHIND}" if after.endswith("/") else f"{prefix}/{after}"


class _Found:
    """Collects the entries of one page."""

    def __init__(self, tags: bool, bundles: bool) -> None:
        self.entries: dict[tuple[str, bool], Entry] = {}
        """By name, and whether it is a prefix: neither hides the other. A prefix comes first, so that who keeps one of
        a name keeps the object: names below another's object can be written by who may write their last part."""
        self._tags = tags
        self._bundles = bundles
        self._last = ""
        """Where the page that follows goes on."""
        self._child = ""
        self._in_child = 0
        """Objects of one child that came one after the other."""
        self._tails: dict[str, Tail] = {}
        """Tails of growing files."""

    def is_new(self, name: str, rest: str) -> bool:
        shown = self._shown(name, rest)
        return shown is not None and (shown, self._is_prefix(name, rest)) not in self.entries

    def take(self, name: str, rest: str, there: ObjectMeta) -> int:
        """Note an object; gives how many of the same child came by now."""
        self._in_child = self._in_child + 1 if rest and name == self._child else 1
        self._child = name
        shown = self._shown(name, rest)
        if shown is not None:
            self._last = f"{name}/" if rest else name
            if not rest:
                self.entries.setdefault((shown, False), self._file(shown, there["size"], tag_of(there)))
            elif self._is_prefix(name, rest):
                self.entries.setdefault((shown, True), Entry(shown, Kind.PREFIX))
            else:
                self._grow(shown, rest, there["size"])
        return self._in_child

    @staticmethod
    def _is_prefix(name: str, rest: str) -> bool:
        return bool(rest) and "~" not in name

    def _shown(self, name: str, rest: str) -> str | None:
        """Returns the name under which an object appears; None: under none."""
        if not rest:
            return None if "~" in name else name
        if "~" not in name:
            counts = rest == names.MANIFEST if self._bundles else not names.is_data(rest)
            return name if counts else None
        base = name.removesuffix("~")
        return base if base and "~" not in base and Segment.of(rest, 0) else None

    def _grow(self, shown: str, rest: str, size: int) -> None:
        segment = Segment.of(rest, size)
        assert segment is not None
        if tail := names.onward(self._tails.get(shown), segment):
            self._tails[shown] = tail
            self.entries[shown, False] = self._file(shown, tail.last.end, f"{tail.last.birth}-{tail.last.end}")

    def _file(self, name: str, size: int, tag: str) -> Entry:
        return Entry(name, Kind.FILE, size, tag) if self._tags else Entry(name, Kind.FILE)

    def behind(self, name: str, rest: str) -> str:
        """Returns where nothing more is to be learnt of a child; empty: all of it counts."""
        if (name.endswith("~") and self._tags) or (self._bundles and names.BEHIND_DATA < rest <= names.MANIFEST):
            return ""
        if self._bundles and rest < names.BEHIND_DATA:
            return f"{name}/{names.BEHIND_DATA}"
        return f"{name}/{names.BEHIND_DATA}" if names.is_data(rest) else f"{name}/{BEHIND}"

    def page(self) -> Page:
        in_order = sorted(self.entries, key=lambda at: (at[0], not at[1]))
        return Page([self.entries[at] for at in in_order], self._last)
