"""Keeps views from ending a swarm that they only show: a view's failure is said once, with its type and place, and work
goes on."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swarm.cli.say import say


class Surviving:
    """Remembers which failures were said."""

    def __init__(self) -> None:
        self._said: set[tuple[str, str]] = set()

    @contextmanager
    def view(self, what: str) -> Iterator[None]:
        """Any failure of the block ends the block alone; one of the same type and place is said once.

        Args:
            what: the view, as people call it.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the nodes' work is worth more than its picture
            failure = (type(error).__name__, _place(error))
            if failure not in self._said:
                self._said.add(failure)
                say(f"{what} failed, the nodes go on: {failure[0]} at {failure[1]}: {str(error)[:500]}")


def _place(error: Exception) -> str:
    """Returns where an error was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"
