"""Can the shared folder be written, and how fast?"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from swarm.errors import StoreError
from swarm.store.folder.publish import publish
from swarm.views.doctor.check_context import CheckContext
from swarm.views.doctor.finding import Area, Finding
from swarm.views.doctor.probe import nearest_existing

AREA = Area("folder")
ROLLOUT_BYTES = 60_000
"""Of a typical rollout file."""
TRIALS = 7
SLOW = 0.5
"""Seconds for a durable write, from which publishing shows in a round of a few seconds."""
SHARE_OF_ROUND = 0.25
"""Of the round interval; a node writes about four files in a round, one after another."""


class Writing(msgspec.Struct, frozen=True):
    """What trying to write showed."""

    there: bool
    """The shared folder exists."""
    problem: str
    """Why it cannot be written, empty if it can."""
    seconds: tuple[float, ...]
    """Of one durable write each: write, fsync, rename, fsync of the folder."""


def check(context: CheckContext) -> Iterator[Finding]:
    """Exists or can be made, writable, fast enough."""
    yield from judge(measure(context), str(context.layout.path), context.settings.round_interval)


def measure(context: CheckContext) -> Writing:
    """Write as nodes do, and take the time."""
    there = os.path.isdir(context.layout.path)
    if os.path.exists(context.layout.path) and not there:
        return Writing(False, f"{context.layout.path} is no folder", ())
    if context.probe is None:
        return Writing(there, context.probe_problem, ())
    try:
        return Writing(there, _blocked(context), tuple(_durable_write(context.probe, n) for n in range(TRIALS)))
    except StoreError as error:
        return Writing(there, str(error), ())


def _blocked(context: CheckContext) -> str:
    """Folders of the experiment that this user may not write in; the probe lies in only one of them."""
    layout = context.layout
    places = (layout.root, layout.state_file.parent, layout.peers, layout.rollouts, layout.rewards, layout.logs)
    closed = [str(place) for place in places if os.path.lexists(place) and not _may_write_in(place)]
    return f"no folders, or no permission to write in them: {', '.join(closed)}" if closed else ""


def _may_write_in(place: Path) -> bool:
    return os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)


def _durable_write(probe: Path, number: int) -> float:
    started = time.perf_counter()
    publish(probe / "written" / f"{number}.json", os.urandom(ROLLOUT_BYTES), probe / "half")
    return time.perf_counter() - started


def judge(writing: Writing, path: str, round_interval: float) -> Iterator[Finding]:
    """The figures as findings."""
    if writing.problem:
        fix = f"chmod u+rwx or remount read-write, free space, or name another folder: --path; the folder is {path}"
        yield AREA.failure("writable", writing.problem, fix)
        return
    made = (
        "exists and is writable" if writing.there else f"not there yet, can be made in {nearest_existing(Path(path))}"
    )
    yield AREA.ok("writable", made)
    took, limit = sorted(writing.seconds)[len(writing.seconds) // 2], SHARE_OF_ROUND * round_interval
    measured = (
        f"{took * 1e3:.1f} ms for {ROLLOUT_BYTES // 1000} kB with fsync and rename, median of {len(writing.seconds)}"
    )
    if took > limit:
        fix = f"use a faster folder, or COORDINATOR_ROUND_INTERVAL above {took / SHARE_OF_ROUND:.0f}"
        yield AREA.failure("write time", f"{measured}; rounds close after {round_interval:g} s", fix)
    elif took > SLOW:
        yield AREA.warning("write time", measured, "expect slow rounds; a local disk with a replication tool is faster")
    else:
        yield AREA.ok("write time", measured)
