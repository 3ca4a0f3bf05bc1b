"""The children in which peers' answers are scored: which bars the kernel puts up around them here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence

import msgspec

from swarm import forms
from swarm.children import child_environment, module_command
from swarm.systems import missing
from swarm.tasks.bars import Bar
from swarm.views.doctor.check import Area, CheckContext, Finding

AREA = Area("scoring")
LONGEST = 30.0
"""Seconds until a child that says nothing is given up."""
_FIX = (
    "without it a hostile answer meets the limits and the audit hook alone: use a kernel that has it, or give nodes a "
    "user and container of their own"
)


def check(context: CheckContext) -> Iterator[Finding]:
    """Yields the bars; none where no node runs."""
    if not missing():
        yield from judge(measure())


def measure() -> Sequence[Bar] | str:
    """Put up the bars in a child, as a scoring server does; why it could not be asked, if so."""
    try:
        asked = subprocess.run(
            module_command("swarm.tasks.bars"),
            env=child_environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST,
        )
        return forms.decode(asked.stdout, list[Bar])
    except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError) as error:
        return f"the child that puts them up failed: {error}"


def judge(bars: Sequence[Bar] | str) -> Iterator[Finding]:
    """One finding for those that are up, one for each that is not."""
    if isinstance(bars, str):
        yield AREA.warning("bars", bars, "run `python -P -m swarm.tasks.bars` to see why")
        return
    if up := [f"{bar.name} ({bar.detail})" for bar in bars if bar.up]:
        yield AREA.ok("bars", ", ".join(up))
    for bar in bars:
        if not bar.up:
            yield AREA.warning(bar.name, f"not up: {bar.detail}", _FIX)
