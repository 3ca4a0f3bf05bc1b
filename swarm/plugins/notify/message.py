"""The JSON of a message."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from swarm.harmless import printable
from swarm.plugins.notify.troubles import Change


class ToldChange(msgspec.Struct, frozen=True):
    """One trouble that has begun, or is over."""

    what: str
    """`silent`, `behind`, `disk-75` or `disk-90`."""
    node: str
    """Empty: the shared place."""
    well: bool
    """It is over."""
    text: str
    """The same for people."""


class Message(msgspec.Struct, frozen=True):
    """Holds what has changed since the message before."""

    experiment: str
    path: str
    """The shared place."""
    time: float
    """Unix seconds."""
    text: str
    """All changes for people, a line each."""
    changes: list[ToldChange]


def message(experiment: str, path: str, wall: float, found: Sequence[Change]) -> bytes:
    """Returns a message as one line of JSON."""
    told = [ToldChange(one.trouble.what, one.trouble.node, one.well, one.text) for one in found]
    text = "\n".join(f"{printable(experiment)}: {one.text}" for one in told)
    return msgspec.json.encode(Message(experiment, path, wall, text, told)) + b"\n"
