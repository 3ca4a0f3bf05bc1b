"""A shared folder: writing, its speed, and how late it is seen; free space against what the run will still
write, and what lies around; whether file events of other hosts arrive, by which nodes look sooner than they would; how
late others see what a node published.

A place such as Google Drive shows new files minutes late. One machine alone cannot measure that: its own files are
there at once. So before anybody has trained on a peer's groups, the doctor goes by what such mounts are called.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from swarm.config import Settings
from swarm.errors import ModelError
from swarm.planner.footprint import checkpoint_bytes
from swarm.planner.shape import model_shape
from swarm.records.files import read_clock
from swarm.records.growing import GrowingLines
from swarm.records.listing import nodes_with_logs
from swarm.records.table import Odd, columns, parse_rows
from swarm.store.base import Room
from swarm.store.health import MOST_ENTRIES, FileSystem, FolderHealth, Survey, Visibility, Writing
from swarm.store.run import Run
from swarm.views.doctor.check import CheckContext, Finding, failure, graded, ok, warning
from swarm.views.text import age, shorten, size
from swarm.wire import keys

SLOW = 0.5
"""Seconds for a durable write, from which publishing shows in a round of a few seconds."""
CACHED = 1.0
"""Seconds until others see what was written, from which a round of a minute shows it."""
SHARE_OF_ROUND = 0.25
"""Share of the round interval; a node writes about four files in a round, one after another."""


def check_writing(context: CheckContext) -> Iterator[Finding]:
    """Exists or can be made, writable, fast enough."""
    path, interval = context.settings.place, context.settings.round_interval
    if isinstance(context.health, FolderHealth):
        yield from judge_writing(context.health.writing(), path, interval)


def judge_writing(writing: Writing, path: str, round_interval: float) -> Iterator[Finding]:
    """Yields the figures as findings."""
    if writing.problem:
        fix = f"chmod u+rwx or remount read-write, free space, or name another folder: --path; the folder is {path}"
        yield failure("writable", writing.problem, fix)
        return
    made = "exists and is writable" if writing.there else f"not there yet, can be made in {writing.parent}"
    yield ok("writable", made)
    took, limit = median(writing.seconds), SHARE_OF_ROUND * round_interval
    measured = f"{took * 1e3:.1f} ms for 60 kB with fsync and rename, median of {len(writing.seconds)}"
    if took > limit:
        fix = f"use a faster folder, or COORDINATOR_ROUND_INTERVAL above {took / SHARE_OF_ROUND:.0f}"
        yield failure("write time", f"{measured}; rounds close after {round_interval:g} s", fix)
    else:
        fix = "expect slow rounds; a local disk with a replication tool is faster"
        yield graded("write time", measured, fix, warns=took > SLOW)


def check_visibility(context: CheckContext) -> Iterator[Finding]:
    """Whether what is written is seen at once, or late."""
    if isinstance(context.health, FolderHealth) and not context.health.problem:
        yield from judge_visibility(context.health.visibility())


def judge_visibility(seen: Visibility) -> Iterator[Finding]:
    """Judges how late a new file is read and listed, and how late one that takes the place of another."""
    of_each = (("read after write", seen.read), ("list after write", seen.listed))
    for check, took in (*of_each, ("read after replacement", seen.replaced)):
        late = sum(seconds > 0 for seconds in took)
        slowest = max(took)
        measured = f"{len(took) - late} of {len(took)} at once, the slowest after {slowest:.1f} s"
        fix = (
            "expect rounds that wait so long; switch off what caches before this place "
            "(NFS: actimeo=0,lookupcache=none; rclone: --dir-cache-time 1s; a CDN, proxy or gateway)"
        )
        caches = median(took) > 0 and slowest > CACHED  # one late look alone may be this machine's own
        yield graded(check, measured, fix, warns=caches, fails=math.isinf(slowest))


def check_events(context: CheckContext) -> Iterator[Finding]:
    """Tells whether events of other hosts arrive, by the kind of file system."""
    folder, interval = context.health, context.settings.cadence.reconcile_interval
    if not isinstance(folder, FolderHealth):
        return
    yield judge_filesystem(folder.file_system(), interval)
    if context.settings.cadence.watch == "off":
        yield ok("delivery", f"SWARM_WATCH=off: nodes list every {interval:g} s")


def judge_filesystem(filesystem: FileSystem, interval: float) -> Finding:
    """Tells whether other hosts' events can arrive at all."""
    where = f"{filesystem.kind} at {filesystem.mount}" if filesystem.mount else filesystem.kind
    if filesystem.delivers_events:
        return ok("file system", f"{where}: events arrive for all that this host writes")
    measured = f"{where}: no events for what other hosts write; nodes find it by listing, every {interval:g} s"
    return warning("file system", measured, "nothing breaks; for quicker rounds lower SWARM_RECONCILE_INTERVAL")


GROWING = ("rollouts", "rewards", "winners", "logs", "judge")
"""Parts that every round adds to; checkpoints are replaced."""
BYTES_PER_COMPLETION, BYTES_PER_ROW = 1024, 16 * 1024
"""The guess before the first round: text of a completion with its prompt; a metrics row, events and small files."""
FLOOR = 64 * 2**20
"""Bytes that should be free whatever the run needs."""
MOST_NODES = 4096
"""That checkpoints are counted for: whoever can write to the folder can register under any number of names."""
SHOWN = 3
ODD_FIX = "remove these objects by the provider's own tools: each listing steps around them"
KEPT = 2**20
"""Bytes of half-written files that nobody need mind."""


class RunNeed(NamedTuple):
    """Holds what the run will still write."""

    per_round: float
    """Bytes per round."""
    rounds_left: int
    guessed: bool
    """The rates are a guess, for no round is done yet."""
    checkpoints: int = 0
    """Bytes of checkpoints: of those to come, or, where they are there, once more, as new ones are written before old
    ones go."""


def check_space(context: CheckContext) -> Iterator[Finding]:
    """Free space of the place."""
    if isinstance(context.health, FolderHealth):
        yield from judge_space(context.health.room(), measure_need(context))


def measure_need(context: CheckContext) -> RunNeed:
    """Take the rates from the rounds so far."""
    state = read_clock(context.run).state if context.run else None
    working = [watch.peer.round for watch in context.watched.nodes.values()]
    rounds = max([state.round if state else 0, *working, 0])
    left = max(0, ((state.max_rounds if state else 0) or context.settings.max_rounds) - rounds)
    there = context.survey.bytes_by_part["checkpoints"] if context.run else 0
    checkpoints = max(there, expected_checkpoints(context) - there)
    if rounds:
        taken = sum(context.survey.bytes_by_part[part] for part in GROWING)
        return RunNeed(taken / rounds, left, False, checkpoints)
    settings = context.settings
    completions = settings.most_local_groups * settings.generations
    workers = _workers(context)
    taken = workers * (completions * BYTES_PER_COMPLETION + BYTES_PER_ROW)
    return RunNeed(taken, left, True, checkpoints)


def _workers(context: CheckContext) -> int:
    """Counts the workers that are expected; where nobody is by number or name, those that are registered, and one at
    least."""
    registered = sum(watch.peer.node_role == "worker" for watch in context.watched.nodes.values())
    return min(MOST_NODES, max(context.settings.expected_count or 1, registered))


def expected_checkpoints(context: CheckContext) -> int:
    """Returns bytes of those that all workers keep, by the models of the settings; 0 where a model's size cannot be
    known."""
    settings = context.settings
    nodes = _workers(context)
    try:
        shapes = [model_shape(name, hub_token=settings.hub_token) for name in settings.model]
        sizes = [checkpoint_bytes(shape, settings) for shape in shapes]
    except ModelError:  # the area of models says so
        return 0
    return settings.checkpoint_keep * sum(sizes[node % len(sizes)] for node in range(nodes))


def judge_space(room: Room, run: RunNeed) -> Iterator[Finding]:
    """Yields the figures as findings."""
    rate = f"{size(run.per_round)} a round{' (guessed)' if run.guessed else ''}"
    need = int(run.per_round * run.rounds_left) + run.checkpoints
    kept = f", {size(run.checkpoints)} of it for checkpoints" if run.checkpoints else ""
    measured = f"{size(room.free)} free; {run.rounds_left} rounds of {rate} need {size(need)}{kept}"
    fix = "free space, ask for fewer rounds, or `swarm experiment clean` what is done with"
    fails, warns = room.free < max(need, FLOOR // 8), room.free < max(2 * need, FLOOR)
    yield graded("free space", measured, fix, fails=fails, warns=warns)


def check_files(context: CheckContext) -> Iterator[Finding]:
    """Yields the survey."""
    if context.run and isinstance(context.health, FolderHealth):
        yield from judge_files(context.survey, context.alive)
    elif context.run:
        yield _none_of("names that no request can hold", context.survey.not_text, ODD_FIX)
        yield _use(context.survey)


def judge_files(survey: Survey, alive: set[str]) -> Iterator[Finding]:
    """Turns what the survey found into findings.

    Args:
        alive: nodes whose half-written files are their own business.
    """
    for check, found, fix in (
        (
            "conflict copies",
            survey.conflicts,
            "delete them; let one process alone write each file, and one tool alone replicate the folder",
        ),
        (
            "names not in UTF-8",
            survey.not_text,
            "delete them (ls -b shows them): one of them stops a file watcher",
        ),
        ("unreadable folders", survey.unreadable, "chmod u+rwx them, or run as the user who owns them"),
    ):
        yield _none_of(check, found, fix)
    yield _drafts(survey, alive)
    yield _use(survey)


def _none_of(check: str, found: Sequence[str], fix: str) -> Finding:
    if not found:
        return ok(check, "none")
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    named = ", ".join(shorten(name, 100) for name in sorted(found)[:SHOWN])
    return warning(check, f"{len(found)}: {named}{more}", fix)


def _drafts(survey: Survey, alive: set[str]) -> Finding:
    left = {node: taken for node, taken in survey.drafts_by_node.items() if node not in alive}
    total = sum(left.values())
    if total <= KEPT:
        return ok("half-written files", f"{size(total)} of nodes that do not run")
    names = sorted(left, key=lambda node: -left[node])[:SHOWN]
    named = ", ".join(f"{shorten(node, 40)} {size(left[node])}" for node in names)
    fix = "delete .tmp/{node} of nodes that stay away"
    return warning("half-written files", f"{size(total)} left: {named}", fix)


def _use(survey: Survey) -> Finding:
    parts = ", ".join(f"{part} {size(taken)}" for part, taken in survey.bytes_by_part.most_common())
    number = sum(survey.files_by_part.values())
    measured = f"{size(sum(survey.bytes_by_part.values()))} in {number} files{': ' if parts else ''}{parts}"
    if survey.complete:
        return ok("disk use", measured)
    fix = "clean up with `swarm experiment clean`: every node lists these folders again and again"
    return warning("disk use", f"more than {MOST_ENTRIES} entries; of the first ones: {measured}", fix)


PUBLISHED = "from publication to pool"
LATE = 10.0
"""Seconds, of the 99th percentile: a local network has less than one, Syncthing one."""
ROUND, TIMEOUT = 4, 3
"""Times the delay: a round takes the clock's, the rollouts' and the rewards' passage; heartbeats come in bulk."""
RECENT = 20
"""Rows of each node that are looked at: what was long ago is over."""
END = 2**20
"""Bytes of a log in which they are looked for."""
_DELAYS = columns("publish_to_pool")
KEEPS_BACK = re.compile(
    r"drive|rclone|onedrive|dropbox|\bbox\b|gcsfuse|s3fs|goofys|blobfuse|hf-mount|icloud", re.IGNORECASE
)
"""Mounts of a cloud's storage, in their kind or in where they are mounted; their caches are minutes old at times."""


def check_delay(context: CheckContext) -> Iterator[Finding]:
    """Judges the delays; nothing where requests are paid for: the bucket's own checks say it there."""
    if isinstance(context.health, FolderHealth):
        delays = measured_delays(context.run) if context.run else []
        yield judge_delay(delays, context.health.file_system(), context.settings)


def measured_delays(run: Run) -> list[float]:
    """Returns the delays in the last rows of all nodes: seconds from a file's publication until a node saw it."""
    ends = (GrowingLines(run.store, keys.metrics(node)).look_at_end(END) for node in nodes_with_logs(run))
    rows = (row for end in ends for row in parse_rows(end.records[-RECENT:], _DELAYS, Odd()))
    return [seconds for row in rows for seconds in row.publish_to_pool if 0 <= seconds < math.inf]


def judge_delay(delays: Sequence[float], filesystem: FileSystem, settings: Settings) -> Finding:
    """Returns the seconds that nodes measured as a finding."""
    name = f"{filesystem.kind} at {filesystem.mount}" if filesystem.mount else filesystem.kind
    if not delays:
        if not filesystem.delivers_events and KEEPS_BACK.search(name):
            said = f"not measured yet, but {name} is known to show new files minutes late: a slow folder"
            return warning(PUBLISHED, said, _instead(settings, 180.0))
        return ok(PUBLISHED, "not measured yet: nobody has trained on a peer's groups")
    late = sorted(delays)[math.ceil(0.99 * len(delays)) - 1]
    measured = f"median {_seconds(median(delays))}, 99th percentile {_seconds(late)}, of {len(delays)} files"
    if late <= LATE:
        return ok(PUBLISHED, measured)
    return warning(PUBLISHED, f"{measured}: {name} is a slow folder", _instead(settings, late))


def _seconds(delay: float) -> str:
    return f"{delay:.2g} s" if delay < LATE else f"{delay:.0f} s"


def _instead(settings: Settings, delay: float) -> str:
    """Returns advice where others see what is written only after so many seconds."""
    return (
        f"let rounds last {age(ROUND * delay)} or more (COORDINATOR_ROUND_INTERVAL={ROUND * delay:.0f}) and set "
        f"SWARM_LIVENESS_TIMEOUT={TIMEOUT * delay:.0f}, or let each node keep its own clock (swarm up "
        "--no-coordinator). Better: run in a local folder or a bucket, and keep only a mirror here: "
        f"swarm copy LOCAL {settings.place} --experiment {settings.experiment} --follow"
    )
