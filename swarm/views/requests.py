"""Requests to a bucket: what the workers of a run asked; none in a folder."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

import msgspec

from swarm.records.pace import seconds_per_round
from swarm.records.progress import NodeProgress, RequestCounts
from swarm.store.base import Spent
from swarm.views.text import size


class Requests(msgspec.Struct, frozen=True):
    """Holds the requests of all workers by their rows, where a checkpoint counts for the round after it, and those of
    this view. Those of a coordinator, of other views and of a judge are not counted."""

    workers: int
    per_round: float
    """Requests of one worker."""
    writes_per_round: float
    lists_per_round: float
    reads_per_round: float
    bytes_per_round: float
    """Contents written and read."""
    per_minute: float | None
    """Requests of one worker; None while the pace is not known."""
    this_view: int
    """Requests of who looks, so far."""


def requests_of(progress: Iterable[NodeProgress], spent: Spent | None = None) -> Requests | None:
    """Returns what was asked of the place; None: nobody counted, as in a folder.

    Args:
        spent: by who looks.
    """
    asking = [of_node for of_node in progress if of_node.asked.requests and of_node.rounds_with_rows]
    if not asking:
        return None
    rounds = sum(of_node.rounds_with_rows for of_node in asking)
    total = RequestCounts(*map(sum, zip(*(of_node.asked for of_node in asking), strict=True)))
    paces = [pace for of_node in asking if (pace := seconds_per_round(of_node.recent))]
    pace = median(paces) if paces else None
    return Requests(
        workers=len(asking),
        per_round=total.requests / rounds,
        writes_per_round=total.writes / rounds,
        lists_per_round=total.lists / rounds,
        reads_per_round=total.reads / rounds,
        bytes_per_round=(total.sent + total.received) / rounds,
        per_minute=60 * total.requests / rounds / pace if pace else None,
        this_view=sum(spent.totals()[:3]) if spent else 0,
    )


def render_requests(requests: Requests | None) -> str:
    """Returns two lines; empty where nobody counted."""
    if requests is None:
        return ""
    pace = f", {requests.per_minute:.0f} a minute" if requests.per_minute is not None else ""
    return (
        f"requests of a worker: {requests.per_round:.1f} a round ({requests.writes_per_round:.1f} writes, "
        f"{requests.lists_per_round:.1f} listings, {requests.reads_per_round:.1f} reads, "
        f"{size(round(requests.bytes_per_round))}){pace}\n"
        f"this view so far: {requests.this_view}"
    )
