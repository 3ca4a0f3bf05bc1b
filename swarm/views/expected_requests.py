"""Estimates how many requests a worker will make to a bucket in a round, counted out of what a round does.

    written   rollouts, row, reward; completions where a GPU may sample them; beats, of which a node that goes from
              round to round leaves out every second one, and segments of two logs, by the time that passes
    listed    the peers, and the rollouts of the round
    read      rollouts of as many peers as groups are wanted of, the coordinator's registration, the own one before a
              beat, the state file, until it names the next round, and its writer's registration; in every fourth round
              what a judge asks

benchmarks/bucket_requests.py measures the same.
"""

from __future__ import annotations

from swarm.config import Settings
from swarm.records.asked import DAY, RequestCounts, price_at
from swarm.store.bucket.log import SEALED_LATEST, SEALED_SELDOM

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
