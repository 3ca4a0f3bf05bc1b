"""Shows where an experiment stands, in a cell's output: text and HTML that are replaced again and again, without
widgets."""

from __future__ import annotations

import html
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from swarm.config import Settings, load_settings
from swarm.errors import ExperimentError, SwarmError
from swarm.harmless import printable_lines
from swarm.node.process.host import this_process
from swarm.plugins.notebook.background import OUTPUT, runs_in_background
from swarm.records.made_by import as_ours
from swarm.store.place import open_place
from swarm.views.status import Status, StatusReader, render

LINES = 8
"""Lines of that output, shown below the status."""
LONGEST_TAIL = 16_384
"""Bytes that are looked at for them."""
_STYLE = "white-space: pre; overflow-x: auto; line-height: 1.3; font-size: 12px"


def watch(path: str, name: str, every: float = 5.0) -> None:
    """Show where an experiment stands until it and what `%swarm background` started here are over.

    The stop button ends the looking, and nothing else.

    Args:
        path: the shared place, a folder or a bucket's URL.
        name: of the experiment.
        every: seconds between looks.

    Raises:
        ExperimentError: nobody is at work in it any more, and it is not finished.
    """
    look, show = _looks(load_settings({"path": path, "experiment": name}, os.environ)), _shows()
    idle = 0
    with suppress(KeyboardInterrupt):
        while True:
            runs = runs_in_background()  # before the look: what it wrote until then is seen
            status, text = look()
            show("\n\n".join(filter(None, (text, *_tail()))))
            if status is not None and status.finished and not runs:
                return
            idle = 0 if runs or (status is not None and any(node.live for node in status.nodes)) else idle + 1
            if idle > 1:  # twice: one may have ended, and its successor not begun
                raise ExperimentError(f"nobody is at work in {name} any more, and it is not finished: see above why")
            time.sleep(every)


def _looks(settings: Settings) -> Callable[[], tuple[Status | None, str]]:
    """Returns a function that gives the status and its text by now; None and what stands in the way."""
    readers: list[StatusReader] = []

    def look() -> tuple[Status | None, str]:
        try:
            if not readers:
                run = as_ours(open_place(settings.place).open(settings.experiment))
                readers.append(
                    StatusReader(run, liveness_timeout=settings.cadence.liveness_timeout, here=this_process())
                )
            status = readers[0].read(time.time())
        except SwarmError as error:
            return None, str(error)
        return status, render(status)

    return look


def _shows() -> Callable[[str], None]:
    """Returns a function that shows a text in place of the one before; outside of a notebook it prints it."""
    try:
        from IPython.core.getipython import get_ipython
        from IPython.display import display
    except ImportError:
        return print
    if get_ipython() is None:
        return print
    handle = display(_bundle(""), raw=True, display_id=True)
    return lambda text: handle.update(_bundle(text), raw=True)


def _bundle(text: str) -> dict[str, Any]:
    """Makes the output of a cell; what peers may have written stays text."""
    shown = printable_lines(text)
    return {"text/plain": shown, "text/html": f'<div style="{_STYLE}"><code>{html.escape(shown)}</code></div>'}


def _tail() -> list[str]:
    """Returns the last lines of what was started in the background; nothing where that is nothing."""
    try:
        with open(OUTPUT, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LONGEST_TAIL))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return ["\n".join([f"{OUTPUT}:", *(f"  {line}" for line in lines[-LINES:])])]
