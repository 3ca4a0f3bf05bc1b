"""`swarm node` and `swarm join`: one daemon, or several workers in one process, in the foreground.

Who joins takes from the experiment what made it what it is, and how long it lasts:

    experiment.json, the clock ─▶ adopted: setting ─▶ value ─┐
    flags, environment, settings file ──────────────────────┴▶ Settings, or what contradicts the experiment

What its user says counts above it, as far as the node then has anything to share with its peers. Who wrote the folder
is a stranger: values are checked as any setting is, bounded, and never name code to import.

`python -P -m services.worker`, `services.coordinator` and `services.workers` are the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.before_start import (
    PROFILE,
    make_ready,
    refuse_place,
    refuse_unsuited,
    say_for_whom,
    suited,
)
from swarm.cli.flags import (
    CommonFlags,
    as_settings,
    asked_for,
    is_named,
    likely_experiments,
    meant_experiment,
    open_experiment,
    settings_from,
    wait_for,
)
from swarm.cli.local_swarm import show_dry_join
from swarm.cli.processes import this_process_runs
from swarm.cli.run_flags import NodeFlags, RunFlags
from swarm.cli.say import warn
from swarm.config import (
    Settings,
    StartRequest,
    asked_in,
    in_identity,
    refuse_unsafe,
    sources_of,
    variable,
)
from swarm.config.settings import FIELDS
from swarm.config.sources import Given, parse
from swarm.errors import ConfigError, ExperimentError, MissedError
from swarm.harmless import printable
from swarm.node.base.experiment import SHARED, differences, differing, identity_of, read_experiment
from swarm.node.process.daemon import announced, run_node
from swarm.node.process.host import this_process
from swarm.node.process.wiring import check_alone, one_model
from swarm.node.process.worker_settings import number_flags, readable_name, settings_of_workers
from swarm.records.files import LONGEST_MAKER, read_clock
from swarm.records.finished import BY_COORDINATOR
from swarm.records.listing import MOST_LOOKED_INTO
from swarm.records.liveness import is_alive
from swarm.records.made_by import made_by, refuse_foreign
from swarm.records.reader import RunSnapshot, snapshot
from swarm.records.task_files import localised
from swarm.store.place import Place, open_place, replicated_places
from swarm.store.run import Run
from swarm.systems import require_for
from swarm.tasks.definitions import check
from swarm.tasks.registry import complete
from swarm.wire import keys
from swarm.wire.messages import ExperimentFile

WRITER = "joining"
"""Who looks for the experiment; nothing is written by that name."""
SHOWN = ("seed", "local_groups", "external_groups", "generations", "profile", "tasks", "max_rounds", "clock")
"""Settings that a node that joins is told in any case."""


class NodeToStart(NamedTuple):
    settings: Settings
    asked: StartRequest


def node(
    node_flags: NodeFlags | None = None,
    *,
    nodes: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    first: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
) -> int:
    """Run one node, a worker or the coordinator, or several workers in one process, until all are done.

    A worker, or a coordinator on --standby, takes what it is not told (seed, I, J, G, tasks, rounds) from the
    experiment, if that is there, and waits for its coordinator to begin it. Of --nodes, NODE_ID=w calls them w-0, w-1,
    ...; several models are dealt out in turn. Ctrl-C once: finish the step, save, exit 130; twice: end at once. The
    same command goes on from there.

    Args:
        nodes: Run so many workers in this process.
        first: With --nodes, the number of the first of them.
    """
    require_for("`swarm node`")
    if nodes is not None:
        return _several(range(first, first + nodes), node_flags)
    if first:
        raise ConfigError("--first is for --nodes: name one node by NODE_ID")
    started = _started(["swarm", "node"], node_flags, check=one_model, alone=True)
    settings = started.settings
    this_process_runs(settings, settings.role, [settings.node_id] if settings.node_id else [])
    return run_node(settings, started.asked)


def _several(numbers: range, node_flags: NodeFlags | None) -> int:
    """Runs several workers in this process; the exit code as of one."""
    from swarm.node.process.daemon import run_workers

    if settings_from(node_flags).role == "coordinator":
        raise ConfigError("--nodes counts workers; start the coordinator by itself: swarm node --role coordinator")
    names = partial(settings_of_workers, numbers=numbers)
    settings, asked = _started(["swarm", "node", *number_flags(numbers)], node_flags, check=names)
    name = settings.node_id
    this_process_runs(settings, settings.role, [f"{name}-{n}" for n in numbers] if name else [])
    return run_workers(settings, numbers, asked)


def join(
    place: str | None = None,
    /,
    *,
    node_flags: NodeFlags | None = None,
    dry_run: bool = False,
    invitation: str | None = None,
    own: Annotated[str | None, Parameter("--as")] = None,
    address: Annotated[tuple[str, ...], Parameter("--address")] = (),
) -> int:
    """Join an experiment of a shared folder as a worker or generator: what made it what it is comes from there.

    Args:
        place: The shared folder; without one, what the settings say.
        node_flags: Which experiment, if there are several, and what this node does otherwise.
        dry_run: Say what would be started, with all settings, and start nothing.
        invitation: What `swarm invite` printed on another machine: first become a member of its replicated folder.
        own: With it, the name of this machine as a member: letters, digits and `_`.
        address: With it, where this machine's Syncthing is reached, such as tcp://192.0.2.1:22000.
    """
    require_for("`swarm join`")
    place = place or settings_from(node_flags).path
    if invitation is not None:
        replicated_places("--invitation").become_member(place, invitation, own, address)
    elif own is not None or address:
        raise ConfigError("--as and --address belong to --invitation")
    node_flags = replace(node_flags or NodeFlags(), path=place)
    role = as_settings(node_flags).get("role", "worker")
    if role == "coordinator":
        raise ConfigError("swarm join makes a worker, a generator or an evaluator; use `swarm node --role coordinator`")
    joined = joined_as(role, ["swarm", "join", place], node_flags)
    if dry_run:
        show_dry_join(*joined)
        return 0
    return run_node(joined.settings, joined.asked)


def joined_as(role: str, words: Sequence[str], node_flags: NodeFlags, **own: Any) -> NodeToStart:
    """Returns the settings of a node that joins the experiment of a place, which is waited for, and said to the user.

    Args:
        words: the command, which names the place.
        own: settings that it decides.

    Raises:
        SwarmError: it cannot take part.
    """
    if not is_named(node_flags):
        node_flags = replace(node_flags, experiment=only_experiment(place_named(settings_from(node_flags).place)))
    named = _named(node_flags) | own
    alone = settings_from(node_flags, own={**named, "role": role})
    check_alone(alone)
    one_model(alone)
    make_ready([alone])
    alone = _with_a_name(alone, named)
    run = open_experiment(alone, WRITER)
    experiment = _begun(run, alone, None)
    assert experiment is not None, "there is no end to the patience"
    _refuse_finished(run, snapshot(run), alone.cadence.liveness_timeout)
    joining = take(node_flags, run, experiment, role=role, **named)
    tell(run, joining, experiment)
    asked = asked_for(words, replace(node_flags, path=None), joining.adopted)
    this_process_runs(joining.settings, role, [joining.settings.node_id] if joining.settings.node_id else [])
    return NodeToStart(joining.settings, asked)


def _refuse_to_miss(run: Run, settings: Settings) -> None:
    """See that a worker finds a round to do; one that has done some may come back, and ends as one that is done.

    Raises:
        MissedError: its coordinator has ended the experiment, and nobody is alive in it.
    """
    now, name = snapshot(run), settings.node_id
    known = [node for node, done in now.progress.items() if done.last and name in (node, node.rpartition("-")[0])]
    if now.finished and now.finished.by == BY_COORDINATOR and not known:
        _refuse_finished(run, now, settings.cadence.liveness_timeout)


def _refuse_finished(run: Run, now: RunSnapshot, timeout: float) -> None:
    """See that there is something left to join.

    Raises:
        MissedError: it is over, and nobody is alive in it.
    """
    if now.finished and not any(is_alive(peer, time.time(), timeout, this_process()) for peer in now.peers.values()):
        raise MissedError(
            f"{run.store.describe()} is finished after {now.finished.rounds} rounds, and nobody is alive in it: there "
            "is nothing left to join. Ask its coordinator for more --rounds first, or join another --experiment"
        )


def _started(
    words: Sequence[str],
    run_flags: RunFlags | None,
    check: Callable[[Settings], object] = lambda _: None,
    *,
    alone: bool = False,
) -> NodeToStart:
    """Returns the settings of a daemon: a worker, or a coordinator on standby, that a person starts takes what it is
    not told from its experiment.

    One that nobody has begun yet is waited for as long as a worker waits for a coordinator that is gone.

    Args:
        check: refuses more settings of a worker that cannot work, whatever its experiment is.
        alone: it is one node; it registers before it waits.
    """
    named = _named(run_flags)
    settings = settings_from(run_flags, own=named)
    asked = asked_for(words, run_flags)
    if asked_in(os.environ) is not None:  # who started it has looked
        return NodeToStart(settings, asked)
    check_alone(settings)
    if settings.role != "coordinator":
        check(settings)
    make_ready([settings])
    run = open_experiment(settings, WRITER)
    if settings.role == "coordinator" and not settings.standby:
        if "external_groups" not in asked.sources:
            _say_that_nobody_shares(run)
        say_for_whom(run_flags, run)
        return _as_who_begins(words, run_flags, named)
    patience = 0.0 if settings.clock == "own" else settings.patience_with_coordinator
    if alone and settings.role != "coordinator":
        settings = _with_a_name(settings, named)
    experiment = _begun(run, settings, patience) if alone else experiment_in(run, patience)
    if experiment is None:
        return _as_who_begins(words, run_flags, named)
    if settings.role != "coordinator":
        _refuse_to_miss(run, settings)
    joining = take(run_flags, run, experiment, **named)
    tell(run, joining, experiment)
    return NodeToStart(joining.settings, asked_for(words, run_flags, joining.adopted))


def _with_a_name(settings: Settings, named: dict[str, str]) -> Settings:
    """Gives a node without an id a readable one, which goes into `named` too: who registers keeps its name."""
    if settings.node_id is not None:
        return settings
    named["node_id"] = readable_name(SystemRandom())
    return replace(settings, node_id=named["node_id"])


def _begun(run: Run, settings: Settings, patience: float | None) -> ExperimentFile | None:
    """Waits for the experiment as `experiment_in` does; a worker that has to wait is registered meanwhile."""
    found = experiment_in(run, 0.0)
    if found or patience == 0.0 or settings.role == "coordinator":
        return found
    with announced(settings):
        return experiment_in(run, patience)


def _as_who_begins(words: Sequence[str], run_flags: RunFlags | None, named: dict[str, str]) -> NodeToStart:
    """Reads settings, with what suits the models where nobody chose it, for a node that begins an experiment or goes on
    with it."""
    base = suited(run_flags, own=named, begins=True)
    return NodeToStart(settings_from(run_flags, base=base, own=named), asked_for(words, run_flags, base))


def _named(run_flags: RunFlags | None) -> dict[str, str]:
    """Returns the node id that this machine's name in the place gives its node, unless somebody names the node."""
    settings = settings_from(run_flags)
    member = open_place(settings.place).member
    if not member or settings.node_id is not None:
        return {}
    return {"node_id": f"{member}-coordinator" if settings.role == "coordinator" else member}


def _say_that_nobody_shares(run: Run) -> None:
    """Warns who is about to begin an experiment without a word about J that nobody will share."""
    if read_experiment(run) is None:
        warn(
            "nobody trains on peers' groups: NUM_TRANSPLANT_TREES is 0 by default; `--local 4 --external 4` shares half"
        )


class JoinedSettings(NamedTuple):
    """A node's settings for an experiment that is there."""

    settings: Settings
    adopted: Given
    """What came from the experiment, with where it came from; what the user said is not in it."""


def take(given_flags: CommonFlags | None, run: Run, experiment: ExperimentFile, **own: Any) -> JoinedSettings:
    """Returns the settings of a node that joins an experiment.

    Args:
        own: settings that the command itself decides.

    Raises:
        ConfigError: a value of the experiment's is beyond what is taken, or names code.
        ExperimentError: the user's settings contradict the experiment's.
    """
    given_flags = given_flags or CommonFlags()
    named = sources_of(as_settings(given_flags) | own, os.environ, given_flags.config)
    said = adopted(run, experiment)
    base = {name: value for name, value in said.items() if name not in named}
    refuse_unsafe(base)
    if "task_table" in base:
        base["task_table"] = with_files(run, base["task_table"], settings_from(given_flags).private_folder)
    settings = settings_from(given_flags, base=base, own=own)
    refuse_unsuited(settings, run, said[PROFILE][0], chosen=PROFILE in named)
    _refuse_contradictions(settings, experiment, named)
    return JoinedSettings(settings, base)


def with_files(run: Run, said: tuple[object, str], private: Path) -> tuple[object, str]:
    """Returns the task table of an experiment, with files on this machine. Raises ConfigError: one cannot be had or
    asked."""
    table, source = parse("task_table", *said) or {}, said[1]
    for name, parameters in table.items():
        check(name, parameters)
    found = localised(run.store, table, private / keys.TASKS)
    return complete(found, Path.cwd()) or None, source


def with_tasks_of(run: Run, experiment: ExperimentFile, settings: Settings) -> Settings:
    """Returns the settings of who asks an experiment's questions and is no node of it, with the tasks that it defines.

    Raises:
        ConfigError: they name code, or a file cannot be had.
    """
    said = {name: value for name, value in adopted(run, experiment).items() if name == "task_table"}
    if settings.task_table or not said or said["task_table"][0] is None:
        return settings
    refuse_unsafe(said)
    table, source = with_files(run, said["task_table"], settings.private_folder)
    return replace(settings, task_table=parse("task_table", table, source))


def adopted(run: Run, experiment: ExperimentFile) -> Given:
    """Returns setting -> value and source, of all that an experiment says."""
    identity = {name: value for name, value in identity_of(experiment).items() if in_identity(name)}
    state = read_clock(run).state
    rounds = state.max_rounds if state else experiment.max_rounds
    values = identity | ({"max_rounds": rounds} if rounds else {})
    return {name: (value, f"the experiment {run.experiment}") for name, value in values.items()}


def _refuse_contradictions(settings: Settings, experiment: ExperimentFile, named: dict[str, str]) -> None:
    differ = differing(settings, experiment)
    wrong = [name for name in SHARED if name in named and name in differ]
    if wrong:
        texts, variables = [differ[name] for name in wrong], [variable(name) for name in wrong]
        raise ExperimentError(
            f"{'; '.join(texts)}: peers of the experiment {experiment.experiment_name} would refuse all groups of this "
            f"node. Leave out {' and '.join(variables)}, which came from {', '.join(named[n] for n in wrong)}, and "
            f"start it again: it takes what the experiment has, and nodes draw different questions anyway"
        )


def tell(run: Run, joining: JoinedSettings, experiment: ExperimentFile) -> None:
    """Say what was taken from where, and what differs."""
    settings = joining.settings.as_recorded()
    shown = [name for name in (*SHOWN, *joining.adopted) if name in SHOWN or settings[name] != FIELDS[name].default]
    taken = [f"{variable(name)}={_text(settings[name])}" for name in dict.fromkeys(shown) if name in joining.adopted]
    maker = printable(experiment.created_by)[:LONGEST_MAKER]
    warn(f"joins the experiment {run.experiment} in {run.store.describe()}, made by {maker}")
    warn(printable(f"taken from it: {', '.join(taken) or 'nothing'}"))
    for text in differences(joining.settings, experiment):
        warn(f"{text}, as asked for")


def _text(value: object) -> str:
    return "all" if value is None else ",".join(map(str, value)) if isinstance(value, list) else str(value)


def experiment_in(run: Run, patience: float | None) -> ExperimentFile | None:
    """Waits for the settings of an experiment; gives None after `patience` seconds, or never where `patience` is None.

    Raises:
        ExperimentError: another program made it.
    """
    refuse_foreign(run)
    what = f"the experiment {run.experiment} in {run.store.describe()}: its coordinator has not begun it"
    return wait_for(lambda: read_experiment(run), what, patience)


def only_experiment(place: Place, patience: float | None = None) -> str:
    """Returns the experiment of this program's that is meant where nobody names one; waits for the first.

    Raises:
        ExperimentError: there are several.
    """
    what = f"an experiment in {place.describe()}: there is none yet"
    return meant_experiment(place, wait_for(lambda: _of_this_program(place), what, patience) or [])


def _of_this_program(place: Place) -> list[str]:
    names = likely_experiments(place)
    return names if len(names) > MOST_LOOKED_INTO else [name for name in names if not made_by(place.open(name))]


def place_named(text: str) -> Place:
    """Returns the place that people name on the command line, to join in. Raises StoreError: nobody can write there."""
    folder = settings_from(CommonFlags(path=text)).place
    refuse_place(folder)
    return open_place(folder)
