"""The JSON of a message."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from swarm.harmless import printable
from swarm.plugins.notify.troubles import Change


class Message(msgspec.Struct, frozen=True):
    """Holds what has changed since the message before."""

    experiment: str
    path: str
    """The shared place."""
    time: float
    """Unix seconds."""
    text: str
    """All changes for people, a line each."""
    changes: list[Change]


def message(experiment: str, path: str, wall: float, found: Sequence[Change]) -> bytes:
    """Returns a message as one line of JSON."""
    text = "\n".join(f"{printable(experiment)}: {one.text}" for one in found)
    return msgspec.json.encode(Message(experiment, path, wall, text, [*found])) + b"\n"
