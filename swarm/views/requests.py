"""Requests to a bucket: what the workers of a run asked and will ask, and what that costs at public prices; a run in a
folder has none.

A worker's round, as counted out of what it does; benchmarks/bucket_requests.py measures the same:

    written   rollouts, row, reward; completions where a GPU may sample them; beats, of which a node that goes from
              round to round leaves out every second one, and segments of two logs, by the time that passes
    listed    the peers, and the rollouts of the round
    read      rollouts of as many peers as groups are wanted of, the coordinator's registration, the own one before a
              beat, the state file, until it names the next round, and its writer's registration; in every fourth round
              what a judge asks
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

import msgspec

from swarm.config import Settings
from swarm.records.pace import seconds_per_round
from swarm.records.progress import NodeProgress, RequestCounts
from swarm.store.bucket.log import SEALED_LATEST, SEALED_SELDOM
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


FILES = 3
"""Objects of a round, without completions."""
STATE_READS, JUDGE_READS = 5, 0.25


def of_one_round(settings: Settings, workers: int) -> RequestCounts:
    """Estimates the requests of one worker in a round that takes the whole interval and in which nobody is late."""
    seconds, peers = settings.round_interval, workers - 1
    beats = seconds / settings.cadence.heartbeat_interval / 2
    kept = settings.device != "cpu" or settings.staleness > 0
    return RequestCounts(
        writes=round(FILES + kept + beats + seconds / SEALED_LATEST + seconds / SEALED_SELDOM),
        lists=2 if settings.shares else 1,
        reads=round(min(peers, settings.most_external_groups) + 1 + beats + STATE_READS + JUDGE_READS),
    )


def render_expected(settings: Settings, workers: int) -> str:
    """Returns one line; empty where the place charges for nothing."""
    if not settings.sparing:
        return ""
    asked, seconds, price = of_one_round(settings, workers), settings.round_interval, price_at(settings.place)
    pace = f"{60 * asked.requests / seconds:.0f} a minute"
    day = f"; {price.of(asked) * workers * DAY / seconds:.2f} dollars a day at list prices of 2025" if price else ""
    return (
        f"requests of a worker to the bucket, for rounds of {seconds:g} s: some {asked.requests} a round "
        f"({asked.writes} writes, {asked.lists} listings, {asked.reads} reads), {pace}{day} "
        f"for {workers} workers"
    )
