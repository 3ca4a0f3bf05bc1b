"""One listing out of those of several subtrees."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from swarm.store.base import Entry, Page


def merged(pages: Sequence[Page], limit: int, shown: Callable[[int, Entry], bool]) -> Page:
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
