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

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from swarm.errors import StoreError
from swarm.store.base import MOST_NAMES, PAGE, Entry, Kind, Page
from swarm.store.bucket.objects import ObjectMeta, Objects, OddNameError, tag_of
from swarm.wire import keys

BEHIND = "\U0010ffff"
"""Sorts behind every character that a name may have."""
MANIFEST = "~manifest"
BEHIND_DATA = "~g"
"""Behind all `~{id}`, before the manifest."""
_SEGMENT = re.compile(r"([0-9a-f]{20})-([0-9]{15})(?:-([0-9]{15}))?")
_DATA = re.compile(r"~[0-9a-f]{32}/[0-9]{1,6}")
_UNNAMEABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
MOST_GROWN = 10**15 - 1
"""Bytes; where a segment may begin."""
MOST_GAP = 2**30
"""Bytes that may be gone before a segment; one that lies farther behind the others was not appended."""


class Segment(NamedTuple):
    """Part of a growing file."""

    birth: str
    """Birth of the file: the later, the greater."""
    at: int
    """Its place among the others: its start, or that of the last one that it joins. Who lists from one of those on
    finds it."""
    start: int
    size: int

    @classmethod
    def of(cls, name: str, size: int) -> Segment | None:
        """Parses the last part of a segment's name; None if it is none, as where it has no bytes."""
        if not size or not (match := _SEGMENT.fullmatch(name)):
            return None
        found = cls(match[1], int(match[2]), int(match[3] or match[2]), size)
        return found if found.name == name and (not found.joined or found.end > found.at) else None

    @property
    def end(self) -> int:
        return self.start + self.size

    @property
    def joined(self) -> bool:
        """Tells whether it holds the bytes of several that were there before."""
        return self.start < self.at

    @property
    def name(self) -> str:
        return f"{self.birth}-{self.at:015}" + (f"-{self.start:015}" if self.joined else "")


class Tail(NamedTuple):
    """Says how far the file goes that is there now, by those of its segments that were seen, in order."""

    last: Segment
    end: int


def onward(tail: Tail | None, segment: Segment, base: int = 0) -> Tail | None:
    """Returns the tail with the next segment, if that counts.

    Args:
        base: byte from which on segments of its birth are listed.
    """
    reached = tail.end if tail and tail.last.birth == segment.birth else base
    return Tail(segment, max(reached, segment.end)) if segment.start <= reached + MOST_GAP else tail


def newest(segments: Sequence[Segment], after: Segment | None = None) -> list[Segment]:
    """Returns the segments of the file that is there now, in order: of the latest birth with any that count.

    Args:
        after: the listing began behind this one.
    """
    found = list[Segment]()
    tail: Tail | None = None
    for segment in sorted(segments):
        before, base = tail, after.start if after and after.birth == segment.birth else 0
        if (tail := onward(tail, segment, base)) is not before:
            if before and before.last.birth != segment.birth:
                found = []
            found.append(segment)
    return found


def grown(name: str) -> str:
    """Returns where the segments of a growing file lie."""
    return f"{name}~"


def may_grow(key: str) -> bool:
    """Tells whether a key may be of a growing file: JSON documents are put whole, and cost no second look."""
    return not key.endswith(".json") and not key.startswith(f"{keys.WEIGHTS}/")


def bundle_of(key: str) -> str:
    """Returns the checkpoint that a key is or lies in; "" for others: a manifest elsewhere is a stranger's, and
    nothing."""
    parts = key.split("/")
    return "/".join(parts[:3]) if parts[0] == keys.CHECKPOINTS and len(parts) > 2 else ""


def holds_bundles(key: str) -> bool:
    """Tells whether checkpoints lie below the names of a prefix; they are there by their manifests alone."""
    return key.startswith(f"{keys.CHECKPOINTS}/") and key.count("/") == 1


def is_odd(name: str) -> bool:
    """Tells whether no request but a listing could name such an object: nobody's who means well."""
    return any(part in ("", ".", "..") or _UNNAMEABLE.search(part) for part in name.split("/"))


def is_data(rest: str) -> bool:
    """Tells whether this, behind a prefix, is of a bundle's data."""
    return bool(_DATA.search(rest))


def odd_part(said: str) -> tuple[str, str]:
    """Finds the odd part that obstore refused in its message: the start of the name up to the part, and the part.

    Nothing is taken from the message but the start of the name, and what follows can be anybody's.
    """
    path, at = said.partition('Path "')[2], 0
    while at < len(path):
        part, slash, _ = path[at:].partition("/")
        if control := _CONTROL.search(part):
            return path[:at], part[: control.end()]
        if part in ("", ".", "..") or not slash:
            odd = re.match(r'(\.{0,2})(?="|$)', part)  # the last part is followed by the message's own quote
            return (path[:at], odd[1]) if odd else (path, "")
        at += len(part) + 1
    return path, ""


def behind_odd(said: str, prefix: str) -> str:
    """Returns where a listing of a prefix goes on behind what obstore refused; empty: names that count may lie before
    it.

    Names of ours begin with a letter, a digit or `_`, so nothing of ours lies before one that begins oddly.
    """
    before, odd = odd_part(said)
    if before != f"{prefix}/" or (odd not in ("", ".", "..") and (len(odd) > 1 or odd > " ")):
        return ""
    return f"{before} " if odd and odd < " " else f"{before}{odd}0"


MOST_PAGES = MOST_NAMES // PAGE
"""Requests of one listing; a flood beyond that is not seen whole."""


def objects(client: Objects, prefix: str) -> Iterator[ObjectMeta]:
    """Yields all objects below a prefix, in the server's order, at most MOST_NAMES of them.

    Odd ones are left out, as in all that lists here.
    """
    walk = Walk(client, prefix)
    while (found := walk.next()) is not None:
        yield found


class Walk:
    """Goes through the objects below a prefix, and may leap."""

    def __init__(self, client: Objects, prefix: str, after: str = "") -> None:
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
            if not start and slash and not is_odd(below):
                return found

    def _turn(self) -> bool:
        """Ask for the next page, or for one behind what cannot be named; False: there is none."""
        self._left -= 1
        try:
            page = next(self._pages, None)
        except OddNameError as error:
            behind = behind_odd(str(error), self._prefix)
            if behind <= self._after:
                raise StoreError(
                    f"cannot list {self._client.describe(self._prefix)}: a name that begins with "
                    f"{''.join(odd_part(str(error)))[:200]!r} has empty parts, `..` or control characters, and hides "
                    "others. Remove that object by the provider's tools"
                ) from None
            self.leap(behind)
            return True
        if page is None:
            return False
        self._page = iter(page)
        return True


def list_page(client: Objects, prefix: str, after: str, limit: int, *, tags: bool, bundles: bool = False) -> Page:
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
        if found.is_new(name, rest, there["size"]) and len(found.entries) >= most:
            return found.page()._replace(looked=walk.looked)
        if found.take(name, rest, there) % PAGE == 0 and (behind := found.behind(name, rest)):
            walk.leap(f"{prefix}/{behind}")
    return found.page()._replace(next="", looked=walk.looked)


def _offset(prefix: str, after: str) -> str:
    if not after:
        return ""
    return f"{prefix}/{after}{BEHIND}" if after.endswith("/") else f"{prefix}/{after}"


class _Found:
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

    def is_new(self, name: str, rest: str, size: int) -> bool:
        shown = self._shown(name, rest, size)
        return shown is not None and (shown, self._is_prefix(name, rest)) not in self.entries

    def take(self, name: str, rest: str, there: ObjectMeta) -> int:
        """Note an object; gives how many of the same child came by now."""
        self._in_child = self._in_child + 1 if rest and name == self._child else 1
        self._child = name
        shown = self._shown(name, rest, there["size"])
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

    def _shown(self, name: str, rest: str, size: int) -> str | None:
        """Returns the name under which an object appears; None: under none."""
        if not rest:
            return None if "~" in name else name
        if "~" not in name:
            counts = rest == MANIFEST if self._bundles else not is_data(rest)
            return name if counts else None
        base = name.removesuffix("~")
        return base if base and "~" not in base and Segment.of(rest, size) else None

    def _grow(self, shown: str, rest: str, size: int) -> None:
        segment = Segment.of(rest, size)
        assert segment is not None
        if tail := onward(self._tails.get(shown), segment):
            self._tails[shown] = tail
            self.entries[shown, False] = self._file(shown, tail.end, f"{tail.last.birth}-{tail.last.end}-{tail.end}")

    def _file(self, name: str, size: int, tag: str) -> Entry:
        return Entry(name, Kind.FILE, size, tag) if self._tags else Entry(name, Kind.FILE)

    def behind(self, name: str, rest: str) -> str:
        """Returns behind what nothing more is to be learnt of a child, or of a bundle's data in it; empty: all of it
        counts."""
        if (name.endswith("~") and self._tags) or (self._bundles and BEHIND_DATA < rest <= MANIFEST):
            return ""
        if self._bundles and rest < BEHIND_DATA:
            return f"{name}/{BEHIND_DATA}"
        if not self._bundles and (name, True) in self.entries:
            return f"{name}/{BEHIND}"
        data = _DATA.search(rest)
        return f"{name}/{rest[: data.start()]}{BEHIND_DATA}" if data else f"{name}/{BEHIND}"

    def page(self) -> Page:
        in_order = sorted(self.entries, key=lambda at: (at[0], not at[1]))
        return Page([self.entries[at] for at in in_order], self._last)
