"""Names of objects: which are one thing's parts, and which nobody could have meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from swarm.wire import keys

BEHIND = "\U0010ffff"
"""Sorts behind every character that a name may have."""
MANIFEST = "~manifest"
BEHIND_DATA = "~g"
"""Behind all `~{id}`, before the manifest."""
_SEGMENT = re.compile(r"([0-9a-f]{20})-([0-9]{15})")
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
    start: int
    size: int

    @classmethod
    def of(cls, name: str, size: int) -> Segment | None:
        """Parses the last part of a segment's name; None if it is none."""
        match = _SEGMENT.fullmatch(name)
        return cls(match[1], int(match[2]), size) if match else None

    @property
    def end(self) -> int:
        return self.start + self.size

    @property
    def name(self) -> str:
        return f"{self.birth}-{self.start:015}"


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
    return any(map(_is_odd_part, name.split("/")))


def _is_odd_part(part: str) -> bool:
    return part in ("", ".", "..") or bool(_UNNAMEABLE.search(part))


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
