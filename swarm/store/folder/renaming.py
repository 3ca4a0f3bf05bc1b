"""Measures whether readers see a replaced file whole and at once, as all that nodes tell each other rests on it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from swarm.store.health import Renaming

BYTES = 64 * 1024
SECONDS = 0.4
"""Of replacing while another thread reads."""


def measure(probe: Path, seconds: float = SECONDS) -> Renaming:
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
