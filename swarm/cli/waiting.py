"""Waits for what others have to make, visibly."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from swarm.cli.flags import open_experiment
from swarm.cli.say import warn
from swarm.config import Settings
from swarm.spelling import did_you_mean, named
from swarm.store.place import open_place
from swarm.store.run import Run

Found = TypeVar("Found")
POLL_SECONDS = 0.25
SAID_EVERY = 30.0
"""Seconds between two lines that say that one waits; the first comes at once."""


def wait_for(look: Callable[[], Found | None], what: str, patience: float | None = None) -> Found | None:
    """Look again and again until something is found, and say on standard error what is waited for.

    Args:
        what: the rest of `waiting for ...`.
        patience: seconds after which None is returned; None: never.
    """
    began, said = time.monotonic(), 0.0
    while not (found := look()):
        waited = time.monotonic() - began
        if patience is not None and waited >= patience:
            return None
        if waited >= said:
            warn(f"waiting for {what}{f' ({waited:.0f} s)' if said else ''}; Ctrl-C ends this")
            said += SAID_EVERY
        time.sleep(POLL_SECONDS)
    return found


def open_experiment_when_there(settings: Settings) -> Run:
    """Returns the experiment that the settings name, to read it, as soon as somebody has begun it."""
    place = open_place(settings.place)
    there = place.experiments
    what = f"the experiment {settings.experiment} in {place.describe()}"
    others = f", there are {named(found)}{did_you_mean(settings.experiment, found)}" if (found := there()) else ""
    wait_for(lambda: settings.experiment in there() or None, what + others)
    return open_experiment(settings)
