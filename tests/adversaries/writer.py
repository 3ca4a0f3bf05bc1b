"""Puts one attack after the other into a running experiment, ten a second, over and over, until it is ended.

    python -m tests.adversaries.writer worker-0 worker        # the victim, and how the names of honest workers begin

Without those that remove what a node has written: against deletion nothing is promised.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from contextlib import suppress

from swarm.config import load_settings
from tests.adversaries.attacks import ONCE, PLACES, Target
from tests.layout import Layout

PAUSE_S = 0.1
NOT_YET_THERE = ("next rollouts", "next reward", "next checkpoint", "temporary files")


def removes(name: str) -> bool:
    """Whether an attack puts something in the place of a file that its node has written."""
    place = name.partition(":")[0]
    return place in PLACES and place not in NOT_YET_THERE


def main() -> None:
    settings = load_settings({}, os.environ)
    target = Target(Layout(settings.shared_folder, settings.experiment), victim=sys.argv[1], honest=sys.argv[2])
    attacks = [attack for name, attack in ONCE.items() if not removes(name)]
    for tick in itertools.count():
        for attack in attacks:
            with suppress(OSError):  # nothing is there yet
                attack(target, tick)
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
