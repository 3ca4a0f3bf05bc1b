"""Lists the datasets of the installed reasoning-gym, and why some cannot be asked: `python -P -m swarm.tasks.gym`."""

from __future__ import annotations

import sys

from swarm.tasks.gym.names import REFUSED, modules

for dataset in modules():
    reason = REFUSED.get(dataset)
    sys.stdout.write(f"{dataset}    cannot be asked: {reason}\n" if reason else f"{dataset}\n")
