"""What a tree of processes takes: memory shared out fairly, and CPU time. Linux only."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections import defaultdict
from pathlib import Path

_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


def tree(root: int) -> list[int]:
    """The process and all its descendants that are alive."""
    children: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        children[int(after_name[1])].append(int(stat.parent.name))
    found, todo = [], [root]
    while todo:
        found.append(todo.pop())
        todo += children[found[-1]]
    return found


def proportional_memory(pids: list[int]) -> int:
    """Bytes resident, pages that several processes share counted once all told (PSS)."""
    total = 0
    for pid in pids:
        try:
            match = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
        except OSError:
            continue
        total += 1024 * int(match[1]) if match else 0
    return total


class MemoryWatch:
    """Samples the memory of a process tree until the process ends."""

    def __init__(self, process: subprocess.Popen[bytes], every: float = 0.5) -> None:
        self._process = process
        self._every = every
        self.samples: list[tuple[float, int]] = []
        """Unix seconds and bytes."""
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def wait(self) -> int:
        """The exit code, when all has ended."""
        code = self._process.wait()
        self._thread.join()
        return code

    def _watch(self) -> None:
        while self._process.poll() is None:
            if taken := proportional_memory(tree(self._process.pid)):
                self.samples.append((time.time(), taken))
            time.sleep(self._every)
