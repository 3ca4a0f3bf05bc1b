"""What processes leave in memory, and which ones are left."""

from __future__ import annotations

import os
import resource
from pathlib import Path


def resident_mb(pid: int) -> float:
    """0 for a process that has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * resource.getpagesize() / 2**20


def descendants(mark: str) -> set[int]:
    """Processes with this TMPDIR in their environment, other than this one."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"TMPDIR={mark}\0".encode() in (process / "environ").read_bytes()
        except OSError:
            continue
        if marked and int(process.name) != os.getpid():
            found.add(int(process.name))
    return found
