"""Measures in a probe folder whether renames are atomic and file events are delivered."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from swarm.store.health import Delivery, Renaming

BYTES = 64 * 1024
SECONDS = 0.4
"""Seconds of replacing while another thread reads."""
TRIALS = 5
PATIENCE = 1.5
"""Seconds that an event is waited for."""
_RENAME = "import os, sys; os.rename(sys.argv[1], sys.argv[2])"
_Heard = queue.SimpleQueue[str | Exception]
"""Names that events tell of, "" where the watcher is at work, and what ended it."""


# ── replacing ───────────────────────────────────────────────────────────────────────────────────────────────────────
def try_renaming(probe: Path, seconds: float = SECONDS) -> Renaming:
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


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def try_delivery(probe: Path) -> Delivery:
    """Rename files into a folder that a thread watches as nodes do, from this process and from another one."""
    watched, heard, over = probe / "watched", _Heard(), threading.Event()
    watched.mkdir()
    watcher = threading.Thread(target=_watch, args=(watched, over, heard), daemon=True)
    watcher.start()
    try:
        delivery = Delivery(problem=_why_it_does_not_watch(heard))
        if not delivery.problem:
            for number in range(TRIALS):
                _try(delivery, delivery.own, _rename_here, watched / f"{number}.json", heard)
            _try(delivery, delivery.others, _rename_elsewhere, watched / "other.json", heard)
        return delivery
    finally:
        over.set()
        watcher.join(PATIENCE)


def _watch(folder: Path, over: threading.Event, heard: _Heard) -> None:
    try:
        import watchfiles  # here, and not at the start: it is most of what this command would import

        from swarm.store.folder.watch import OPTIONS

        for changes in watchfiles.watch(folder, stop_event=over, **OPTIONS):
            for name in ("", *(Path(path).name for _, path in changes)):
                heard.put(name)
    except Exception as error:  # noqa: BLE001 - the boundary of a library that fails in many ways
        heard.put(error)


def _why_it_does_not_watch(heard: _Heard) -> str:
    try:
        first = heard.get(timeout=2 * PATIENCE)
    except queue.Empty:
        return "the watcher did not start"
    return str(first) or (type(first).__name__ if isinstance(first, Exception) else "")


def _try(
    delivery: Delivery, took: list[float], rename: Callable[[Path, Path], None], target: Path, heard: _Heard
) -> None:
    half = target.parent.with_name(f"{target.name}.tmp")
    half.write_bytes(b"{}")
    started = time.monotonic()
    rename(half, target)
    if _is_heard_of(target.name, heard):
        took.append(time.monotonic() - started)
    else:
        delivery.lost += 1


def _is_heard_of(name: str, heard: _Heard) -> bool:
    """Wait until an event names this file; False if none does in time."""
    deadline = time.monotonic() + PATIENCE
    while (left := deadline - time.monotonic()) > 0:
        with contextlib.suppress(queue.Empty):
            if heard.get(timeout=left) == name:
                return True
    return False


def _rename_here(half: Path, target: Path) -> None:
    half.rename(target)


def _rename_elsewhere(half: Path, target: Path) -> None:
    call = [sys.executable, "-I", "-S", "-c", _RENAME, os.fspath(half), os.fspath(target)]
    with contextlib.suppress(subprocess.TimeoutExpired):  # whether it was renamed or not: nobody was woken in time
        subprocess.run(call, check=False, stderr=subprocess.DEVNULL, timeout=PATIENCE)
