"""`swarm node` and `swarm join`: one daemon, or several workers in one process, in the foreground.

`python -P -m services.worker`, `services.coordinator` and `services.workers` are the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import SystemRandom
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.before_start import make_ready, refuse_other_models
from swarm.cli.dry_run import show_dry_join
from swarm.cli.flags import NodeFlags, RunFlags, as_settings, asked_for, open_experiment, settings_from
from swarm.cli.joining import experiment_in, only_experiment, place_named, take, tell
from swarm.cli.processes import this_process_runs
from swarm.cli.say import warn
from swarm.cli.suiting import say_for_whom, suited
from swarm.config import Settings, StartRequest, asked_in, sources_of
from swarm.errors import ConfigError, MissedError
from swarm.node.process.announcing import announced
from swarm.node.process.daemon import run_node
from swarm.node.process.host import this_process
from swarm.node.process.wiring import check_alone, one_model
from swarm.node.process.worker_settings import readable_name, settings_of_workers
from swarm.records.files import read_experiment
from swarm.records.finished import BY_COORDINATOR
from swarm.records.liveness import is_alive
from swarm.records.reader import RunSnapshot, snapshot
from swarm.store.place import open_place, replicated_places
from swarm.store.run import Run
from swarm.systems import require_for
from swarm.wire.messages import ExperimentFile

WRITER = "joining"
"""Who looks for the experiment; nothing is written by that name."""


class NodeToStart(NamedTuple):
    """Holds what a node is started with."""

    settings: Settings
    asked: StartRequest


def node(
    node_flags: NodeFlags | None = None,
    *,
    nodes: Annotated[
        int | None, Parameter(help="Run so many workers in this process.", validator=Number(gte=1))
    ] = None,
) -> int:
    """Run one node, a worker or the coordinator, or several workers in one process, until all are done.

    A worker, or a coordinator on --standby, takes what it is not told (seed, I, J, G, tasks, rounds) from the
    experiment, if that is there, and waits for its coordinator to begin it. Of --nodes, NODE_ID=w calls them w-0, w-1,
    ...; several models are dealt out in turn. Ctrl-C once: finish the step, save, exit 130; twice: end at once. The
    same command goes on from there.
    """
    require_for("`swarm node`")
    if nodes is not None:
        return _several(nodes, node_flags)
    started = _started(["swarm", "node"], node_flags, check=one_model, alone=True)
    settings = started.settings
    this_process_runs(settings, settings.role, [settings.node_id] if settings.node_id else [])
    return run_node(settings, started.asked)


def _several(nodes: int, node_flags: NodeFlags | None) -> int:
    """Runs several workers in this process; the exit code as of one."""
    from swarm.node.process.in_process import run_workers

    if settings_from(node_flags).role == "coordinator":
        raise ConfigError("--nodes counts workers; start the coordinator by itself: swarm node --role coordinator")
    names = partial(settings_of_workers, nodes=nodes)
    settings, asked = _started(["swarm", "node", "--nodes", str(nodes)], node_flags, check=names)
    name = settings.node_id
    this_process_runs(settings, settings.role, [f"{name}-{n}" for n in range(nodes)] if name else [])
    return run_workers(settings, nodes, asked)


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
    sources = sources_of(as_settings(node_flags), os.environ, node_flags.config)
    if node_flags.experiment is None and "experiment" not in sources:
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
    refuse_other_models(run, [joining.settings])
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
    refuse_other_models(run, [joining.settings])
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
