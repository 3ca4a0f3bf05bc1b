"""`swarm top`: a run live in the terminal, or as plain text where no terminal is."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.flags import CommonFlags, open_experiment, open_experiment_when_there, settings_to_look
from swarm.cli.say import print_result
from swarm.extras import lacking
from swarm.node.process.host import this_process
from swarm.plugins.top.frame import Frame, render
from swarm.plugins.top.reader import TopReader

REFRESH_SECONDS = 1.0
LEAST_SECONDS = 0.2


def top(
    *,
    experiment_flags: CommonFlags | None = None,
    watch: Annotated[float | None, Parameter("--watch", validator=Number(gte=LEAST_SECONDS))] = None,
) -> None:
    """Watch a swarm live: round and time left, each node's state and curve, who learns from whom.

    Where the output is no terminal one frame is printed as text, or with --watch one after the other.

    Args:
        experiment_flags: which experiment; one that is not there yet is waited for.
        watch: Seconds between two frames. [default: 1 on a terminal]
    """
    settings = settings_to_look(experiment_flags)
    live = sys.stdout.isatty() and sys.stdin.isatty()
    run = open_experiment_when_there(settings) if live or watch else open_experiment(settings)
    reader = TopReader(run, liveness_timeout=settings.cadence.liveness_timeout, here=this_process())
    if live:
        _run_app(reader, watch or REFRESH_SECONDS)
        return
    while print_result(reader.look(time.time()).frame, _as_text, as_json=False) and watch:
        sys.stdout.write("\n")
        time.sleep(watch)


def _as_text(frame: Frame) -> str:
    return render(frame, shutil.get_terminal_size((120, 40)).columns)


def _run_app(reader: TopReader, every: float) -> None:
    try:
        from swarm.plugins.top.app import TopApp
    except ImportError:
        raise lacking(
            "`swarm top` in a terminal", "textual", "top", "`swarm status --watch` shows the same as text"
        ) from None
    TopApp(reader, every, time.time).run()
