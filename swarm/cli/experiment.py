"""`swarm experiment`: what experiments a shared folder holds, and getting rid of them.

list          prune: old rollouts ─▶ the archive          clean: gone
"""

from __future__ import annotations

import math
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.flags import CommonFlags, PathFlag, named_flags, settings_from
from swarm.cli.processes import beating_elsewhere
from swarm.cli.say import asked, say, warn
from swarm.config import Settings
from swarm.config.place import is_url
from swarm.errors import ConfigError, ExperimentError, ProtocolError, StoreError, SwarmError
from swarm.harmless import printable
from swarm.node.process.host import this_process
from swarm.records.files import read_needs, read_peers
from swarm.records.janitor import Janitor, Rules
from swarm.records.listing import MOST_LOOKED_INTO, entries, size_of
from swarm.records.liveness import is_alive
from swarm.records.made_by import as_ours, refuse_foreign
from swarm.records.reader import RunSnapshot, snapshot
from swarm.records.retention import first_kept_by_most, held_in_place, keeping
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
NameArgument = Annotated[str | None, Parameter(help="The experiment; one has to be named, here or by --experiment.")]
WRITER = "clean"
"""Who deletes."""


def list_experiments(*, path: PathFlag = None) -> None:
    """Show the experiments of a shared folder."""
    settings = settings_from(CommonFlags(path=path))
    place = open_place(settings.place)
    there = place.experiments()
    if not there and not is_url(settings.place) and not settings.shared_folder.exists():
        raise ExperimentError(f"there is no folder {place.describe()}; name one with --path, or begin with `swarm up`")
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
    done = over.rounds if over else now.rounds_done if now.made_by else "-"  # without a coordinator's clock
    seen = max([p.last_seen for p in now.peers.values()] + ([state.updated_at] if state else []), default=None)
    return [
        shorten(now.run.experiment, 48),
        f"{state.round}/{state.max_rounds}" if state else "torn" if now.problem else str(done),
        "no" if over is None else "yes",
        str(len(now.workers)),
        f"{age(max(0.0, wall - seen))} ago" if seen is not None else "-",
        _size_of(now.run),
        now.made_by,
    ]


def _size_of(run: Run, part: str = "") -> str:
    found = size_of(run.store, part)
    return size(found.bytes) if found.whole else f"over {size(found.bytes)}"


def live_nodes(run: Run, wall: float, liveness_timeout: float) -> list[str]:
    """Returns nodes that run at `wall`, Unix seconds, sorted; see is_alive."""
    here = this_process()
    return [peer.peer_id for peer in read_peers(run) if is_alive(peer, wall, liveness_timeout, here)]


def clean(
    name: NameArgument = None,
    /,
    *,
    experiment_flags: CommonFlags | None = None,
    rollouts: Annotated[bool, Parameter(help="Its rollouts.")] = False,
    checkpoints: Annotated[bool, Parameter(help=_CHECKPOINTS)] = False,
    yes: Annotated[bool, Parameter(help="Do not ask.")] = False,
) -> int:
    """Delete an experiment, or only the parts named. Refused while any of its nodes is running."""
    settings = _named(name, experiment_flags, "name the experiment to delete: swarm experiment clean NAME")
    place = open_place(settings.place)
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


def _named(name: str | None, experiment_flags: CommonFlags | None, lacking: str) -> Settings:
    """Returns the settings with an experiment that is there, and that was named: what is deleted is never what the
    settings happen to say. Raises ConfigError: `lacking`, nobody named one."""
    named = named_flags(name, experiment_flags)
    if named.experiment is None:
        raise ConfigError(lacking)
    settings = settings_from(named)
    open_place(settings.place).require(settings.experiment)
    return settings


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


# ── prune ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def prune(
    name: NameArgument = None,
    /,
    *,
    experiment_flags: CommonFlags | None = None,
    keep: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    delete: bool = False,
    yes: Annotated[bool, Parameter(help="Do not ask.")] = False,
) -> int:
    """Move the rollouts of old rounds to the archive, or delete them; as workers do with ROLLOUT_CLEANUP_ENABLED.

    Safe while the experiment runs: what workers may need to redo rounds stays (docs/retention.md).

    Args:
        experiment_flags: which experiment.
        keep: Rounds that stay. [default: ROLLOUT_KEEP_LAST_N_ROUNDS]
        delete: Delete them, without an archive.
    """
    settings = _named(name, experiment_flags, "name the experiment: swarm experiment prune NAME")
    run = open_place(settings.place).open(settings.experiment, writer=f"prune-{uuid.uuid4().hex[:8]}")
    refuse_foreign(run)
    keep = settings.keep_last_rounds if keep is None else keep
    pruning = replace(settings, cleanup=True, archive_old=not delete, keep_last_rounds=keep)
    before, redone, known = _what_may_go(run, pruning)
    if not before:
        say("there is nothing to prune: all rounds may still be needed")
        return 0
    doing = "delete" if delete else "archive"
    if not yes and not asked(f"{doing} rollouts of the rounds before {before} of {printable(run.store.describe())}?"):
        say("nothing was pruned")
        return 1
    rules = Rules(not delete, settings.limits.max_peers, settings.limits.pool_bytes)
    janitor = Janitor(run, "prune", rules, time.time)
    rounds, files, left = 0, 0, math.inf
    while left:
        done = janitor.clean(before, known, redone)
        rounds, files = rounds + done.rounds, files + done.files
        left = done.left if done.left < left else 0  # what others have to remove is left to them
    if done.refused:
        raise StoreError(f"not all could be removed: {done.refused}")
    where = run.archive.describe(keys.ROLLOUTS) if run.archive else ""
    say(f"{doing}d rollouts of {rounds} rounds" + ("" if delete else f", {files} files: {where}"))
    return 0


def _what_may_go(run: Run, settings: Settings) -> tuple[int, int, set[str]]:
    """Returns the first round that stays, the first that somebody may redo, and the workers that have rows."""
    now = snapshot(run)
    lived = {node: rounds for node, progress in now.progress.items() if (rounds := progress.all_rounds())}
    clock = now.state.round if now.state else None
    needs = read_needs(run)
    stays = (held_in_place(needs, settings), [need.files for need in needs])
    before, redone = (first_kept_by_most(lived.values(), held, keeping(settings), clock) for held in stays)
    return before, redone, set(lived)
