"""`swarm down`: end a swarm of this machine, however it was started and whatever became of its `swarm up`."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, settings_from
from swarm.cli.processes import UP, Running, all_running, running
from swarm.cli.say import say
from swarm.config import Settings
from swarm.errors import ConfigError
from swarm.systems import require_for

GRACE = 60.0
KILLED_WITHIN = 10.0
"""Seconds within which the kernel ends a process that was killed."""
POLL_SECONDS = 0.05


def down(
    *,
    timeout: Annotated[float, Parameter(help="Seconds for a node to finish its step and save.")] = GRACE,
    experiment_flags: CommonFlags | None = None,
) -> int:
    """End the nodes of an experiment that this user runs on this machine, those whose `swarm up` was killed too.

    They are asked once, as by Ctrl-C, and killed after the timeout. Exit 1 if one is still there.
    """
    require_for("`swarm down`")
    if not 0 <= timeout < float("inf"):
        raise ConfigError(f"--timeout: expected seconds from 0 on, got {timeout}")
    settings = settings_from(experiment_flags)
    any_found = left = False
    while not left:  # again: a node may have started while its `swarm up` was asked
        with running(settings) as found:
            if not found:
                break
            any_found, left = True, not end(found, timeout)
    if not any_found:
        say(_nothing(settings))
    return int(left)


def end(found: Sequence[Running], timeout: float) -> bool:
    """Ask, wait, insist; whether all of them have ended."""
    for process in _to_be_asked(found):
        say(f"ending {process.file.title}")
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGCONT)  # a stopped one hears nothing
    late = _wait(found, timeout)
    for process in sorted(late, key=lambda process: process.file.role != UP):  # first who would start others again
        say(f"killing {process.file.title}: it did not end within {timeout:g} s")
        process.signal(signal.SIGKILL)
    left = _wait(late, KILLED_WITHIN)
    for process in left:
        say(f"{process.file.title} is still there")
    return not left


def _to_be_asked(found: Sequence[Running]) -> list[Running]:
    """Returns each but the nodes of a `swarm up` that is there: it passes the signal on, and a second one ends them at
    once."""
    ups = {process.file.pid for process in found if process.file.role == UP}
    return [process for process in found if process.file.parent not in ups]


def _wait(processes: Sequence[Running], seconds: float) -> list[Running]:
    """Waits for some processes, and returns those that have not ended by then."""
    deadline = time.monotonic() + seconds
    left = list(processes)
    while left := [process for process in left if not process.ended()]:
        if time.monotonic() >= deadline:
            break
        time.sleep(POLL_SECONDS)
    return left


def _nothing(settings: Settings) -> str:
    """Returns the message for somebody who named a swarm that is not there."""
    others = sorted({f"--path {file.path} --experiment {file.experiment}" for file in all_running()})
    said = f"no process of {settings.experiment} in {settings.place} runs here as this user"
    return f"{said}; these do: {', '.join(others)}" if others else said
