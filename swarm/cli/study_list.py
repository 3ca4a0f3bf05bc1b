"""`swarm study list`: the studies of a shared folder, and how far they are."""

from __future__ import annotations

import os
from pathlib import Path

from swarm.cli.flags import CommonFlags, settings_from
from swarm.cli.say import say
from swarm.errors import ProtocolError
from swarm.study.record import open_run, read_study, studies
from swarm.study.run.run_folder import RunFollower
from swarm.views.text import printable, shorten, table


def list_studies(*, path: str | None = None) -> None:
    """Show the studies of a shared folder.

    Args:
        path: The shared folder.
    """
    folder = settings_from(CommonFlags(path=path), os.environ).shared_folder
    rows = [_row(folder, name) for name in studies(folder)]
    if not rows:
        say(f"no study in {folder}; begin one with `swarm study run`")
        return
    say(table(("study", "runs", "finished", "rounds", "configurations", "title"), rows, left=(0, 4, 5)))


def _row(folder: Path, name: str) -> list[str]:
    try:
        record = read_study(folder, name)
    except ProtocolError as error:
        return [shorten(name, 32), "-", "-", "-", "-", shorten(printable(str(error)), 60)]
    found = [RunFollower(open_run(folder, run.experiment)).read() for run in record.runs]
    finished = sum(run.is_finished(record.rounds) for run in found)
    names = shorten(" ".join(one.name for one in record.configurations), 40)
    share = sum(min(run.rounds_done, record.rounds) for run in found) / max(1, record.rounds * len(record.runs))
    return [shorten(name, 32), str(len(record.runs)), str(finished), f"{share:.0%}", names, shorten(record.title, 40)]
