"""Bounds of the connections themselves: how many are open, and how long one may take to ask and to listen.

    accepted ─▶ stranger ─ a request whose cookie or token is right ─▶ known
                  │ more than `room.strangers`: the one that came first goes     │ more than `room.known`: likewise
                  └─ no whole request within SECONDS_TO_ASK, an answer that nobody takes within SECONDS_TO_TAKE: goes

uvicorn bounds what it answers at once, and no connection before its request is whole. So its protocol is extended.
A stranger is answered as soon as it has asked; so many others cannot come between, since the system hands over
`room.backlog` connections at a time, a fraction of the strangers that there is room for.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS_TO_ASK = 10.0
"""From the connection, or the answer before, to the last byte of a request's head."""
SECONDS_TO_TAKE = 30.0
"""That an answer waits for its reader to take some of it."""
LET_IN = "swarm.let_in"
"""Key of a request's scope: what to call once it is known whose connection it is."""


class ConnectionRoom(NamedTuple):
    """Connections that are open at once."""

    strangers: int
    known: int
    backlog: int
    """That are accepted in one go."""


MOST = ConnectionRoom(strangers=384, known=192, backlog=96)
"""Some 24 tabs, with all connections that a browser opens; and strangers."""


def room(descriptors: float) -> ConnectionRoom:
    """Returns how many connections a process has room for that may open so many files: at most two thirds of them."""
    share = min(1.0, descriptors / 1024)
    return ConnectionRoom(*(max(4, int(part * share)) for part in MOST))


class Crowd:
    """The connections of one service."""

    def __init__(self, room: ConnectionRoom, to_ask: float = SECONDS_TO_ASK, to_take: float = SECONDS_TO_TAKE) -> None:
        self.to_ask = to_ask
        self.to_take = to_take
        self._room = room
        self._strangers: dict[_Bounded, None] = {}
        self._known: dict[_Bounded, None] = {}
        """In the order of coming."""

    def protocol(self, *given: Any, **named: Any) -> asyncio.Protocol:
        """Make what serves one connection, as uvicorn asks for it."""
        return _Bounded(self, *given, **named)

    def add(self, one: _Bounded) -> None:
        """A connection came."""
        _add(one, self._strangers, self._room.strangers)

    def let_in(self, one: _Bounded) -> None:
        """Lets a connection in whose request had the right cookie or token."""
        if one in self._strangers:
            del self._strangers[one]
            _add(one, self._known, self._room.known)

    def remove(self, one: _Bounded) -> None:
        """Removes a connection that is closed."""
        self._strangers.pop(one, None)
        self._known.pop(one, None)


def _add(one: _Bounded, among: dict[_Bounded, None], most: int) -> None:
    among[one] = None
    if len(among) > most:
        first = next(iter(among))
        del among[first]
        first.transport.abort()


class _Deadline:
    """Ends a connection some seconds after it began to run, unless it is stopped."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def run(self, one: _Bounded, seconds: float) -> None:
        self.stop()
        self._timer = one.loop.call_later(seconds, one.transport.abort)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Bounded(H11Protocol):
    """One connection."""

    def __init__(self, crowd: Crowd, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._crowd = crowd
        self._served = self.app
        self.app = self._serve
        self._asking, self._taking = _Deadline(), _Deadline()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A whole head is there."""
        self._asking.stop()
        await self._served({**scope, LET_IN: lambda: self._crowd.let_in(self)}, receive, send)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._crowd.add(self)
        self._asking.run(self, self._crowd.to_ask)

    def connection_lost(self, exc: Exception | None) -> None:
        self._asking.stop()
        self._taking.stop()
        self._crowd.remove(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._asking.run(self, self._crowd.to_ask)
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._taking.run(self, self._crowd.to_take)

    def resume_writing(self) -> None:
        self._taking.stop()
        super().resume_writing()
