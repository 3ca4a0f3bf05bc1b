"""The process that reads hostile files, and nothing else: what it uses, it uses for reading.

    campaign ──a kind of file──▶ read ──outcome, time, memory──▶ campaign

Run as `python -m tests.fuzz.reading_process FOLDER` with one JSON request per line on stdin; it ends with its stdin.
An audit hook counts what no reading of a file has any business to do.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
from pathlib import Path

import msgspec

from tests.fuzz.readers import read
from tests.layout import Layout

FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.remove", "os.rename", "os.mkdir", "os.chmod")
FORBIDDEN_FAMILIES = ("subprocess.", "socket.", "ctypes.", "shutil.", "pty.", "webbrowser.")


REFERENCE = b"[" + b",".join([b"123456.5"] * 2**17) + b"]"
"""A good list of a mebibyte: what refusals are compared with, an eighth of the largest file that is read."""
QUICK_S = 0.005
"""Readings below are not compared."""


class Request(msgspec.Struct):
    """One file to read."""

    kind: str


class Answer(msgspec.Struct):
    """What came of it."""

    outcome: str = ""
    """The reason of the refusal, "" for what was taken."""
    crash: str = ""
    """The traceback of anything that is no refusal."""
    seconds: float = 0.0
    """Of processor time, as the machine may be busy with other things; the file lies in the page cache."""
    reference: float = 0.0
    """Seconds of processor time that plain decoding of REFERENCE took beside it; 0: too quick to be compared."""
    growth: int = 0
    """Bytes by which the process grew at the peak of this reading."""
    forbidden: int = 0
    """Audit events of FORBIDDEN so far."""
    rss: int = 0
    """Bytes resident."""


class _Watchman:
    """Counts forbidden events."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in FORBIDDEN or event.startswith(FORBIDDEN_FAMILIES) or (event == "open" and _writes(arguments)):
            self.seen += 1


def _writes(arguments: tuple[object, ...]) -> bool:
    mode = arguments[1] if len(arguments) > 1 else None
    return isinstance(mode, str) and any(letter in mode for letter in "wax+")


def main() -> None:
    """Serve until stdin ends."""
    layout, watchman = Layout(Path(sys.argv[1]), "exp"), _Watchman()
    meter = Meter()
    sys.addaudithook(watchman)
    for line in sys.stdin.buffer:
        answer = _answer(msgspec.json.decode(line, type=Request), layout, meter)
        answer.forbidden = watchman.seen
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


def _answer(request: Request, layout: Layout, meter: Meter) -> Answer:
    if not request.kind:
        gc.collect()
        return Answer(rss=meter.read("VmRSS"))
    answer = Answer()
    before = meter.restart()
    start = time.process_time()
    try:
        answer.outcome = read(request.kind, layout)
    except Exception:  # noqa: BLE001 - the boundary: anything that comes here is a finding
        answer.crash = traceback.format_exc()
    answer.seconds = time.process_time() - start
    answer.growth = meter.read("VmHWM") - before
    if answer.seconds > QUICK_S:
        answer.reference = min(_decode_reference() for _ in range(3))
    return answer


def _decode_reference() -> float:
    start = time.process_time()
    msgspec.json.decode(REFERENCE)
    return time.process_time() - start


class Meter:
    """Resident memory of this process, now and at its peak."""

    def __init__(self) -> None:
        self._status = os.open("/proc/self/status", os.O_RDONLY)
        self._reset = os.open("/proc/self/clear_refs", os.O_WRONLY)

    def restart(self) -> int:
        """Begin a new peak; returns the bytes resident now."""
        os.write(self._reset, b"5")
        return self.read("VmRSS")

    def read(self, what: str) -> int:
        """Bytes of VmRSS or, the peak, VmHWM."""
        status = os.pread(self._status, 4096, 0).decode()
        return int(status.partition(f"{what}:")[2].split(maxsplit=1)[0]) * 1024


if __name__ == "__main__":
    main()
