"""`swarm experiment archive`, `restore` and `prune`: a whole run as one file, and back; old rollouts out of the way."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Annotated

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

import swarm
from swarm.cli.experiment import named_flags
from swarm.cli.flags import CommonFlags, PathFlag, settings_from
from swarm.cli.say import asked, say, warn
from swarm.config import Settings
from swarm.config.place import is_url
from swarm.errors import ConfigError, ExperimentError, ProtocolError, StoreError
from swarm.harmless import printable
from swarm.records.copying import MOST_NAMED, Copier
from swarm.records.files import read_needs
from swarm.records.janitor import Janitor, Rules
from swarm.records.made_by import refuse_foreign
from swarm.records.reader import snapshot
from swarm.records.retention import first_kept_by_most, held_in_place, keeping
from swarm.records.whole_run import PackedRun, check_packed, pack_run, unpack_run, unpackable
from swarm.store.base import Store
from swarm.store.place import Place, open_place
from swarm.store.run import Run
from swarm.views.summary import render, summarise_run
from swarm.views.text import size
from swarm.wire import keys

RESTORING = "restoring.json"
"""In a bucket, as long as not all of an experiment was restored: which file it comes from."""


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
        name: The experiment; without one, what --experiment or the settings say.
        experiment_flags: which experiment.
        output: The file; without one, NAME.tar.gz, here.
        force: Replace the file that is there.
    """
    settings = settings_from(named_flags(name, experiment_flags))
    run = open_place(settings.place).open(settings.experiment)
    refuse_foreign(run)
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
    settings = settings_from(CommonFlags(path=path))
    place = open_place(settings.place)
    with _failing(file), open(file, "rb") as packed, _refused(file):
        run = check_packed(packed)
        packed.seek(0)
        into = _into_bucket if is_url(settings.place) else _into_folder
        into(packed, place, name := run.experiment, run)
    say(
        f"restored {name} in {place.describe()}: `swarm status` and `swarm validate` take it as it was, and `swarm up` "
        "goes on with it"
    )


@contextmanager
def _refused(file: Path) -> Iterator[None]:
    try:
        yield
    except ProtocolError as error:
        raise ExperimentError(f"{file} is refused, nothing was restored: {printable(str(error))}") from None


def _into_folder(packed: IO[bytes], place: Place, name: str, run: PackedRun) -> None:
    """Takes a packed run into the place, whole or not at all."""
    if place.has(name):
        raise _there_already(name, place)
    place.take_in(name, partial(unpack_run, packed))


def _there_already(name: str, place: Place) -> ExperimentError:
    return ExperimentError(f"there is an experiment {name!r} in {place.describe()}, which stays: clean it first")


def _into_bucket(packed: IO[bytes], place: Place, name: str, run: PackedRun) -> None:
    """Unpacked here, and then copied: a bucket renames nothing, so an object says as long that it is not all there."""
    with tempfile.TemporaryDirectory(prefix="swarm-restore-") as folder:
        unpack_run(packed, Path(folder))
        here, there = open_place(Path(folder)).open(name), place.open(name, writer="restore")
        mark = hashlib.sha256(msgspec.json.encode(run)).hexdigest().encode()
        if place.has(name):
            _refuse_other(name, place, there.store, mark)
        there.store.put(RESTORING, mark)
        Copier(here.store, there.store, here.archive, there.archive).run()
        there.store.remove(RESTORING)


def _refuse_other(name: str, place: Place, store: Store, mark: bytes) -> None:
    """Refuses to go on where anything but half of this very file is there. Raises ExperimentError."""
    try:
        if store.get(RESTORING, len(mark)).data == mark:
            return
    except (FileNotFoundError, ProtocolError):
        raise _there_already(name, place) from None
    raise ExperimentError(
        f"half of another file was restored as {name!r} in {place.describe()}: restore that one to its end, or clean "
        f"it first (swarm experiment clean {name})"
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
    lived = {node: sorted(progress.rewards) for node, progress in now.progress.items() if progress.rewards}
    clock = now.state.round if now.state else None
    needs = read_needs(run)
    stays = (held_in_place(needs, settings), [need.files for need in needs])
    before, redone = (first_kept_by_most(lived.values(), held, keeping(settings), clock) for held in stays)
    return before, redone, set(lived)
