"""`swarm experiment list` and `clean`: what experiments a shared folder holds, and getting rid of them."""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, settings_from
from swarm.cli.living import live_nodes
from swarm.cli.say import say
from swarm.errors import ConfigError, ExperimentError, ProtocolError, StoreError
from swarm.records.read import experiments, open_experiment, read_peers, read_state_or_problem
from swarm.study.record import read_study, studies
from swarm.views.finished import rounds_when_finished
from swarm.views.text import age, printable, shorten, table
from swarm.wire.layout import Layout


def list_experiments(*, path: str | None = None) -> None:
    """Show the experiments of a shared folder.

    Args:
        path: The shared folder.
    """
    folder = settings_from(CommonFlags(path=path), os.environ).shared_folder
    rows = [_row(Layout(folder, name), time.time()) for name in experiments(folder)]
    if not rows:
        say(f"no experiment in {folder}; begin one with `swarm up`")
        return
    say(table(("experiment", "round", "finished", "workers", "last activity", "size"), rows))


def _row(layout: Layout, now: float) -> list[str]:
    state, problem = read_state_or_problem(layout)
    peers, finished = read_peers(layout), rounds_when_finished(layout)
    seen = max([peer.last_seen for peer in peers] + ([state.updated_at] if state else []), default=None)
    return [
        shorten(layout.experiment, 48),
        f"{state.round}/{state.max_rounds}" if state else "torn" if problem else str(finished or "-"),
        "no" if finished is None else "yes",
        str(sum(peer.node_role == "worker" for peer in peers)),
        f"{age(max(0.0, now - seen))} ago" if seen is not None else "-",
        size_text(size_of(layout.root)),
    ]


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder; links are not followed, and what goes away meanwhile does not count."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_size
            except FileNotFoundError:
                continue
    return total


def size_text(size: float) -> str:
    """1.5 kB, 22 MB, ..."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def clean(
    name: Annotated[str, Parameter(help="The experiment.")],
    /,
    *,
    path: Annotated[str | None, Parameter(help="The shared folder.")] = None,
    rollouts: Annotated[bool, Parameter(help="Its rollouts.")] = False,
    checkpoints: Annotated[bool, Parameter(help="Its checkpoints: it cannot go on without them.")] = False,
    yes: Annotated[bool, Parameter(help="Do not ask.")] = False,
) -> int:
    """Delete an experiment, or only the parts named. Refused while any of its nodes is running."""
    settings = settings_from(CommonFlags(path=path, experiment=name), os.environ)
    layout = open_experiment(settings.shared_folder, settings.experiment)
    if live := live_nodes(layout, time.time(), settings.liveness_timeout):
        raise ExperimentError(f"{layout.root} is in use by {', '.join(live)}: stop them first")
    named = [part for part, chosen in ((layout.rollouts, rollouts), (layout.checkpoints, checkpoints)) if chosen]
    parts = [part for part in named or [layout.root] if os.path.lexists(part)]
    for part in parts:
        _refuse_link(part, layout)
    if not parts:
        say("there is nothing to delete")
        return 0
    if not named and (sharing := _studies_with(layout)):
        say(f"{layout.experiment} is a run of the study {' and of the study '.join(sharing)}, which will lack it")
    if not (yes or _asked(parts)):
        say("nothing was deleted")
        return 1
    for part in parts:
        _delete(part)
    return 0


def _studies_with(layout: Layout) -> list[str]:
    """Studies that count on this experiment; one may have taken over another's runs."""
    found = []
    for study in studies(layout.path):
        with suppress(ProtocolError):  # a record that cannot be read names no run
            if layout.experiment in {run.experiment for run in read_study(layout.path, study).runs}:
                found.append(study)
    return found


def _refuse_link(part: Path, layout: Layout) -> None:
    """A link may lead anywhere; what lies there is not this experiment's to delete."""
    inside = part.relative_to(layout.path)
    if part.resolve() != layout.path.resolve() / inside:
        raise StoreError(
            f"{part} leads to {part.resolve()}, out of the shared folder: delete it there, and the link here"
        )


def _asked(parts: list[Path]) -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to be asked: delete with --yes")
    what = ", ".join(f"{printable(str(part))} ({size_text(size_of(part))})" for part in parts)
    return input(f"delete {what}? [y/N] ").strip().lower() in ("y", "yes")


def _delete(part: Path) -> None:
    size = size_of(part)
    try:
        shutil.rmtree(part)  # links inside are removed, not followed
    except OSError as error:
        raise StoreError(f"cannot delete all of {part}: {error.strerror or error} ({error.filename})") from None
    say(f"deleted {part} ({size_text(size)})")
