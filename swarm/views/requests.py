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
from swarm.config.place import CADENCE
from swarm.records.pace import seconds_per_round
from swarm.records.progress import NodeProgress, RequestCounts
from swarm.store.base import Spent
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


COORDINATOR_LOOKS = RequestCounts(lists=14, reads=15)
"""Requests of a coordinator in ten of its looks, each after the reconcile interval, beside three writes a round: 20.7 a
minute, as benchmarks/bucket_requests.py measured."""


def of_the_coordinator(seconds: float, between_looks: float) -> RequestCounts:
    """Estimates its requests in a round of so many seconds."""
    looks = seconds / between_looks / 10
    return RequestCounts(
        writes=3, lists=round(looks * COORDINATOR_LOOKS.lists), reads=round(looks * COORDINATOR_LOOKS.reads)
    )


class Requests(msgspec.Struct, frozen=True):
    """Holds the requests of all workers by their rows, where a checkpoint counts for the round after it; an estimate of
    their coordinator's; and those of this view. Those of other views and of a judge are not counted."""

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
    coordinator_per_minute: float | None
    """Estimate; None while the pace is not known, and where workers keep their own clocks."""
    this_view: int
    """Requests of who looks, so far."""
    dollars: float
    """Dollars of all that workers and their coordinator asked so far."""
    dollars_a_day: float | None
    """The same of a day, at this pace."""


def requests_of(place: str, progress: Iterable[NodeProgress], spent: Spent | None = None) -> Requests | None:
    """Returns what was asked of the place; None: the place charges for nothing, or nobody counted.

    Args:
        spent: by who looks.
    """
    progress = list(progress)
    asking = [of_node for of_node in progress if of_node.asked.requests and of_node.rounds_with_rows]
    price = price_at(place)
    if price is None or not asking:
        return None
    total, rounds = RequestCounts(), sum(of_node.rounds_with_rows for of_node in asking)
    for of_node in asking:
        total = total.plus(of_node.asked)
    paces = [pace for of_node in asking if (pace := seconds_per_round(of_node.recent))]
    pace = median(paces) if paces else None
    led = pace is not None and not any(of_node.own_rounds_done for of_node in progress)
    of_clock = of_the_coordinator(pace, CADENCE["reconcile_interval"]) if led and pace else RequestCounts()
    longest = max(of_node.rounds_with_rows for of_node in asking)
    a_round = price.of(total) / rounds * len(asking) + price.of(of_clock)
    return Requests(
        workers=len(asking),
        per_round=total.requests / rounds,
        writes_per_round=total.writes / rounds,
        lists_per_round=total.lists / rounds,
        reads_per_round=total.reads / rounds,
        bytes_per_round=(total.sent + total.received) / rounds,
        per_minute=60 * total.requests / rounds / pace if pace else None,
        coordinator_per_minute=60 * of_clock.requests / pace if led and pace else None,
        this_view=sum(spent.totals()[:3]) if spent else 0,
        dollars=price.of(total) + price.of(of_clock) * longest,
        dollars_a_day=a_round * DAY / pace if pace else None,
    )


def render_requests(requests: Requests | None) -> str:
    """Returns one or two lines; empty where there is nothing to pay."""
    if requests is None:
        return ""
    pace = f", {requests.per_minute:.0f} a minute" if requests.per_minute is not None else ""
    day = f", {requests.dollars_a_day:.3f} a day at this pace" if requests.dollars_a_day is not None else ""
    clock, whose = requests.coordinator_per_minute, f"{requests.workers} workers"
    others = f"their coordinator: some {clock:.0f} a minute; " if clock is not None else ""
    return (
        f"requests of a worker: {requests.per_round:.1f} a round ({requests.writes_per_round:.1f} writes, "
        f"{requests.lists_per_round:.1f} listings, {requests.reads_per_round:.1f} reads, "
        f"{size(round(requests.bytes_per_round))}){pace}\n"
        f"{others}this view so far: {requests.this_view}\n"
        f"at list prices of 2025, without storage, traffic and views: {requests.dollars:.3f} dollars by "
        f"{whose}{' and coordinator' if clock is not None else ''} so far{day}"
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
    """Returns two or three lines on the requests to come; empty where the place charges for nothing."""
    if not settings.sparing:
        return ""
    asked, seconds, price = of_one_round(settings, workers), settings.round_interval, price_at(settings.place)
    clock = of_the_coordinator(seconds, settings.cadence.reconcile_interval)
    day = ""
    if price:
        of_clock = price.of(clock) if settings.clock != "own" else 0.0
        dollars = (workers * price.of(asked) + of_clock) * DAY / seconds
        day = (
            f"\nat list prices of 2025, without storage, traffic, checkpoints and views: {dollars:.2f} dollars a day "
            f"for {workers} workers and coordinator"
        )
    return (
        f"requests of a worker to the bucket, for rounds of {seconds:g} s: some {asked.requests} a round "
        f"({asked.writes} writes, {asked.lists} listings, {asked.reads} reads), {60 * asked.requests / seconds:.0f} a "
        f"minute\nrequests of the coordinator: some {60 * clock.requests / seconds:.0f} a minute{day}"
    )
