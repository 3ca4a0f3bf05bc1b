"""Do readers see a replaced file whole, always, and at once? Everything that nodes tell each other rests on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from swarm.views.doctor.check_context import CheckContext
from swarm.views.doctor.finding import Area, Finding

AREA = Area("rename")
BYTES = 64 * 1024
SECONDS = 0.4
"""Of replacing while another thread reads."""
FEWEST_READS = 20


class Renaming(msgspec.Struct):
    """What a reader saw while a writer replaced one file again and again."""

    renames: int = 0
    reads: int = 0
    torn: int = 0
    """Reads that got neither the old version nor the new one."""
    missing: int = 0
    """Reads that found no file, though there was one before and after."""
    late: int = 0
    """Renames after which the writer itself still saw the old version."""
    problem: str = ""
    """A rename over an existing file that failed."""


def check(context: CheckContext) -> Iterator[Finding]:
    """A rename over an existing file works, is atomic, and is seen at once."""
    if context.probe is not None:
        yield from judge(measure(context.probe, SECONDS))


def measure(probe: Path, seconds: float) -> Renaming:
    """Replace a file for some time while a thread reads it. Every version is one byte value repeated."""
    seen, target, half = Renaming(), probe / "replaced" / "target.json", probe / "replacing.tmp"
    target.parent.mkdir()
    target.write_bytes(bytes(BYTES))
    over = threading.Event()
    reader = threading.Thread(target=_read_on, args=(target, over, seen), daemon=True)
    reader.start()
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            _replace(target, half, seen)
    except OSError as error:
        seen.problem = str(error.strerror or error)
    finally:
        over.set()
        reader.join()
    return seen


def _replace(target: Path, half: Path, seen: Renaming) -> None:
    version = bytes([(seen.renames + 1) % 251]) * BYTES
    half.write_bytes(version)
    half.rename(target)
    seen.renames += 1
    seen.late += _read(target) != version


def _read(target: Path) -> bytes | None:
    try:
        return target.read_bytes()
    except FileNotFoundError:
        return None


def _read_on(target: Path, over: threading.Event, seen: Renaming) -> None:
    while not over.is_set():
        try:
            data = _read(target)
        except OSError:  # ESTALE of NFS: the version that was opened has been replaced; the next read opens the new one
            continue
        seen.reads += data is not None
        seen.missing += data is None
        seen.torn += data is not None and not is_whole(data)


def is_whole(data: bytes) -> bool:
    """One version of the file and nothing else."""
    return len(data) == BYTES and data.count(data[:1]) == BYTES


def judge(seen: Renaming) -> Iterator[Finding]:
    """The counts as findings."""
    other = "use another --path, such as a local disk with Syncthing: here a file cannot be replaced in one step"
    figures = f"{seen.renames} renames, {seen.reads} reads: {seen.torn} torn, {seen.missing} missing, {seen.late} late"
    if seen.problem:
        yield AREA.failure("over an existing file", seen.problem, other)
    elif seen.torn or seen.missing:
        yield AREA.failure("atomic", figures, other)
    elif seen.late:
        fix = "switch the mount's cache off (NFS: actimeo=0,lookupcache=none; rclone: --dir-cache-time 1s)"
        yield AREA.warning("seen at once", figures, fix)
    elif seen.reads < FEWEST_READS:
        yield AREA.warning(
            "atomic", f"{figures}; too few to tell", "run swarm doctor again while the folder is less busy"
        )
    else:
        yield AREA.ok("atomic and seen at once", figures)
