"""Decides which rounds' rollouts may go: pure decisions; janitor.py carries them out.

    rounds that who cleans has lived through   0 1 2 ... 471 ... 488 489 490 491 ... 500
                                                         │             └ the last N of them stay
                                                         └ no worker holds any longer than `reach` of them
    what workers say that they still need      ben: from 479 on ─▶ rounds before 479 go

What is archived can be read by who redoes a round. So where rollouts are archived a worker holds those alone that it
may still learn from where they lie, as on its own clock; of completions and weights it holds what it may need.

Nothing that a stranger writes moves what goes any further than that: a round that nobody lived through is none of the
last N, so a clock that jumped takes nothing along, and who says that it needs all holds no more than `reach` rounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from swarm.config import Settings, variable
from swarm.store.base import Entry

LEAST_KEPT = 3
"""Rounds: the open one, and those by whose files a coordinator that comes back knows its workers."""


class Keeping(NamedTuple):
    """Says how many rounds stay."""

    last: int
    """In any case."""
    reach: int
    """At most, for workers that may read them."""


class Lived(NamedTuple):
    """A round that a node has a row for."""

    round: int
    oldest: int
    """The earliest round of which it was trained on groups, itself included."""


class WorkerNeed(NamedTuple):
    """Holds what one worker says that it still needs; dead workers count, too."""

    files: int
    """The first round of whose files it may need any."""
    learns: int | None
    """The round that it works on; -1: none yet, or nobody can tell; None: it has stopped."""
    node: str = ""


def keeping(settings: Settings) -> Keeping:
    """Returns how many rounds the settings keep: those that are asked for, and those that redoing may go back to."""
    last = max(settings.keep_last_rounds, LEAST_KEPT, settings.staleness_window + 1)
    return Keeping(last, max(last, settings.redo_rounds + settings.staleness_window + 1))


def needed_from(saved: Sequence[int], round_: int, lived: Sequence[Lived], settings: Settings) -> int:
    """Returns the first round of whose files a worker may still need any.

    It redoes the rounds since its newest checkpoint. Where nothing is deleted it can do so since its oldest one.

    Args:
        saved: rounds behind each of its checkpoints.
        round_: the one it works on, or did last; -1: none yet.
        lived: those before, as far as it may have to redo them.
    """
    if round_ < 0:
        return 0
    learns_from = _learns_from(round_, settings)
    if not settings.redo_rounds:
        return max(0, learns_from)
    begins_at = (max if _deletes(settings) else min)(saved, default=0)
    if begins_at > round_:  # it has nothing to redo, and nothing to learn from before its next round
        return begins_at
    return max(0, min(begins_at, learns_from, *(one.oldest for one in lived if one.round >= begins_at)))


def _deletes(settings: Settings) -> bool:
    return settings.cleanup and not settings.archive_old


def _learns_from(round_: int, settings: Settings) -> int:
    return round_ - (settings.staleness_window if settings.clock == "own" else 0)


def held_in_place(needs: Iterable[WorkerNeed], settings: Settings) -> list[int]:
    """Returns the first round whose rollouts each worker needs where they were published, where older ones are
    archived."""
    if not settings.archive_old:
        return [need.files for need in needs]
    learning = [need.learns for need in needs if need.learns is not None]
    return [_learns_from(round_, settings) for round_ in learning] if settings.clock == "own" else []


class Staying(NamedTuple):
    """More rounds than are asked for."""

    rounds: int
    why: str
    remedy: str


def more_than_asked(settings: Settings) -> Staying | None:
    """Returns how many rounds of rollouts may stay until the end of a run, and why; None: as many as are asked for."""
    asked, last = settings.keep_last_rounds, keeping(settings).last
    behind = settings.staleness_window if settings.clock == "own" else 0
    redone = min(settings.checkpoint_interval or settings.redo_rounds, settings.redo_rounds)
    since = redone + behind if redone and _deletes(settings) else 0
    if not settings.cleanup or max(last, since) <= asked:
        return None
    if since <= last:
        window = f" ({variable('staleness_window')} = {settings.staleness_window})" * (last > LEAST_KEPT)
        return Staying(last, f"nodes read so many{window}", "")
    interval = variable("checkpoint_interval")
    why = f"a node that is killed redoes the rounds since its last checkpoint: {interval} = "
    often = f"{interval}={asked - behind} or less, or " if asked > behind else ""
    return Staying(since, f"{why}{settings.checkpoint_interval}", f"{often}{variable('archive_old')}=True")


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
    """Returns the first round to keep for who looks once and lived through none: it takes no more than most workers
    would.

    Args:
        lived: the rounds of each worker.
        clock: the round that the coordinator's clock stands at; None: there is none.
    """
    by_worker = sorted(first_kept(rounds, needs, keeping) for rounds in lived if rounds)
    # the low median; `statistics` would cost every start 3 ms
    first = by_worker[(len(by_worker) - 1) // 2] if by_worker else 0
    return first if clock is None else max(0, min(first, clock - keeping.last + 1))


def worth_archiving(
    found: Sequence[tuple[str, str, Entry]], known: Collection[str], most_files: int, most_bytes: int
) -> list[str]:
    """Returns the keys of one round's files that are archived, in order: no more names than nodes read, however many
    there are.

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
