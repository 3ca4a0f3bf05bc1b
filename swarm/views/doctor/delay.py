"""Tells how late others see what a node published, as the nodes of a run have measured it, and what follows for a slow
place.

A place such as Google Drive shows new files minutes late. One machine alone cannot measure that: its own files are
there at once. So before anybody has trained on a peer's groups, the doctor goes by what such mounts are called.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import median

from swarm.config import Settings
from swarm.store.health import FileSystem
from swarm.views.doctor.check import Area, CheckContext, Finding
from swarm.views.text import age

DELAY = Area("delay")
CHECK = "from publication to pool"
SLOW = 10.0
"""Seconds, of the 99th percentile: a local network has less than one, Syncthing one."""
ROUND, TIMEOUT = 4, 3
"""Times the delay: a round takes the clock's, the rollouts' and the rewards' passage; heartbeats come in bulk."""
KEEPS_BACK = re.compile(
    r"drive|rclone|onedrive|dropbox|\bbox\b|gcsfuse|s3fs|goofys|blobfuse|hf-mount|icloud", re.IGNORECASE
)
"""Mounts of a cloud's storage, in their kind or in where they are mounted; their caches are minutes old at times."""


def check(context: CheckContext) -> Iterator[Finding]:
    """Judges the delays; nothing where requests are paid for: the bucket's own checks say it there."""
    if (folder := context.health.folder) is not None:
        found = chain.from_iterable(of.delays for of in context.logs.values())
        delays = [seconds for seconds in found if 0 <= seconds < math.inf]
        yield judge(delays, folder.file_system(), context.settings)


def judge(delays: Sequence[float], filesystem: FileSystem, settings: Settings) -> Finding:
    """Returns the seconds that nodes measured as a finding."""
    name = f"{filesystem.kind} at {filesystem.mount}" if filesystem.mount else filesystem.kind
    if not delays:
        if not filesystem.delivers_events and KEEPS_BACK.search(name):
            said = f"not measured yet, but {name} is known to show new files minutes late: a slow folder"
            return DELAY.warning(CHECK, said, _instead(settings, 180.0))
        return DELAY.ok(CHECK, "not measured yet: nobody has trained on a peer's groups")
    late = sorted(delays)[math.ceil(0.99 * len(delays)) - 1]
    measured = f"median {_seconds(median(delays))}, 99th percentile {_seconds(late)}, of {len(delays)} files"
    if late <= SLOW:
        return DELAY.ok(CHECK, measured)
    return DELAY.warning(CHECK, f"{measured}: {name} is a slow folder", _instead(settings, late))


def _seconds(delay: float) -> str:
    return f"{delay:.2g} s" if delay < SLOW else f"{delay:.0f} s"


def _instead(settings: Settings, delay: float) -> str:
    """Returns advice where others see what is written only after so many seconds."""
    return (
        f"let rounds last {age(ROUND * delay)} or more (COORDINATOR_ROUND_INTERVAL={ROUND * delay:.0f}) and set "
        f"SWARM_LIVENESS_TIMEOUT={TIMEOUT * delay:.0f}, or let each node keep its own clock (swarm up "
        "--no-coordinator). Better: run in a local folder or a bucket, and keep only a mirror here: "
        f"swarm copy LOCAL {settings.place} --experiment {settings.experiment} --follow"
    )
