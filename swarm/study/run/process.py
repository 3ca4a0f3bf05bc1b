"""A process that does not outlive this one.

A study that is killed cannot ask its swarms to stop, so the kernel does (Linux): they get a SIGTERM, finish their step
and save. Elsewhere they go on, and the next `study run` waits for them.

The kernel sends one for each thread of the study that ends, and a swarm takes a second one for "at once": a process
that starts others by this has a single thread.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def start_with_us(command: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a process whose output is appended to `log`.

    It is in a session of its own: a Ctrl-C in the terminal is for us to pass on.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with(os.getpid()) if sys.platform == "linux" else None,
        )


def _end_with(parent: int) -> Callable[[], None]:
    libc = ctypes.CDLL(None)  # loaded here: between fork and exec as little as possible is done

    def ask_the_kernel() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it ended before we had asked
            os._exit(128 + signal.SIGTERM)

    return ask_the_kernel
