"""A server of a test's own: started until it answers, killed with -9, started again with what it had."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


class Killable:
    """A command that serves, whose words go nowhere."""

    def __init__(self, command: Sequence[str | Path], answers: Callable[[], bool], **options: object) -> None:
        """Starts nothing yet.

        Args:
            answers: tells whether it does; an OSError is no.
            options: of the process, as Popen has them.
        """
        self._command = command
        self._answers = answers
        self._options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | options
        self._running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers."""
        self._running = subprocess.Popen(self._command, **self._options)  # type: ignore[call-overload]
        while True:
            with suppress(OSError):
                assert self._answers()
                return
            assert self._running is not None
            assert self._running.poll() is None, "the server ended"
            time.sleep(0.02)

    def kill(self) -> None:
        """With -9, in whatever it does."""
        if self._running is not None:
            self._running.kill()
            self._running.wait()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Started for the block, and killed at its end."""
        try:
            self.start()
            yield
        finally:
            self.kill()
