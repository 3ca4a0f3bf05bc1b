"""A process that looks for new rollouts as nodes do, with one thing gone wrong; prints what it finds, and when.

    python -m tests.integration.folder_looker FOLDER EXPERIMENT INTERVAL TROUBLE

Each line of its output is `name seconds`, on the clock that all processes of a Linux or macOS machine share. The name
`late` is no file's: so many seconds later than asked for has a plain sleep beside the looking ended.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
from anyio import to_thread

from swarm.records.listing import count_files
from swarm.store.base import Store
from swarm.store.place import open_place
from swarm.store.wake_ups import wake_ups
from swarm.wire import keys

CLONE_NEWUSER = 0x10000000
NEVER = 3600.0
LATE = "late"
PULSE = 0.05
UNAVAILABLE = 77
"""Exit status: this trouble cannot be made here; why is on the last line of stderr."""


def limit_inotify(**limits: int) -> None:
    """Lower inotify's limits for this process alone, in a user namespace of its own (user_namespaces(7))."""
    user, group = os.getuid(), os.getgid()
    try:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        for name, most in limits.items():
            Path(f"/proc/sys/user/{name}").write_text(str(most))
    except (OSError, AttributeError) as error:
        sys.stderr.write(f"no user namespace to lower inotify's limits in: {error}\n")
        sys.exit(UNAVAILABLE)


TROUBLES: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "off": lambda: None,
    "no_instances": lambda: limit_inotify(max_inotify_instances=0),
    "no_watches": lambda: limit_inotify(max_inotify_watches=1),
    "few_watches": lambda: limit_inotify(max_inotify_watches=8),
}


def listing(store: Store) -> set[str]:
    """Which node has published in which round and stage."""
    return {f"{key.round}/{key.stage}/{node}" for key, node in count_files(store, keys.ROLLOUTS).files}


async def measure_lateness() -> None:
    """Until killed: tell the longest time by which a sleep was late, and each that is longer."""
    longest = 0.0
    while True:
        begun = time.monotonic()
        await anyio.sleep(PULSE)
        late = time.monotonic() - begun - PULSE
        if late > longest:
            longest = late
            sys.stdout.write(f"{LATE} {late}\n")
            sys.stdout.flush()


async def live(store: Store, interval: float, *, events: bool) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(measure_lateness)
        await look(store, interval, events=events)


async def look(store: Store, interval: float, *, events: bool) -> None:
    """Until killed."""
    seen: set[str] = set()
    prefixes = [keys.STATE.partition("/")[0], keys.ROLLOUTS]
    async with wake_ups(store, prefixes, interval, anyio.sleep, hints=events) as wakes:
        async for _ in wakes:
            found = await to_thread.run_sync(listing, store)
            now = time.monotonic()
            for name in sorted(found - seen):
                sys.stdout.write(f"{name} {now}\n")
            sys.stdout.flush()
            seen |= found


if __name__ == "__main__":
    path, experiment, seconds, trouble = sys.argv[1:]
    TROUBLES[trouble]()
    place = open_place(path).open(experiment, writer="looker").store
    anyio.run(lambda: live(place, float(seconds), events=trouble != "off"))
