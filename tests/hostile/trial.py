"""Each exploit against reasoning-gym's own scorer in a bounded, confined child: the last line of defence.

    python -m tests.hostile.trial FOLDER        one JSON line per exploit; markers are made in FOLDER

The literal parsers that the nine tasks get besides are not there. What is said and found shows that an exploit is
alive, and that it came to nothing.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from reasoning_gym import create_dataset

from swarm.tasks import sandbox
from swarm.tasks.bounded import Emit, Limits, run_bounded
from tests.hostile.exploits import EXPLOITS, Exploit

LIMITS = Limits(cpu_s=1, wall_s=60.0)


def main(folder: str) -> None:
    """Try all of them."""
    marker, (said_fd, stderr_fd) = Path(folder) / "marker", os.pipe()
    os.set_blocking(said_fd, False)
    os.dup2(stderr_fd, 2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        for name, exploit in EXPLOITS.items():
            job = functools.partial(_score, exploit, *_entry(exploit.dataset), str(marker), listener.getsockname()[1])
            verdict = b"".join(run_bounded(job, LIMITS)).decode()
            found = {"verdict": verdict, "said": _read(said_fd), "harmed": marker.exists() or _connected(listener)}
            marker.unlink(missing_ok=True)
            sys.stdout.write(json.dumps({"exploit": name, **found}) + "\n")


@functools.cache
def _entry(dataset: str) -> tuple[Any, dict[str, Any]]:
    """A dataset and its entry, scored before: a confined child can import nothing."""
    made = create_dataset(dataset, seed=1, size=1)
    entry = made[0]
    for answer in (entry["answer"] or "P", "1 + 1"):
        made.score_answer(answer, entry)
    return made, entry


def _score(exploit: Exploit, dataset: Any, entry: dict[str, Any], marker: str, port: int, emit: Emit) -> None:
    """Emits the scorer's verdict with the payload planted, or what was raised; in the child."""
    payload, answer, entry = exploit.filled(marker, port), entry["answer"], {**entry, "metadata": {**entry["metadata"]}}
    if exploit.where == "answer":
        answer = payload
    elif exploit.where == "ground truth":
        entry["answer"] = payload
    else:
        entry["metadata"][exploit.field] = payload
    sandbox.enter()
    try:
        verdict = repr(float(dataset.score_answer(answer, entry)))
    except Exception as error:  # noqa: BLE001 - what it is, is the finding
        verdict = f"raised {type(error).__name__}"
    emit(verdict.encode())


def _read(fd: int) -> str:
    with suppress(BlockingIOError):
        return os.read(fd, 2**16).decode(errors="replace")
    return ""


def _connected(listener: socket.socket) -> bool:
    with suppress(BlockingIOError):
        listener.accept()[0].close()
        return True
    return False


if __name__ == "__main__":
    main(sys.argv[1])
