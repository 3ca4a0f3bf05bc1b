"""`swarm status`: the round and every node of an experiment, once or every two seconds."""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated

import msgspec
from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, settings_from
from swarm.node.process.host import this_process
from swarm.store.place import open_place
from swarm.views.status import Status, StatusReader, render

REFRESH_SECONDS = 2.0
_CLEAR = "\x1b[2J\x1b[H"


def status(
    *, common: CommonFlags | None = None, watch: bool = False, as_json: Annotated[bool, Parameter("--json")] = False
) -> None:
    """Show the round and every node of an experiment.

    Args:
        common: which experiment.
        watch: Refresh every 2 seconds until Ctrl-C.
        as_json: JSON instead of a table; with --watch, one line per refresh.
    """
    settings = settings_from(common, os.environ)
    run = open_place(settings.shared_folder).open(settings.experiment)
    reader = StatusReader(run, liveness_timeout=settings.liveness_timeout, here=this_process())
    while True:
        _show(reader.read(time.time()), as_json=as_json, clear=watch and sys.stdout.isatty())
        if not watch:
            return
        time.sleep(REFRESH_SECONDS)


def _show(status: Status, *, as_json: bool, clear: bool) -> None:
    text = msgspec.json.encode(status).decode() if as_json else render(status)
    sys.stdout.write(f"{_CLEAR if clear and not as_json else ''}{text}\n")
    sys.stdout.flush()
