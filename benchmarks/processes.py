"""What a tree of processes takes: memory shared out fairly, and CPU time. Linux only. And programs for a block."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

GRACE = 30.0
"""Seconds in which a program may end by itself once it is asked to."""
_PSS = re.compile(r"^Pss(?:_Anon)?:\s+(\d+) kB", re.MULTILINE)
_PEAK = re.compile(r"^(?:VmHWM|RssFile|RssShmem):\s+(\d+) kB", re.MULTILINE)


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


def processor_seconds(root: int) -> float:
    """Of the process and its living descendants."""
    ticks = 0
    for pid in tree(root):
        with suppress(OSError):  # it ended meanwhile
            after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, after_name[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def proportional_memory(pids: list[int]) -> int:
    """Bytes resident, pages that several processes share counted once all told (PSS)."""
    return _shares(pids)[0]


def _shares(pids: list[int]) -> tuple[int, int]:
    """The same, and those of them that are no file's."""
    total = anonymous = 0
    for pid in pids:
        with suppress(OSError):  # it ended meanwhile
            found = _PSS.findall(Path(f"/proc/{pid}/smaps_rollup").read_text())
            if len(found) == 2:
                total, anonymous = total + 1024 * int(found[0]), anonymous + 1024 * int(found[1])
    return total, anonymous


def anonymous_peak(pid: int) -> int:
    """Bytes: the most that a process has held so far, by the kernel, without the pages of files that it has now."""
    with suppress(OSError):
        found = _PEAK.findall(Path(f"/proc/{pid}/status").read_text())
        if len(found) == 3:
            peak, files, shared = map(int, found)
            return 1024 * (peak - files - shared)
    return 0


class MemoryWatch:
    """Samples the memory of a process tree until the process ends."""

    def __init__(self, process: subprocess.Popen[bytes], every: float = 0.5) -> None:
        self._process = process
        self._every = every
        self.samples: list[tuple[float, int]] = []
        """Unix seconds and bytes."""
        self.anonymous = 0
        """Bytes: the largest sample without pages of files."""
        self.largest = 0
        """Bytes: the most that a single process has held, without pages of files."""
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def wait(self) -> int:
        """The exit code, when all has ended."""
        code = self._process.wait()
        self._thread.join()
        return code

    def _watch(self) -> None:
        while self._process.poll() is None:
            pids = tree(self._process.pid)
            taken, anonymous = _shares(pids)
            if taken:
                self.samples.append((time.time(), taken))
                self.anonymous = max(self.anonymous, anonymous)
                self.largest = max(self.largest, *map(anonymous_peak, pids))
            time.sleep(self._every)


@contextmanager
def running(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A program for the block, at whose end it is asked to end, and killed where it does not; options of Popen."""
    process: subprocess.Popen[bytes] = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """So many processes that take a core each, for the block."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
