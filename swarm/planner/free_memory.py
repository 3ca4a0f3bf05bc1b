"""Free memory of this machine, as far as this process may use it: the one reader of it. All sizes are bytes.

/proc/meminfo ──smallest──▶ free, total
the control groups (v1, v2) from this process's own up to the root ──┘
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from swarm.types import MemoryUse


def host_memory(root: Path = Path("/")) -> tuple[int, int]:
    """Free and total memory that this process may use: what the machine has, or its control groups allow.

    Raises:
        OSError: the system does not tell, as Windows.
    """
    memory = _meminfo(root / "proc/meminfo")
    free, total = memory["MemAvailable"], memory["MemTotal"]
    for used, limit in _cgroup_limits(root):
        free, total = min(free, max(0, limit - used)), min(total, limit)
    return free, total


def process_memory(root: Path = Path("/")) -> MemoryUse | None:
    """Returns how much of the machine's memory this process holds, its resident set; None where the system does not
    tell."""
    try:
        status = _sizes(root / "proc/self/status")
        free, total = host_memory(root)
        return MemoryUse(allocated=status["VmRSS"], peak=status["VmHWM"], total=total, free=free)
    except (OSError, KeyError):
        return None


def _meminfo(file: Path) -> dict[str, int]:
    """Values of /proc/meminfo, in bytes; where there is none (not Linux), what sysconf knows. Raises OSError."""
    try:
        return _sizes(file)
    except OSError:
        if not hasattr(os, "sysconf"):
            raise OSError(errno.ENOTSUP, "this system does not tell how much memory it has") from None
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return {"MemAvailable": total, "MemTotal": total}


def _sizes(file: Path) -> dict[str, int]:
    """Returns the lines `Name: 123 kB` of a file, in bytes. Raises OSError."""
    parts = (line.partition(":") for line in file.read_text("utf-8").splitlines())
    return {name: int(rest.split()[0]) * 1024 for name, _, rest in parts if rest.endswith(" kB")}


def _cgroup_limits(root: Path) -> Iterator[tuple[int, int]]:
    """(used, limit) of every control group above this process that limits memory; reclaimable cache is not used."""
    for group, used, limit in _cgroup_files(root):
        try:
            held, allowed = int((group / used).read_text("utf-8")), int((group / limit).read_text("utf-8"))
            statistics = dict(line.split() for line in (group / "memory.stat").read_text("utf-8").splitlines())
        except (OSError, ValueError):  # no such group, or `max`: no limit
            continue
        cache = int(statistics.get("total_inactive_file", statistics.get("inactive_file", 0)))
        yield max(0, held - cache), allowed


def _cgroup_files(root: Path) -> Iterator[tuple[Path, str, str]]:
    """(folder, file of use, file of limit) from this process's group up to the root, of both versions."""
    try:
        lines = (root / "proc/self/cgroup").read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        names = ("memory.usage_in_bytes", "memory.limit_in_bytes") if controllers else ("memory.current", "memory.max")
        folder = mount / path.lstrip("/")
        for above in (folder, *folder.parents[: len(folder.parts) - len(mount.parts)]):
            yield above, *names
