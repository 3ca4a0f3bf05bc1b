"""`swarm experiment list` and `clean`: what experiments a shared folder holds, and getting rid of them."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, PathFlag, settings_from
from swarm.cli.live import beating_elsewhere
from swarm.cli.say import asked, say, warn
from swarm.config.place import is_url
from swarm.errors import ConfigError, ExperimentError, ProtocolError, StoreError, SwarmError
from swarm.harmless import printable
from swarm.node.process.host import this_process
from swarm.records.files import read_peers
from swarm.records.listing import MOST_LOOKED_INTO, entries, size_of
from swarm.records.liveness import is_alive
from swarm.records.made_by import as_ours
from swarm.records.reader import RunSnapshot, snapshot
from swarm.store.base import Kind
from swarm.store.place import Place, open_place
from swarm.store.run import Run
from swarm.views.studies import reader_of, studies
from swarm.views.text import age, shorten, size, table
from swarm.wire import keys

_CHECKPOINTS = (
    "Its checkpoints: a node that goes on has the weights of its model at first again, but for the rounds that it can "
    "redo (SWARM_REDO_ROUNDS)."
)
WRITER = "clean"
"""Who deletes."""


def named_flags(name: str | None, experiment_flags: CommonFlags | None) -> CommonFlags:
    """Returns the flags with the experiment that was named, by its name or by --experiment."""
    experiment_flags = experiment_flags or CommonFlags()
    if name is not None and experiment_flags.experiment is not None:
        raise ConfigError(f"name one experiment, got {name} and --experiment {experiment_flags.experiment}")
    return experiment_flags if name is None else replace(experiment_flags, experiment=name)


def list_experiments(*, path: PathFlag = None) -> None:
    """Show the experiments of a shared folder."""
    place = open_place(settings_from(CommonFlags(path=path)).place)
    there = place.experiments()
    rows = [_row_of(place, name) for name in there[:MOST_LOOKED_INTO]]
    if not rows:
        say(f"no experiment in {place.describe()}; begin one with `swarm up`")
        return
    names = ("experiment", "round", "finished", "workers", "last activity", "size", "made by")
    shown = len(names) if any(row[-1] for row in rows) else len(names) - 1
    say(table(names[:shown], [row[:shown] for row in rows], left=(0, len(names) - 1)))
    if more := len(there) - len(rows):
        say(f"and {more} more: `swarm status --experiment NAME` shows one")


def _row_of(place: Place, name: str) -> list[str]:
    """Returns a row for an experiment that cannot be read, too; a link is not followed."""
    if place.is_link(name):
        return [shorten(name, 48), "link", "-", "-", "-", "-", ""]
    try:
        return _row(snapshot(as_ours(place.open(name))), time.time())
    except SwarmError as error:
        return [shorten(name, 48), "-", "-", "-", shorten(str(error), 60), "-", ""]


def _row(now: RunSnapshot, wall: float) -> list[str]:
    state, over = now.state, now.finished
    seen = max([p.last_seen for p in now.peers.values()] + ([state.updated_at] if state else []), default=None)
    return [
        shorten(now.run.experiment, 48),
        f"{state.round}/{state.max_rounds}" if state else "torn" if now.problem else _rounds(now),
        "no" if over is None else "yes",
        str(len(now.workers)),
        f"{age(max(0.0, wall - seen))} ago" if seen is not None else "-",
        _size_of(now.run),
        now.made_by,
    ]


def _rounds(now: RunSnapshot) -> str:
    """Returns the rounds of a run without a coordinator's clock, as text."""
    over = now.finished
    return str(over.rounds if over else now.rounds_done if now.made_by else "-")


def _size_of(run: Run, part: str = "") -> str:
    found = size_of(run.store, part)
    return size(found.bytes) if found.whole else f"over {size(found.bytes)}"


def live_nodes(run: Run, wall: float, liveness_timeout: float) -> list[str]:
    """Returns nodes that run at `wall`, Unix seconds, sorted; see is_alive."""
    here = this_process()
    return [peer.peer_id for peer in read_peers(run) if is_alive(peer, wall, liveness_timeout, here)]


def clean(
    name: Annotated[str | None, Parameter(help="The experiment; one has to be named, here or by --experiment.")] = None,
    /,
    *,
    experiment_flags: CommonFlags | None = None,
    rollouts: Annotated[bool, Parameter(help="Its rollouts.")] = False,
    checkpoints: Annotated[bool, Parameter(help=_CHECKPOINTS)] = False,
    yes: Annotated[bool, Parameter(help="Do not ask.")] = False,
) -> int:
    """Delete an experiment, or only the parts named. Refused while any of its nodes is running."""
    named = named_flags(name, experiment_flags)
    if named.experiment is None:  # what is deleted is never what the settings happen to say
        raise ConfigError("name the experiment to delete: swarm experiment clean NAME")
    settings = settings_from(named)
    place = open_place(settings.place)
    place.require(settings.experiment)
    run = place.open(settings.experiment, writer=WRITER)
    if live := live_nodes(run, time.time(), settings.cadence.liveness_timeout) or beating_elsewhere(run, settings):
        raise ExperimentError(f"{run.store.describe()} is in use by {', '.join(live)}: stop them first")
    chosen = [part for part, wanted in ((keys.ROLLOUTS, rollouts), (keys.CHECKPOINTS, checkpoints)) if wanted]
    parts = [part for part in chosen if _is_there(run, part)] if chosen else [""]
    if not parts:
        say("there is nothing to delete")
        return 0
    if not chosen and not is_url(settings.place) and (sharing := _studies_with(settings.shared_folder, run)):
        say(f"{run.experiment} is a run of the study {' and of the study '.join(sharing)}, which will lack it")
    sizes = {part: _size_of(run, part) for part in parts}
    archive = run.archive if not chosen and run.archive and any(entries(run.archive, "")) else None
    what = [f"{printable(run.store.describe(part))} ({sizes[part]})" for part in parts]
    if not (yes or asked(f"delete {', '.join([*what, *([archive.describe()] if archive else [])])}?")):
        say("nothing was deleted")
        return 1
    for part in parts:
        if part:
            run.store.remove_prefix(part)
        else:
            place.remove(run.experiment)
        say(f"deleted {run.store.describe(part)} ({sizes[part]})")
    return 0


def _is_there(run: Run, part: str) -> bool:
    """Tells whether a part of a run is there; a link may lead anywhere, to what is not the run's to delete."""
    entry = run.store.stat(part)
    if entry is not None and entry.kind is Kind.OTHER:
        raise StoreError(
            f"{run.store.describe(part)} is a link, and may lead out of the shared folder: delete what it leads to "
            "there, and the link here"
        )
    return entry is not None


def _studies_with(path: Path, run: Run) -> list[str]:
    """Studies that count on this experiment; one may have taken over another's runs."""
    found = []
    for study in studies(path, warn):
        with suppress(ProtocolError):  # a record that cannot be read names no run
            if run.experiment in {experiment for _, experiment in reader_of(path, study).contents(path, study).runs}:
                found.append(study)
    return found
