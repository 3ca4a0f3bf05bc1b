"""Counts what the workers of a run asked of its bucket, and what that costs at public prices; a run in a folder has
none."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

import msgspec

from swarm.records.asked import DAY, RequestCounts, price_at
from swarm.records.pace import seconds_per_round
from swarm.records.progress import NodeProgress
from swarm.views.text import size


class Requests(msgspec.Struct, frozen=True):
    """Holds the requests of all workers, by their rows; those of a coordinator, views and a judge are not counted."""

    workers: int
    per_round: float
    """Requests of one worker."""
    writes_per_round: float
    lists_per_round: float
    reads_per_round: float
    bytes_per_round: float
    """Contents written and read."""
    spared_per_round: float
    """By which these were longer before they were packed."""
    per_minute: float | None
    """Requests of one worker; None while the pace is not known."""
    dollars: float
    """Dollars of all that was asked so far."""
    dollars_a_day: float | None
    """Dollars of all workers, at this pace."""


def requests_of(place: str, progress: Iterable[NodeProgress]) -> Requests | None:
    """Returns what the workers asked of the place; None: the place charges for nothing, or nobody counted."""
    asking = [of_node for of_node in progress if of_node.asked.requests and of_node.rewards]
    price = price_at(place)
    if price is None or not asking:
        return None
    total, rounds = RequestCounts(), sum(len(of_node.rewards) for of_node in asking)
    for of_node in asking:
        total = total.plus(of_node.asked)
    paces = [pace for of_node in asking if (pace := seconds_per_round(of_node.recent))]
    pace = median(paces) if paces else None
    return Requests(
        workers=len(asking),
        per_round=total.requests / rounds,
        writes_per_round=total.writes / rounds,
        lists_per_round=total.lists / rounds,
        reads_per_round=total.reads / rounds,
        bytes_per_round=(total.sent + total.received) / rounds,
        spared_per_round=total.spared / rounds,
        per_minute=60 * total.requests / rounds / pace if pace else None,
        dollars=price.of(total),
        dollars_a_day=price.of(total) / rounds * len(asking) * DAY / pace if pace else None,
    )


def render_requests(requests: Requests | None) -> str:
    """Returns one or two lines; empty where there is nothing to pay."""
    if requests is None:
        return ""
    pace = f", {requests.per_minute:.0f} a minute" if requests.per_minute is not None else ""
    spared = f", {size(round(requests.spared_per_round))} less by packing" if requests.spared_per_round else ""
    day = f", {requests.dollars_a_day:.3f} a day at this pace" if requests.dollars_a_day is not None else ""
    return (
        f"requests of a worker: {requests.per_round:.1f} a round ({requests.writes_per_round:.1f} writes, "
        f"{requests.lists_per_round:.1f} listings, {requests.reads_per_round:.1f} reads, "
        f"{size(round(requests.bytes_per_round))}{spared}){pace}\n"
        f"at list prices of 2025, without storage and traffic: {requests.dollars:.3f} dollars by "
        f"{requests.workers} workers so far{day}"
    )
