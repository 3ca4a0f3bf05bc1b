"""The voice of `swarm up`."""

from __future__ import annotations

from contextlib import suppress


def say(text: str) -> None:
    """Print a line. A terminal that went away, or a reader that has seen enough, must not end a swarm of days."""
    with suppress(OSError):
        print(text, flush=True)  # noqa: T201 - the command's own voice
