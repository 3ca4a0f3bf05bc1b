"""`swarm experiment`: what experiments a shared folder holds, as one file each and back, and getting rid of them.

list ─ archive ─▶ NAME.tar.gz ─▶ restore          prune: old rollouts ─▶ the archive          clean: gone
"""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

import swarm
from swarm.cli.flags import (
    CommonFlags,
    PathFlag,
    named_flags,
    refuse_no_folder_for,
    settings_from,
    settings_to_look,
)
from swarm.cli.processes import beating_elsewhere
from swarm.cli.say import asked, say, warn
from swarm.config import Settings
from swarm.config.place import is_url
from swarm.errors import ConfigError, ExperimentError, ProtocolError, StoreError, SwarmError
from swarm.harmless import printable
from swarm.node.process.host import this_process
from swarm.records.copying import MOST_NAMED, Copier
from swarm.records.files import read_needs, read_peers
from swarm.records.janitor import Janitor, Rules
from swarm.records.listing import MOST_LOOKED_INTO, entries, size_of
from swarm.records.liveness import is_alive
from swarm.records.made_by import as_ours, refuse_foreign
from swarm.records.reader import RunSnapshot, snapshot
from swarm.records.retention import first_kept_by_most, held_in_place, keeping
from swarm.records.whole_run import PackedRun, check_packed, pack_run, unpack_run, unpackable
from swarm.store.base import Kind
from swarm.store.place import Place, open_place
from swarm.store.run import Run
from swarm.systems import require_for
from swarm.views.studies import reader_of, studies
from swarm.views.summary import render, summarise_run
from swarm.views.text import age, shorten, size, table
from swarm.wire import keys

_CHECKPOINTS = (
    "Its checkpoints: a node that goes on has the weights of its model at first again, but for the rounds that it can "
    "redo (SWARM_REDO_ROUNDS)."
)
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


# ── archive ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def archive(
    name: str | None = None,
    /,
    *,
    experiment_flags: CommonFlags | None = None,
    output: Annotated[Path | None, Parameter(("--output", "-o"))] = None,
    force: bool = False,
) -> None:
    """Pack a whole experiment, with its summary and what was cleaned away of it, into one file; the experiment stays.

    A gzipped tar, read back before it gets its name. Any tar unpacks it to an ordinary place. What a running
    experiment writes meanwhile is left out as a kill at that moment would leave it.

    Args:
        name: The experiment; without one, what --experiment or the settings say, or the only one that can be meant.
        experiment_flags: which experiment.
        output: The file; without one, NAME.tar.gz, here.
        force: Replace the file that is there.
    """
    require_for("`swarm experiment archive`")
    settings = settings_to_look(named_flags(name, experiment_flags))
    run = open_place(settings.place).open(settings.experiment)
    refuse_foreign(run)
    refuse_no_folder_for("--output", output)
    target = output or Path(f"{run.experiment}.tar.gz")
    if target.exists() and not force:
        raise ConfigError(f"{target} is there already: name another file with --output, or replace it with --force")
    with _failing(target), tempfile.TemporaryDirectory(prefix=".packing-", dir=target.absolute().parent) as folder:
        left_out = _gathered(run, Path(folder) / "place")
        packed = _written(Path(folder) / "place", run.experiment, Path(folder) / "packed.tar.gz")
        os.replace(Path(folder) / "packed.tar.gz", target)
    for line in left_out:
        warn(f"left out {line}")
    bytes_now = target.stat().st_size
    say(
        f"wrote {target}: {len(packed.files)} files of {size(packed.bytes)} in {size(bytes_now)}, read back and found "
        "to be the same"
    )


def _gathered(run: Run, folder: Path) -> list[str]:
    """Copy a run, with its summary beside it; what was left out."""
    copy = open_place(folder).open(run.experiment, writer="archive")
    done = Copier(run.store, copy.store, run.archive, copy.archive).run()
    summary = summarise_run(copy)
    (folder / "summary.txt").write_text(render(summary) + "\n", "utf-8")
    (folder / "summary.json").write_bytes(msgspec.json.encode(summary) + b"\n")
    names = unpackable(folder, run.experiment)
    return done.left_out + [f"{name}: on some system this is no file's name" for name in names[:MOST_NAMED]]


def _written(folder: Path, experiment: str, target: Path) -> PackedRun:
    with open(target, "xb") as out:
        try:
            packed = pack_run(folder, experiment, out, packed_at=time.time(), swarm=swarm.__version__)
        except ValueError as error:
            raise StoreError(f"{experiment} cannot be packed: {error}") from None
        out.flush()
        os.fsync(out.fileno())
    with open(target, "rb") as file:
        if check_packed(file) != packed:
            raise StoreError(f"{target} has other bytes than were written: the disk is at fault")
    return packed


@contextmanager
def _failing(at: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{at}: {error.strerror or error}") from error


# ── restore ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def restore(
    file: Annotated[Path, Parameter(help="What `swarm experiment archive` wrote.")],
    /,
    *,
    path: PathFlag = None,
) -> None:
    """Unpack an experiment that was archived; `validate`, `status`, `export` and `swarm up` take it as it was.

    The file may be anybody's: only files that nodes write come out of it, below the shared folder. All of it is read
    and compared with its own list before anything is written. Broken off, the same command goes on. An experiment of
    that name that is there stays.
    """
    require_for("`swarm experiment restore`")
    settings = settings_from(CommonFlags(path=path))
    if not file.is_file():
        raise ConfigError(f"there is no file {file}; name one that `swarm experiment archive` wrote")
    if is_url(settings.place):
        raise ConfigError(f"{settings.place} is no folder: restore it into one, and then `swarm copy FOLDER BUCKET`")
    place = open_place(settings.place)
    with _failing(file), open(file, "rb") as packed:
        try:
            name = check_packed(packed).experiment
            if place.has(name):
                raise ExperimentError(
                    f"there is an experiment {name!r} in {place.describe()}, which stays: clean it first"
                )
            packed.seek(0)
            place.take_in(name, partial(unpack_run, packed))
        except ProtocolError as error:
            raise ExperimentError(f"{file} is refused, nothing was restored: {printable(str(error))}") from None
    say(
        f"restored {name} in {place.describe()}: `swarm status` and `swarm validate` take it as it was, and `swarm up` "
        "goes on with it"
    )


# ── prune ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def prune(
    name: Annotated[str | None, Parameter(help="The experiment; one has to be named, here or by --experiment.")] = None,
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
    experiment_flags = named_flags(name, experiment_flags)
    if experiment_flags.experiment is None:
        raise ConfigError("name the experiment: swarm experiment prune NAME")
    settings = settings_from(experiment_flags)
    place = open_place(settings.place)
    place.require(settings.experiment)
    run = place.open(settings.experiment, writer=f"prune-{uuid.uuid4().hex[:8]}")
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
    done = janitor.clean(before, known, redone)
    rounds, files, left = done.rounds, done.files, done.left
    while left:
        done = janitor.clean(before, known, redone)
        rounds, files = rounds + done.rounds, files + done.files
        left = done.left if done.left < left else 0  # what others have to remove is left to them
    if done.refused:
        raise StoreError(f"not all could be removed: {done.refused}")
    say(f"{doing}d rollouts of {rounds} rounds" + ("" if delete else f", {files} files: {_where(run)}"))
    return 0


def _where(run: Run) -> str:
    return run.archive.describe(keys.ROLLOUTS) if run.archive else ""


def _what_may_go(run: Run, settings: Settings) -> tuple[int, int, set[str]]:
    """Returns the first round that stays, the first that somebody may redo, and the workers that have rows."""
    now = snapshot(run)
    lived = {node: rounds for node, progress in now.progress.items() if (rounds := progress.all_rounds())}
    clock = now.state.round if now.state else None
    needs = read_needs(run)
    stays = (held_in_place(needs, settings), [need.files for need in needs])
    before, redone = (first_kept_by_most(lived.values(), held, keeping(settings), clock) for held in stays)
    return before, redone, set(lived)
