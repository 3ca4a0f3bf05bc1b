"""`swarm copy`: an experiment of one place into another, once or for as long as it grows."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.flags import CommonFlags, settings_from
from swarm.cli.say import say, warn
from swarm.errors import ConfigError, ProtocolError, StoreError
from swarm.records.copying import Copied, Copier
from swarm.records.files import read_clock, read_experiment
from swarm.store.place import open_place
from swarm.store.run import Run
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
        follow: Go on while the experiment does, and end with it; what fails for a while is tried again.
        every: Seconds between looks, with --follow.
    """
    run = _source(source, experiment)
    there = _target(target, run)
    copier = Copier(run.store, there.store, run.archive, there.archive)
    say(f"copying {run.experiment}: {run.store.describe()} -> {there.store.describe()}")
    with suppress(KeyboardInterrupt):
        done = _follow(copier, run, every) if follow else copier.run()
        _tell(done)
        say("the copy is whole")
        return
    say("broken off; the same command goes on")
    raise SystemExit(130)


def _source(place: str, experiment: str | None) -> Run:
    return open_place(place).open(settings_from(CommonFlags(path=place, experiment=experiment)).experiment)


def _target(place: str, run: Run) -> Run:
    """Raises ConfigError: something else is there under that name, or it is the source itself."""
    there = open_place(place).open(run.experiment, writer=WRITER)
    where = there.store.describe()
    if where == run.store.describe():
        raise ConfigError(f"expected two places, got {place} twice")
    own, found = _made(run), _made(there)
    if found is not None and found != own:
        raise ConfigError(f"{where} is another experiment, which stays: name another place, or clean that one first")
    return there


def _made(run: Run) -> tuple[float, str] | None:
    try:
        file = read_experiment(run)
    except ProtocolError as error:
        return (0.0, str(error))
    return (file.created_at, file.created_by) if file else None


def _follow(copier: Copier, run: Run, every: float) -> Copied:
    """Until the experiment is over and nothing new comes."""
    total, over, failing = copier.run(), False, every
    while not over or total.anything:
        _say_progress(total)
        try:
            state = read_clock(run).state
            over = state is not None and state.finished
            total, failing = copier.run(whole=over), every
        except StoreError as error:
            warn(f"{error}; trying again in {failing:.0f} s")
            time.sleep(failing)
            failing = min(2 * failing, LONGEST_PAUSE)
            continue
        if not over:
            time.sleep(every)
    return total


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
