"""An experiment in another place: `swarm copy`, once or for as long as it grows, and `swarm up --mirror`.

A mirror is for a swarm whose own place may be lost, as a notebook's disk is:

before the start  mirror ─▶ has it rounds that the place lacks? does nobody else write into it? ─▶ Copier ─▶ place
meanwhile         place ─▶ a program beside the nodes, `swarm copy --follow` ─▶ mirror
at the end        the nodes have saved ─▶ SIGTERM ─▶ it copies what is new, and ends

What is in the mirror when the machine is lost is there again: a state in which a kill could have left each node. The
rounds since then are done again, by the same questions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.flags import CommonFlags, open_experiment_when_there, settings_to_look
from swarm.cli.processes import COPY, GRACE, EndRequest, end, first_moved, following, running, this_process_runs
from swarm.cli.say import say, warn
from swarm.cli.supervisor import ProgramBeside
from swarm.config import Settings
from swarm.config.place import is_url, place_of
from swarm.errors import ConfigError, ExperimentError, ProtocolError, StoreError
from swarm.node.process.host import this_process
from swarm.records.copying import Copied, Copier, ToDo
from swarm.records.files import read_clock, read_experiment, read_peers
from swarm.records.listing import saved_rounds
from swarm.records.liveness import is_alive
from swarm.records.made_by import refuse_foreign
from swarm.records.reader import snapshot
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.systems import require_for
from swarm.views.text import size

WRITER, BACK = "copy", "mirror"
"""Who writes what is copied, and what is brought back."""
LONGEST_PAUSE = 60.0
"""Seconds between attempts while a place fails."""
RECENT = 300.0
"""Seconds since a node's last beat in a mirror within which another machine may still be writing into it."""
WATCHED = 30.0
"""Seconds for which it is then watched: three times as long as a follower pauses."""
CLOCK = ("clock", "")
SAID_EVERY = 5.0
"""Seconds between two lines of how far a copy is."""


def copy(
    source: Annotated[str, Parameter(help="The place that has it: a folder, or a bucket's URL.")],
    target: Annotated[str, Parameter(help="The place that gets it.")],
    /,
    *,
    experiment: Annotated[str | None, Parameter(help="Which one. [default: what the settings say]")] = None,
    follow: bool = False,
    every: Annotated[float, Parameter(validator=Number(gt=0))] = 10.0,
) -> int:
    """Copy an experiment into another place, and read back what was written.

    Broken off, it goes on when it is called again: what is there already is compared and left. What a restart needs
    (checkpoints, logs, rollouts, rewards) is copied some rounds at a time, in the order in which nodes wrote it, so
    that a swarm goes on from any copy: `swarm up --path TARGET`. While a swarm works in the target, do not copy into
    it.

    Args:
        follow: Go on while the experiment does, and end with it; what fails for a while is tried again, and one that is
            not there yet is waited for. A first signal: copy once more, then end. One that runs already is ended so.
        every: Seconds between looks, with --follow.
    """
    require_for("`swarm copy`")
    named = settings_to_look(CommonFlags(path=source, experiment=experiment))
    run = open_experiment_when_there(named) if follow else open_place(source).open(named.experiment)
    there, into = _target(target, run), replace(named, path=target)
    copier = Copier(run.store, there.store, run.archive, there.archive, tell=_Telling())
    what = f"copying {run.experiment}: {run.store.describe()} -> {there.store.describe()}"
    if follow:
        with following(into, COPY) as asked:
            _take_over(into)
            say(what)
            _tell(_follow(copier, run, every, asked))
        say("the copy is whole")
        return asked.exit_code
    this_process_runs(into, COPY, [])
    _refuse_another(into)
    say(what)
    try:
        _tell(copier.run())
    except KeyboardInterrupt:
        say("broken off; the same command goes on")
        raise
    say("the copy is whole")
    return 0


def _refuse_another(into: Settings) -> None:
    """Two who copy into one place write lines twice. Raises ConfigError: another process of this machine's does."""
    with running(into) as found:
        if others := [process.file.title for process in found if process.file.role == COPY]:
            raise ConfigError(f"{into.place} is being copied into: {others[0]}; end it first")


def _take_over(into: Settings) -> None:
    """Ends who else copies into a place. Raises StoreError: it does not end."""
    with running(into) as found:
        others = [process for process in found if process.file.role == COPY]
        if others and not end(others, GRACE):
            raise StoreError(f"{into.place} is being copied into by {others[0].file.title}, which does not end")


def _target(place: str, run: Run) -> Run:
    """Raises ConfigError: something else is there under that name, or it is the source itself."""
    there = open_place(place).open(run.experiment, writer=WRITER)
    where = there.store.describe()
    if where == run.store.describe():
        raise ConfigError(f"expected two places, got {place} twice")
    own, found = made(run), made(there)
    if found is not None and found != own:
        raise ConfigError(f"{where} is another experiment, which stays: name another place, or clean that one first")
    return there


def made(run: Run) -> tuple[float, str] | None:
    """Returns when and by whom an experiment was made, which tells it from another one of its name; None: by nobody
    yet."""
    try:
        file = read_experiment(run)
    except ProtocolError as error:
        return (0.0, str(error))
    return (file.created_at, file.created_by) if file else None


def _follow(copier: Copier, run: Run, every: float, asked: EndRequest) -> Copied:
    """Copies until the experiment is over, or it is asked to end, and nothing new comes; returns the last pass."""
    failing = every
    while True:
        last = asked.is_set()  # before the pass: what was written until then is in it
        try:
            state = read_clock(run).state
            over = last or (state is not None and state.finished)
            done, failing = copier.run(whole=over), every
        except StoreError as error:
            if asked.is_set():
                raise
            warn(f"{error}; trying again in {failing:.0f} s")
            asked.wait(failing)
            failing = min(2 * failing, LONGEST_PAUSE)
            continue
        if last or (over and not done.anything):
            return done
        _say_progress(done)
        if not over:
            asked.wait(every)


def _say_progress(done: Copied) -> None:
    if done.anything:
        saved = f", {done.checkpoints} checkpoint{'s' * (done.checkpoints > 1)}" if done.checkpoints else ""
        say(f"copied {done.files} files{saved}, {done.records} records, {size(done.bytes)}; {done.same} were there")


class _Telling:
    """Says how far a pass is, every SAID_EVERY seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._said = now()

    def __call__(self, done: Copied, to_do: ToDo) -> None:
        if self._now() < self._said + SAID_EVERY:
            return
        self._said = self._now()
        files, taken = done.files + done.same + done.checkpoints, done.bytes + done.same_bytes
        say(f"{min(files, to_do.files)} of {to_do.files} files, {size(min(taken, to_do.bytes))} of {size(to_do.bytes)}")


def _tell(done: Copied) -> None:
    _say_progress(done)
    for line in done.left_out:
        warn(f"left out {line}")
    if done.strays:
        say(f"left out {done.strays} names that no node writes")


def reached(run: Run) -> dict[tuple[str, str], int]:
    """Returns how far a run is: ("rows" or "checkpoint", node) -> rounds, and ("clock", "").

    Raises:
        StoreError: its place fails.
    """
    now = snapshot(run)
    rows = {("rows", node): progress.rounds_with_rows for node, progress in now.progress.items()}
    saved = {("checkpoint", node): max(rounds) for node, rounds in saved_rounds(run).items()}
    return {**rows, **saved, CLOCK: now.state.round if now.state else 0}


def _lacks(one: Mapping[tuple[str, str], int], other: Mapping[tuple[str, str], int]) -> bool:
    """Tells whether the other place has anything further than the first."""
    return any(rounds > one.get(what, 0) for what, rounds in other.items())


def refuse_mirror(settings: Settings, *, here: bool) -> None:
    """See that a mirror can be kept.

    Raises:
        ConfigError: the mirror is the place itself, or nodes are to run elsewhere, where nobody follows them.
    """
    if not here:
        raise ConfigError("--mirror is for nodes of this machine; for jobs: swarm copy PLACE MIRROR --follow")
    places = (settings.place, place_of(str(settings.mirror)))
    if len({place if is_url(place) else os.path.realpath(place) for place in places}) == 1:
        raise ConfigError(f"--mirror: expected another place than {settings.place}, got the same")


def bring_back(settings: Settings, *, here: bool) -> None:
    """Copy from the mirror what the place lacks: nothing where the place is as far, or where nodes run in it here.

    Args:
        settings: with a mirror.
        here: the nodes are to run on this machine.

    Raises:
        ConfigError: as refuse_mirror.
        ExperimentError: each of the two has rounds that the other lacks; another machine still writes into the mirror.
        StoreError: a place fails; the same command goes on.
    """
    refuse_mirror(settings, here=here)
    mirror, name = str(settings.mirror), settings.experiment
    own = open_place(settings.place).open(name, BACK)
    with running(settings) as found:
        if found or not open_place(mirror).has(name):
            return
    there = open_place(mirror).open(name)
    refuse_foreign(there)
    ours, theirs = reached(own), reached(there)
    if not _lacks(ours, theirs):
        return
    if _lacks(theirs, ours) or made(own) not in (None, made(there)):
        raise ExperimentError(
            f"{own.store.describe()} (round {ours[CLOCK]}) and its mirror {there.store.describe()} (round "
            f"{theirs[CLOCK]}) each have what the other lacks. They are two experiments, or two swarms went on from "
            "one. Choose which one stays. Name another --mirror for it, or delete the other one (`swarm experiment "
            "clean`)"
        )
    _refuse_other_writer(there, settings)
    say(f"bringing {name} back: {there.store.describe()} -> {own.store.describe()}")
    done = Copier(there.store, own.store, there.archive, own.archive, tell=_Telling()).run()
    counted = f"{done.files} files, {done.records} records, {done.checkpoints} checkpoints"
    say(f"{theirs[CLOCK]} rounds are here again: {counted}, {size(done.bytes)}")


def _refuse_other_writer(there: Run, settings: Settings) -> None:
    """Watch a mirror in which nodes seemed alive lately.

    Raises:
        ExperimentError: it still changes.
    """
    wall, here, timeout = time.time(), this_process(), max(RECENT, settings.cadence.liveness_timeout)
    lately = {peer.peer_id: peer for peer in read_peers(there) if is_alive(peer, wall, timeout, here)}
    if moved := first_moved(there, lately, WATCHED):
        raise ExperimentError(
            f"another machine still writes into {there.store.describe()}: {', '.join(sorted(moved))} go on there. End "
            "that session first (in Colab: Runtime, Manage sessions), or name another --experiment or --mirror"
        )


def mirror_beside(settings: Settings) -> list[ProgramBeside]:
    """Returns the program that follows a swarm into its mirror, and to its last file once the nodes have ended; none
    without a mirror."""
    if not settings.mirror:
        return []
    words = ("copy", settings.place, settings.mirror, "--experiment", settings.experiment, "--follow")
    return [ProgramBeside("mirror", words, {}, quiet=True, patient=True)]
