"""Tells a command or a webhook, look by look, what has changed; the entry point of `swarm.notify`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from swarm.cli.say import warn
from swarm.harmless import printable
from swarm.plugins.notify.targets import Send, UndeliveredError, target
from swarm.plugins.notify.troubles import Change, RunTrouble, changes, troubles
from swarm.store.base import Room
from swarm.store.run import Run
from swarm.views.status import Status

MOST = 64
"""Changes of one message; the others come with the next look."""
PAUSE = 60.0
"""Seconds after a message that was not taken before the next one."""


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


def notifier(text: str, run: Run) -> Callable[[Status], None]:
    """Returns what is to be called with each status of a run. Raises ConfigError: nobody can be told so."""
    return Notifier(target(text), lambda: run.store.facts().room).look


class Notifier:
    """Remembers what was told; what was not taken is told again later, if it still holds."""

    def __init__(
        self,
        send: Send,
        room: Callable[[], Room | None],
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        say: Callable[[str], None] = warn,
    ) -> None:
        self._send, self._room = send, room
        self._wall, self._monotonic, self._say = wall, monotonic, say
        self._told: dict[RunTrouble, str] = {}
        self._not_before = 0.0
        self._failing = False

    def look(self, status: Status) -> None:
        """Tells what has begun or is over since the last message that was taken."""
        now = troubles(status, self._room(), self._told)
        found = changes(self._told, now, status)[:MOST]
        if not found or self._monotonic() < self._not_before:
            return
        try:
            self._send(message(status.experiment, status.path, self._wall(), found))
        except UndeliveredError as error:
            self._not_before = self._monotonic() + PAUSE
            if not self._failing:
                self._say(f"--notify: nobody was told: {error}; the watch goes on, and tries again every {PAUSE:.0f} s")
            self._failing = True
            return
        self._failing = False
        for one in found:
            if one.well:
                del self._told[RunTrouble(one.what, one.node)]
            else:
                self._told[RunTrouble(one.what, one.node)] = one.text
