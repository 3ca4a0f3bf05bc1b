"""Does the file server's clock agree with ours?"""

from __future__ import annotations

from collections.abc import Iterator

from swarm.views.doctor.check_context import CheckContext
from swarm.views.doctor.finding import Area, Finding

AREA = Area("clocks")
TOLERATED = 5.0
"""Seconds. Nodes judge each other by change, not by time, so this only skews what people see: ages and delays."""


def check(context: CheckContext) -> Iterator[Finding]:
    """A file made now is as old as it should be."""
    if context.probe is not None:
        yield judge(context.server_skew)


def judge(skew: float) -> Finding:
    """The figure as a finding."""
    measured = f"a file made now is {skew:+.2f} s off this host's clock"
    if abs(skew) <= TOLERATED:
        return AREA.ok("file server", measured)
    return AREA.warning(
        "file server", measured, "let this host and the file server keep time: timedatectl set-ntp true"
    )
