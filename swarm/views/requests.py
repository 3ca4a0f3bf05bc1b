"""Requests to a bucket: what the workers of a run asked, and what that costs at public prices; none in a folder."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

import msgspec

from swarm.records.pace import seconds_per_round
from swarm.records.progress import NodeProgress, RequestCounts
from swarm.store.base import Spent
from swarm.views.text import size

DAY = 86_400.0


class RequestPrice(NamedTuple):
    """US dollars per 1,000 requests, without storage and traffic."""

    writes: float
    lists: float
    reads: float

    def of(self, asked: RequestCounts) -> float:
        return (asked.writes * self.writes + asked.lists * self.lists + asked.reads * self.reads) / 1000


PRICES = {
    "s3": RequestPrice(0.005, 0.005, 0.0004),
    "gs": RequestPrice(0.005, 0.005, 0.0004),
    "az": RequestPrice(0.0065, 0.0065, 0.0005),
}
"""Scheme of a bucket's URL -> list prices of 2025: Amazon S3 Standard in us-east-1, Google Cloud Storage Standard in
one region, Azure Blob Storage hot with local redundancy. Other servers that speak S3 charge otherwise, or nothing."""


def price_at(place: str) -> RequestPrice | None:
    """Returns the price list of a shared place; None: it is no bucket."""
    return PRICES.get(place.partition("://")[0])


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
    dollars: float
    """Dollars of all that workers asked so far."""
    dollars_a_day: float | None
    """The same of a day, at this pace."""


def requests_of(place: str, progress: Iterable[NodeProgress], spent: Spent | None = None) -> Requests | None:
    """Returns what was asked of the place; None: the place charges for nothing, or nobody counted.

    Args:
        spent: by who looks.
    """
    asking = [of_node for of_node in progress if of_node.asked.requests and of_node.rounds_with_rows]
    price = price_at(place)
    if price is None or not asking:
        return None
    total, rounds = RequestCounts(), sum(of_node.rounds_with_rows for of_node in asking)
    for of_node in asking:
        total = total.plus(of_node.asked)
    paces = [pace for of_node in asking if (pace := seconds_per_round(of_node.recent))]
    pace = median(paces) if paces else None
    a_round = price.of(total) / rounds * len(asking)
    return Requests(
        workers=len(asking),
        per_round=total.requests / rounds,
        writes_per_round=total.writes / rounds,
        lists_per_round=total.lists / rounds,
        reads_per_round=total.reads / rounds,
        bytes_per_round=(total.sent + total.received) / rounds,
        per_minute=60 * total.requests / rounds / pace if pace else None,
        this_view=sum(spent.totals()[:3]) if spent else 0,
        dollars=price.of(total),
        dollars_a_day=a_round * DAY / pace if pace else None,
    )


def render_requests(requests: Requests | None) -> str:
    """Returns one or two lines; empty where there is nothing to pay."""
    if requests is None:
        return ""
    pace = f", {requests.per_minute:.0f} a minute" if requests.per_minute is not None else ""
    day = f", {requests.dollars_a_day:.3f} a day at this pace" if requests.dollars_a_day is not None else ""
    return (
        f"requests of a worker: {requests.per_round:.1f} a round ({requests.writes_per_round:.1f} writes, "
        f"{requests.lists_per_round:.1f} listings, {requests.reads_per_round:.1f} reads, "
        f"{size(round(requests.bytes_per_round))}){pace}\n"
        f"this view so far: {requests.this_view}\n"
        f"at list prices of 2025, without storage, traffic, coordinator and views: {requests.dollars:.3f} dollars by "
        f"{requests.workers} workers so far{day}"
    )
