"""A rehearsal: a few rounds of every configuration, from which the hours of a whole study are predicted. Pure.

    StudyRecord ─rehearsal_of─▶ StudyRecord of some rounds and a seed or more ─Runner─▶ rows, sizes
                                                                                           │ observed
    StudyRecord, rounds done ─▶ whole_seconds ◀── Rehearsal (rehearsal.json) ◀─────────────┘

It is run beside the study, by the same code, as many swarms at a time, and none of its runs counts: after it the
settings may still be changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, median, quantiles
from typing import Any

import msgspec

from swarm.config.own_code import plain
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.run.matrix import FREE, runs_of, stated
from swarm.plugins.study.run.schedule import seconds_of
from swarm.records.first_round import FirstRound, first_round
from swarm.wire.metrics import MetricsRow

ROUNDS = 10
SAVED_EVERY = 5
"""Rounds between two checkpoints at the most, so that one is among the rounds that are timed."""
SHARE = 0.1
"""Share of a study's rounds: a rehearsal that takes more is not begun by itself."""
FILE = "rehearsal.json"


class RehearsedPace(msgspec.Struct, frozen=True):
    """Says how long one configuration takes, in seconds."""

    least: float
    """Seconds of a round."""
    most: float
    once: float
    """Seconds of a run beside its rounds but the first: its start, the first round, its end."""


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """Holds what a rehearsal showed."""

    of: dict[str, Any]
    """The study that it stands for: `identity`."""
    rounds: int
    at_once: int
    """Swarms."""
    paces: dict[str, RehearsedPace]
    """By configuration."""
    start: FirstRound | None
    """Round 0, of the configuration with the most groups of its own."""
    all_rounds: FirstRound | None
    """All rounds of all runs."""
    last_reward: float = 0.0
    """Mean of the last round of all runs, per node."""
    memory_peak: int = 0
    """Bytes that the nodes of a swarm held of their device at the most; 0: not known."""
    memory_total: int = 0
    checkpoint_bytes: int = 0
    """Bytes of one run, the largest: those of one round."""
    round_bytes: float = 0.0
    """Bytes of one run and round, the largest."""


class Observed(msgspec.Struct, frozen=True):
    """One run of a rehearsal that is finished."""

    configuration: str
    seconds: float
    """From its start to its end."""
    rows: list[MetricsRow]
    """Rows of all its nodes."""
    checkpoint_bytes: int
    other_bytes: int


def rehearsal_of(record: StudyRecord, at_once: int) -> StudyRecord:
    """Returns the first rounds of all configurations, with as many seeds as it takes for so many swarms at a time."""
    seeds = record.seeds[: max(1, -(-at_once // len(record.configurations)))]
    interval = int(stated(record)["checkpoint_interval"])
    return msgspec.structs.replace(
        record,
        rounds=min(ROUNDS, record.rounds),
        seeds=seeds,
        settings={**record.settings, "checkpoint_interval": min(SAVED_EVERY, interval)},
        runs=runs_of(record.study, record.configurations, seeds),
    )


def pays(record: StudyRecord) -> bool:
    """A rehearsal is a small part of the study."""
    rehearsed = min(ROUNDS, record.rounds) * len(record.configurations)
    return rehearsed <= SHARE * record.rounds * len(record.runs)


def identity(record: StudyRecord, at_once: int) -> dict[str, Any]:
    """Returns what decides how long a round of a study takes and what it earns, as JSON has it."""
    shared = {name: value for name, value in stated(record).items() if name not in FREE}
    ones = {one.name: one.settings for one in record.configurations}
    whole = {"nodes": record.nodes, "judged": record.judged, "at_once": at_once, "settings": shared, "of": ones}
    whole |= {"sizes": record.sizes} if record.sizes else {}
    read_back: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plain(whole)))
    return read_back


def observed(of: Mapping[str, Any], runs: Sequence[Observed], at_once: int, generations: int) -> Rehearsal:
    """Sums up these runs: at least one, each with two rounds or more.

    Args:
        of: `identity` of the study.
        generations: completions per group (G).
    """
    rows = [row for run in runs for row in run.rows]
    rounds = 1 + max(row.round for row in rows)
    most = max(runs, key=lambda run: sum(row.local_groups for row in run.rows))
    known = [row for row in rows if isinstance(row.memory_peak, int) and isinstance(row.memory_total, int)]
    last = [row.my_reward for row in rows if row.round == rounds - 1]
    return Rehearsal(
        of=dict(of),
        rounds=rounds,
        at_once=at_once,
        paces={name: _pace([run for run in runs if run.configuration == name]) for name in _names(runs)},
        start=first_round([row for row in most.rows if row.round == 0], 0, generations),
        all_rounds=first_round(rows, 0, generations),
        last_reward=fmean(last) if last else 0.0,
        memory_peak=max((int(row.memory_peak or 0) for row in known), default=0),
        memory_total=max((int(row.memory_total or 0) for row in known), default=0),
        checkpoint_bytes=max(run.checkpoint_bytes for run in runs),
        round_bytes=max(run.other_bytes / rounds for run in runs),
    )


def _names(runs: Iterable[Observed]) -> list[str]:
    return list(dict.fromkeys(run.configuration for run in runs))


def _pace(runs: Sequence[Observed]) -> RehearsedPace:
    """Estimates the pace from the lower quartile of its rounds to the upper one, or to what they take if all groups
    teach something."""
    timed = [_rounds(run.rows) for run in runs]
    seconds = [took for of_run in timed for took, _ in of_run]
    full = [whole for of_run in timed for _, whole in of_run if whole is not None]
    lower, _, upper = quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else (*seconds, 0.0, *seconds)
    mean = fmean(seconds)
    once = [run.seconds - sum(took for took, _ in of_run) for run, of_run in zip(runs, timed, strict=True)]
    return RehearsedPace(min(lower, mean), max(upper, mean, median(full) if full else 0.0), max(0.0, fmean(once)))


def _rounds(rows: Sequence[MetricsRow]) -> list[tuple[float, float | None]]:
    """Returns for each round but the first the seconds from the end of the one before, and what they would be with all
    groups trained on; None: nothing was trained on, so that nobody knows."""
    numbers = sorted({row.round for row in rows})
    of_round = {number: [row for row in rows if row.round == number] for number in numbers}
    ends = {number: max(row.timestamp for row in of_round[number]) for number in numbers}
    return [(ends[b] - ends[a], _if_all_train(ends[b] - ends[a], of_round[b])) for a, b in pairwise(numbers)]


def _if_all_train(seconds: float, rows: Sequence[MetricsRow]) -> float | None:
    """Estimates the seconds if all groups were trained on: in one process one node computes at a time, so that their
    updates add up."""
    trained = sum(row.local_groups * (1 - row.zero_advantage_local) + row.external_groups for row in rows)
    asked = sum(row.local_groups + row.external_wanted for row in rows)
    if trained <= 0:
        return None
    return seconds + sum(row.seconds_train for row in rows) * max(0.0, asked / trained - 1)


def whole_seconds(
    rehearsal: Rehearsal, record: StudyRecord, rounds_done: Mapping[str, int], at_once: int
) -> tuple[float, float]:
    """Returns the least and the most that what is left of a study takes.

    Args:
        rounds_done: by experiment.
    """
    runs = [
        (rehearsal.paces[run.configuration], left)
        for run in record.runs
        if (left := record.rounds - rounds_done.get(run.experiment, 0)) > 0
    ]
    least = seconds_of((pace.once + (left - 1) * pace.least for pace, left in runs), at_once)
    return least, seconds_of((pace.once + (left - 1) * pace.most for pace, left in runs), at_once)


def disk_bytes(rehearsal: Rehearsal, record: StudyRecord) -> int:
    """Estimates the bytes that all runs leave: the checkpoints that each keeps, and what its rounds add."""
    kept = int(stated(record)["checkpoint_keep"])
    one = min(kept, record.rounds) * rehearsal.checkpoint_bytes + record.rounds * rehearsal.round_bytes
    return int(len(record.runs) * one)
