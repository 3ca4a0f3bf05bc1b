"""sd_notify(3): a service manager such as systemd hears that a node runs, that its event loop goes on, that it ends.

    NOTIFY_SOCKET ─▶ READY=1, once the event loop runs the node
                     WATCHDOG=1, twice in each WATCHDOG_USEC, from the event loop: one that hangs is silent, and the
                     manager starts the node again
                     STOPPING=1, when it finishes its step and saves

Without NOTIFY_SOCKET nothing is said to anybody, and a manager that does not listen troubles no node.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

import anyio

PINGS = 2
"""In each of the manager's intervals."""


class ServiceManager:
    """The manager that started this process, if one did."""

    def __init__(self, environ: Mapping[str, str], pid: int) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._pause = _watchdog_seconds(environ, pid) / PINGS

    async def keep_told(self) -> None:
        """Say that it runs, and that it goes on; until cancelled."""
        self.tell("READY=1")
        while self._address and self._pause:
            self.tell("WATCHDOG=1")
            await anyio.sleep(self._pause)

    def tell(self, state: str) -> None:
        """Say one thing, as sd_notify has it."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
            to.setblocking(False)  # a manager that does not read must not hold up the event loop
            to.sendto(state.encode(), self._address)


def _watchdog_seconds(environ: Mapping[str, str], pid: int) -> float:
    """Returns the manager's interval; 0: it keeps no watch, or one over another process."""
    if environ.get("WATCHDOG_PID", str(pid)) != str(pid):
        return 0.0
    value = environ.get("WATCHDOG_USEC", "")
    return int(value) / 1e6 if value.isdecimal() else 0.0


def service_manager() -> ServiceManager:
    """Returns this process's link to the service manager that the environment names."""
    return ServiceManager(os.environ, os.getpid())
