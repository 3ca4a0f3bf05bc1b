"""Which rounds' rollouts may go: pure decisions; janitor.py carries them out.

    rounds that who cleans has lived through   0 1 2 ... 471 ... 488 489 490 491 ... 500
                                                         │             └ the last N of them stay
                                                         └ no worker holds any longer than `reach` of them
    what workers say that they still need      ben: from 479 on ─▶ rounds before 479 go

Nothing that a stranger writes moves what goes any further than that: a round that nobody lived through is none of the
last N, so a clock that jumped takes nothing along, and who says that it needs all holds no more than `reach` rounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from statistics import median_low
from typing import NamedTuple

from swarm.config import Settings
from swarm.store.base import Entry

LEAST_KEPT = 3
"""Rounds: the open one, and those by whose files a coordinator that comes back knows its workers."""


class Keeping(NamedTuple):
    """How many rounds stay."""

    last: int
    """In any case."""
    reach: int
    """At most, for workers that may read them."""


def keeping(settings: Settings) -> Keeping:
    """As the settings have it: those that are asked for, and those that redoing may go back to."""
    last = max(settings.keep_last_rounds, LEAST_KEPT, settings.staleness_window + 1)
    return Keeping(last, max(last, settings.redo_rounds + settings.staleness_window + 1))


def needed_from(saved: Sequence[int], round_: int, settings: Settings) -> int:
    """The first round whose rollouts a worker may still read.

    Args:
        saved: rounds behind each of its checkpoints; it redoes those since, of which the oldest may have to do.
        round_: the one it works on.
    """
    begins_at = (min(saved, default=0) if settings.redo_rounds else round_) if round_ >= 0 else 0
    return max(0, min(begins_at, round_) - settings.staleness_window)


def first_kept(lived: Sequence[int], needs: Iterable[int], keeping: Keeping) -> int:
    """The rounds before this one may go.

    Args:
        lived: rounds that who cleans has been through, in order, at least the last `reach` of them.
        needs: what workers, dead ones too, have said that they need.
    """
    if len(lived) < keeping.last:
        return 0
    held = lived[-keeping.reach] if len(lived) >= keeping.reach else 0
    return max(0, min(lived[-keeping.last], max(held, min(needs, default=lived[-1]))))


def first_kept_by_most(
    lived: Iterable[Sequence[int]], needs: Sequence[int], keeping: Keeping, clock: int | None
) -> int:
    """As first_kept, for who has lived through nothing itself and looks once: no more than most workers would take.

    Args:
        lived: the rounds of each worker.
        clock: the round that the coordinator's clock stands at; None: there is none.
    """
    by_worker = [first_kept(rounds, needs, keeping) for rounds in lived if rounds]
    first = median_low(by_worker) if by_worker else 0
    return first if clock is None else max(0, min(first, clock - keeping.last + 1))


def worth_archiving(
    found: Sequence[tuple[str, str, Entry]], known: Collection[str], most_files: int, most_bytes: int
) -> list[str]:
    """The keys of one round's files that are archived, in order: no more names than nodes read, however many there are.

    Args:
        found: key, node and listed entry of each.
        known: nodes that have done their part; their files come first, whatever else lies there.
        most_bytes: of the files of all others together, as of a pool.
    """
    chosen, left = list[str](), most_bytes
    for key, node, entry in sorted(found, key=lambda one: (one[1] not in known, one[0])):
        if node not in known:
            if len(chosen) >= most_files or entry.size > left:
                continue
            left -= entry.size
        chosen.append(key)
    return sorted(chosen)
