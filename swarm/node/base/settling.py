"""Decides when workers that are started one after the other begin together. Pure.

    nobody is active ──the first is──▶ settling ──▶ begin: one is active, nobody who was counted is starting, and a
                                          │         │      settling time has passed since the last new name;
                                          │         │      or all that were `known` before are active
                                          └─────────┴───── at the latest after the longest time

A name counts once, when it is first seen: a node that crashes and comes back restarts no wait. Names cost a stranger
nothing, so the whole wait has a longest time. It counts from when the first worker was active.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from swarm.config import Settings, variable

MOST_COUNTED = 4096
"""Names that can prolong a wait."""
INTERVALS = 2
"""The longest wait, in round intervals."""


class SettlingWait(NamedTuple):
    """Says which workers the beginning waits for, and until when."""

    starting: frozenset[str]
    """Workers that load their models."""
    until: float | None
    """When it begins if nothing new happens, seconds as of `look`'s `now`; None: a worker has to be ready first."""
    latest: float | None
    """When it begins at the latest; None: as long as nobody is ready, nobody waits."""


def in_words(settings: Settings) -> dict[str, str]:
    """Returns, for the log, when the beginning is over and how to go without it."""
    return {
        "opens": f"{settings.seconds_to_settle:g} s after the last new worker, once all are ready; "
        f"{INTERVALS * settings.round_interval:g} s after the first is ready at the latest",
        "skip": f"give {variable('expected_workers')} a number or names, or set {variable('settle_time')}=0",
    }


class Settling:
    """One beginning, of one observer."""

    def __init__(self, settle_time: float, longest: float, known: frozenset[str] = frozenset()) -> None:
        """Begin to wait.

        Args:
            settle_time: seconds without a new name.
            longest: seconds after the first worker was active.
            known: workers of the run's last rounds; once all of them are active, nobody else is waited for.
        """
        self._settle_time = settle_time
        self._longest = longest
        self._known = known
        self._counted: set[str] = set()
        self._last_new = 0.0
        self._first_active: float | None = None

    def look(self, now: float, starting: Set[str], active: Set[str]) -> SettlingWait | None:
        """Takes note of a look, and returns what is waited for; None: begin.

        Args:
            now: monotonic seconds.
            starting: live workers that are not ready yet.
            active: live workers that are.
        """
        new = (starting | active) - self._counted
        if new and len(self._counted) < MOST_COUNTED:
            self._counted |= new
            self._last_new = now
        if active and self._first_active is None:
            self._first_active = now
        latest = None if self._first_active is None else self._first_active + self._longest
        loading = frozenset(starting & self._counted)
        if not active or latest is None:
            return SettlingWait(loading, None, latest)
        settled = self._last_new + self._settle_time
        if now >= latest or (self._known and self._known <= active):
            return None
        if loading:
            return SettlingWait(loading, latest, latest)
        return SettlingWait(loading, min(settled, latest), latest) if now < settled else None
