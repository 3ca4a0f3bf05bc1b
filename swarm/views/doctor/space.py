"""Is there room for what the run will still write?"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import msgspec

from swarm.records.read import read_state_or_problem
from swarm.views.doctor.check_context import CheckContext
from swarm.views.doctor.finding import Area, Finding
from swarm.views.doctor.probe import nearest_existing
from swarm.views.doctor.sizes import size

AREA = Area("space")
GROWING = ("rollouts", "rewards", "winners", "logs", "judge")
"""Parts that every round adds to; checkpoints are replaced."""
BYTES_PER_COMPLETION, BYTES_PER_ROW, FILES_PER_ROUND = 1024, 16 * 1024, 3
"""The guess before the first round: text of a completion with its prompt; a metrics row, events and small files."""
FLOOR = 64 * 2**20
"""Bytes that should be free whatever the run needs."""
TEMPORARY_FLOOR = 256 * 2**20
"""Bytes for locks, model files and answers being scored."""


class Room(msgspec.Struct, frozen=True):
    """Free space and what it has to hold."""

    free: int
    """Bytes that this user may still write."""
    inodes: int | None
    """Files that may still be made; None where there is no such limit."""
    per_round: float
    """Bytes per round."""
    files_per_round: float
    rounds_left: int
    guessed: bool
    """The rates are a guess, for no round is done yet."""
    checkpoint: int = 0
    """Bytes of all checkpoints: new ones are written before old ones go."""
    temporary: int = TEMPORARY_FLOOR
    """Bytes free in the temporary folder."""
    temporary_folder: str = ""


def check(context: CheckContext) -> Iterator[Finding]:
    """Free space and inodes of the folder, and of the temporary one."""
    yield from judge(measure(context))


def measure(context: CheckContext) -> Room:
    """Ask the file systems, and take the rates from the rounds so far."""
    place = os.statvfs(nearest_existing(context.layout.path))
    rounds = _rounds_done(context)
    per_round, files = _rates(context, rounds) if rounds else _guess(context)
    temporary = _temporary()
    return Room(
        free=place.f_bavail * place.f_frsize,
        inodes=place.f_favail if place.f_files else None,
        per_round=per_round,
        files_per_round=files,
        rounds_left=max(0, _rounds_wanted(context) - rounds),
        guessed=not rounds,
        checkpoint=context.survey.bytes_by_part["checkpoints"] if context.there else 0,
        temporary=temporary[1],
        temporary_folder=temporary[0],
    )


def _rounds_done(context: CheckContext) -> int:
    state, _ = read_state_or_problem(context.layout) if context.there else (None, "")
    working = max((watch.peer.round for watch in context.watched.nodes.values()), default=0) if context.there else 0
    return max(state.round if state else 0, working, 0)


def _rounds_wanted(context: CheckContext) -> int:
    state, _ = read_state_or_problem(context.layout) if context.there else (None, "")
    return (state.max_rounds if state else 0) or context.settings.max_rounds


def _rates(context: CheckContext, rounds: int) -> tuple[float, float]:
    survey = context.survey
    files = sum(survey.files_by_part[part] for part in GROWING if part != "logs")
    return sum(survey.bytes_by_part[part] for part in GROWING) / rounds, files / rounds


def _guess(context: CheckContext) -> tuple[float, float]:
    settings = context.settings
    completions = settings.most_local_groups * settings.generations
    per_worker = completions * BYTES_PER_COMPLETION + BYTES_PER_ROW
    return settings.expected_workers * per_worker, settings.expected_workers * FILES_PER_ROUND


def _temporary() -> tuple[str, int]:
    try:
        folder = tempfile.gettempdir()
        place = os.statvfs(folder)
    except OSError:  # FileNotFoundError: none of the usual places can be written
        return "", 0
    return folder, place.f_bavail * place.f_frsize


def judge(room: Room) -> Iterator[Finding]:
    """The figures as findings."""
    rate = f"{size(room.per_round)} a round{' (guessed)' if room.guessed else ''}"
    need = int(room.per_round * room.rounds_left) + room.checkpoint
    measured = f"{size(room.free)} free; {room.rounds_left} rounds of {rate} need {size(need)}"
    fix = "free space, ask for fewer rounds, or `swarm experiment clean` what is done with"
    if room.free < need or room.free < FLOOR // 8:
        yield AREA.failure("free space", measured, fix)
    elif room.free < 2 * need or room.free < FLOOR:
        yield AREA.warning("free space", measured, fix)
    else:
        yield AREA.ok("free space", measured)
    yield from _inodes(room)
    where = room.temporary_folder or "no temporary folder can be written"
    measured = f"{size(room.temporary)} free in {where}"
    if room.temporary < TEMPORARY_FLOOR:
        fix = "free space there, or set TMPDIR to another folder"
        judged = AREA.warning if room.temporary_folder else AREA.failure
        yield judged("temporary folder", measured, fix)
    else:
        yield AREA.ok("temporary folder", measured)


def _inodes(room: Room) -> Iterator[Finding]:
    if room.inodes is None:
        yield AREA.ok("inodes", "the file system has no such limit")
        return
    need = int(room.files_per_round * 1.5 * room.rounds_left)  # a round's folders come on top of its files
    measured = f"{room.inodes} free, the run needs {need} more"
    if room.inodes < need:
        yield AREA.failure("inodes", measured, "use a file system with more inodes, or ask for fewer rounds")
    else:
        yield AREA.ok("inodes", measured)
