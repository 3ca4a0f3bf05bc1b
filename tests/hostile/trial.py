"""Each exploit twice in one throw-away process: bare, where it has to work, and confined, where it must not.

python -m tests.hostile.trial FOLDER        one JSON line per exploit; markers are made in FOLDER

bare        a fork calls reasoning-gym's scorer as it is, under a limit on the one thing that it uses up
confined    the same call in `run_bounded`, with `sandbox.enter` but without the literal parsers that the nine tasks
            get besides: what is tested is the last line of defence
"""

from __future__ import annotations

import functools
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swarm.tasks import sandbox
from swarm.tasks.bounded import Emit, Limits, run_bounded
from tests.hostile.exploits import EXPLOITS, Exploit

HANGING_CPU_S = 0.25
"""Honest scoring takes some 5 ms: what needs more is a hang, and is ended there."""
BARE_CPU_S = 60.0
"""Of what is to come to its end, however slow the machine."""
BLOATED = 2 * Limits().memory_bytes
"""Bytes resident, more than a confined child may have: what has grown so far bloats, and is ended there."""
LIMITS = Limits(cpu_s=1, wall_s=60.0)


def main() -> None:
    """Try all of them."""
    folder = Path(sys.argv[1])
    listener = _listener()
    for exploit in EXPLOITS.values():
        score = functools.partial(_score, exploit, *_entry(exploit.dataset))
        found = {
            "bare": _observe(functools.partial(_bare, exploit), score, folder / "bare-marker", listener),
            "confined": _observe(_confined, score, folder / "confined-marker", listener),
        }
        sys.stdout.write(json.dumps({"exploit": exploit.name, **found}) + "\n")
        sys.stdout.flush()


@functools.cache
def _entry(dataset: str) -> tuple[Any, dict[str, Any]]:
    from reasoning_gym import create_dataset

    made = create_dataset(dataset, seed=1, size=1)
    entry = made[0]
    _warm_up(made, entry)
    return made, entry


def _warm_up(dataset: Any, entry: dict[str, Any]) -> None:
    """What is imported at the first scoring has to be there: a confined child can import nothing."""
    dataset.score_answer(entry["answer"] or "P", entry)
    dataset.score_answer("1 + 1", entry)


def _listener() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    return listener


Score = Callable[[str, int], float]
Attempt = Callable[[Callable[[], float]], dict[str, Any]]


def _score(exploit: Exploit, dataset: Any, entry: dict[str, Any], marker: str, port: int) -> float:
    """The scorer's verdict with the payload planted."""
    payload, answer, entry = exploit.filled(marker, port), entry["answer"], {**entry, "metadata": {**entry["metadata"]}}
    if exploit.where == "answer":
        answer = payload
    elif exploit.where == "ground truth":
        entry["answer"] = payload
    else:
        entry["metadata"][exploit.field] = payload
    return float(dataset.score_answer(answer, entry))


def _observe(attempt: Attempt, score: Score, marker: Path, listener: socket.socket) -> dict[str, Any]:
    """What an attempt did: its own findings, and whether it left a marker or a connection."""
    start = time.monotonic()
    found = attempt(functools.partial(score, str(marker), listener.getsockname()[1]))
    planted = marker.exists()
    marker.unlink(missing_ok=True)
    return {**found, "seconds": time.monotonic() - start, "harmed": planted or _connected(listener)}


def _connected(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _bare(exploit: Exploit, score: Callable[[], float]) -> dict[str, Any]:
    cpu_s = HANGING_CPU_S if exploit.harm == "hangs" else BARE_CPU_S

    def job(emit: Callable[[str], object]) -> None:
        if exploit.harm == "bloats":
            signal.signal(signal.SIGALRM, lambda *_: _own_bytes() < BLOATED or os._exit(0))
            signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        signal.setitimer(signal.ITIMER_PROF, cpu_s)  # SIGPROF ends the process, in the middle of C code too
        emit(_verdict(score))

    said, usage, status = _in_a_fork(job)
    return {
        "verdict": said,
        "hung": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF,
        "mb": _grown_mb(usage),
    }


def _confined(score: Callable[[], float]) -> dict[str, Any]:
    def inside(emit: Emit) -> None:
        sandbox.enter()
        emit(b"entered")
        emit(_verdict(score).encode())

    def job(emit: Callable[[str], object]) -> None:
        frames = run_bounded(inside, LIMITS)
        emit("\n".join(frame.decode() for frame in frames))

    said, usage, _ = _in_a_fork(job)
    lines = said.splitlines()
    entered = lines.index("entered")
    return {"stderr": " ".join(lines[:entered]), "verdict": " ".join(lines[entered + 1 :]), "mb": _grown_mb(usage)}


def _verdict(score: Callable[[], float]) -> str:
    """The reward as text, or what was raised."""
    try:
        return repr(score())
    except Exception as error:  # noqa: BLE001 - what it is, is the finding
        return f"raised {type(error).__name__}"


def _in_a_fork(job: Callable[[Callable[[str], object]], None]) -> tuple[str, resource.struct_rusage, int]:
    """What a forked child said by emit and on stderr, what it used, its children included, and how it ended."""
    read_fd, write_fd = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.dup2(write_fd, 2)
        job(lambda text: os.write(write_fd, text.encode() + b"\n"))
        os._exit(0)
    os.close(write_fd)
    _, status, usage = os.wait4(child, 0)
    with open(read_fd, "rb") as stream:
        os.set_blocking(read_fd, False)
        said = stream.read() or b""
    return said.decode(errors="replace").strip(), usage, status


def _grown_mb(usage: resource.struct_rusage) -> float:
    """Resident memory at its peak, on top of what this process has itself."""
    return max(0.0, usage.ru_maxrss * 1024 - _own_bytes()) / 2**20


def _own_bytes() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()
