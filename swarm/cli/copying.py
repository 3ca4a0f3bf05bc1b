"""`swarm copy`: an experiment of one place into another, once or for as long as it grows."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.down import GRACE, end
from swarm.cli.flags import CommonFlags, settings_from
from swarm.cli.following import EndRequest
from swarm.cli.processes import COPY, running, this_process_runs
from swarm.cli.say import say, warn
from swarm.cli.waiting import open_experiment_when_there
from swarm.config import Settings
from swarm.errors import ConfigError, ProtocolError, StoreError
from swarm.node.process.stopping import INTERRUPTED, TERMINATED
from swarm.records.copying import Copied, Copier
from swarm.records.files import read_clock, read_experiment
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.systems import missing
from swarm.views.text import size

WRITER = "copy"
"""Who writes."""
LONGEST_PAUSE = 60.0
"""Seconds between attempts while a place fails."""


def copy(
    source: Annotated[str, Parameter(help="The place that has it: a folder, or a bucket's URL.")],
    target: Annotated[str, Parameter(help="The place that gets it.")],
    /,
    *,
    experiment: Annotated[str | None, Parameter(help="Which one. [default: what the settings say]")] = None,
    follow: bool = False,
    every: Annotated[float, Parameter(validator=Number(gt=0))] = 10.0,
) -> None:
    """Copy an experiment into another place, and read back what was written.

    Broken off, it goes on when it is called again: what is there already is compared and left. What a restart needs
    (checkpoints, logs, rollouts, rewards) is in the copy in the order in which nodes wrote it, so that a swarm goes on
    from it: `swarm up --path TARGET`. While a swarm works in the target, do not copy into it.

    Args:
        follow: Go on while the experiment does, and end with it; what fails for a while is tried again, and one that is
            not there yet is waited for. SIGTERM: copy once more, then end. One that runs already is ended so.
        every: Seconds between looks, with --follow.
    """
    named = settings_from(CommonFlags(path=source, experiment=experiment))
    run = open_experiment_when_there(named) if follow else open_place(source).open(named.experiment)
    with _hearing(follow) as asked, suppress(KeyboardInterrupt):
        there = _target(target, run)
        _alone(replace(named, path=target), follow=follow)
        copier = Copier(run.store, there.store, run.archive, there.archive)
        say(f"copying {run.experiment}: {run.store.describe()} -> {there.store.describe()}")
        _tell(_follow(copier, run, every, asked) if follow else copier.run())
        say("the copy is whole")
        if asked.is_set():
            raise SystemExit(TERMINATED)
        return
    say("broken off; the same command goes on")
    raise SystemExit(INTERRUPTED)


@contextmanager
def _hearing(follow: bool) -> Iterator[EndRequest]:
    """Hears SIGTERM while the block runs, if `follow`, and yields what it sets."""
    asked = EndRequest()
    before = signal.signal(signal.SIGTERM, lambda *_: asked.set()) if follow else None
    try:
        yield asked
    finally:
        if follow:
            signal.signal(signal.SIGTERM, before)


def _alone(target: Settings, *, follow: bool) -> None:
    """Two who copy into one place write lines twice: who follows takes over.

    Raises:
        ConfigError: another process of this machine's does, and this one is to copy once.
        StoreError: it does not end.
    """
    if missing():  # a system that has no locks has no nodes either
        return
    this_process_runs(target, COPY, [])
    with running(target) as found:
        others = [process for process in found if process.file.role == COPY]
        if others and not follow:
            raise ConfigError(f"{target.place} is being copied into: {others[0].file.title}; end it first")
        if others and not end(others, GRACE):
            raise StoreError(f"{target.place} is being copied into by {others[0].file.title}, which does not end")


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


def _tell(done: Copied) -> None:
    _say_progress(done)
    for line in done.left_out:
        warn(f"left out {line}")
    if done.strays:
        say(f"left out {done.strays} names that no node writes")
