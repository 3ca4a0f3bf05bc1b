"""The nodes of a local swarm: which there are, with which settings, and the daemons that run them.

settings, number of nodes ─▶ local_swarm ─┐
                                          ├─▶ LocalSwarm ─within_memory─▶ LocalSwarm ─▶ children
an earlier experiment ─────▶ repetition ──┘   `swarm up --from`

Of an experiment that is repeated the workers keep their names, for the questions that a node asks itself follow from
its name: logs/{node}/starts.jsonl has the settings of each, as it was started last; flags, environment and file count
above them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from swarm.cli.elsewhere import Elsewhere, part_of
from swarm.cli.flags import CommonFlags, as_settings
from swarm.cli.plan import changes, render_plan, render_remedies, verdict
from swarm.cli.say import say, warn
from swarm.cli.supervisor import DaemonChild
from swarm.config import NOBODY, Settings, StartRequest, as_variable, load_settings, refuse_unsafe, sources_of
from swarm.config.settings import FIELDS
from swarm.config.sources import Given, parse
from swarm.errors import ConfigError, ExperimentError, MemoryPlanError
from swarm.harmless import printable
from swarm.node.process.worker_settings import settings_of_workers
from swarm.planner.plan import Plan
from swarm.policy.embedded import EMBEDDED
from swarm.provenance import cores, made_with
from swarm.records.made_by import refuse_foreign
from swarm.records.starts import WHERE, changed_makings, last_starts
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.views.starts import settings_table
from swarm.wire.messages import NodeStart

WORKER = "worker"
"""The workers are called worker-0, worker-1, ..., where nobody calls them otherwise."""
COORDINATOR = "coordinator"
OURS = "swarm up"
"""Where a setting came from that this command chose."""
NOT_REPEATED = (*WHERE, "test_mode", "standby", "expected_workers", "device_lease")
"""Settings that say where a node was, that follow from how it is started, or from which others follow that are
recorded themselves."""
MOST_WORKERS = 64
"""That are started again: each is a process."""
NOTHING_STARTED = "nothing was started or written; the same command without --dry-run does it"


@dataclass(frozen=True)
class LocalSwarm:
    """A coordinator, unless every node keeps its own clock, and workers."""

    settings: Settings
    """What they share; the models of all workers, in their order."""
    workers: tuple[Settings, ...]
    """Settings of each worker."""
    in_process: bool
    """All workers in one process."""

    @property
    def coordinators(self) -> tuple[Settings, ...]:
        """One, or none."""
        if self.settings.clock == "own":
            return ()
        name = name_here(self.settings, COORDINATOR)
        return (replace(self.settings.of_a_node(), role="coordinator", node_id=name, hub_token=None),)

    @property
    def names(self) -> list[str]:
        """Returns the ids of all nodes."""
        return [*(str(coordinator.node_id) for coordinator in self.coordinators), *self.worker_names]

    @property
    def worker_names(self) -> list[str]:
        """Returns the ids of the workers."""
        return [str(worker.node_id) for worker in self.workers]

    def children(self, asked: StartRequest, loaded: Settings) -> list[DaemonChild]:
        """Returns the daemons to start.

        Args:
            asked: what the user asked for, for the record of each node.
            loaded: the settings that this came to.
        """

        def environment(node: Settings) -> dict[str, str]:
            return node.as_environment() | as_variable(_with_ours(asked, loaded, node))

        def child(name: str | None, role: str, node: Settings, *arguments: str) -> DaemonChild:
            return DaemonChild(str(name), role, environment(node), arguments, about(node, len(self.workers)))

        first = [child(node.node_id, "coordinator", node) for node in self.coordinators]
        if not self.in_process:
            return [*first, *(child(node.node_id, "worker", node) for node in self.workers)]
        together = self._together()
        return [*first, child(f"{together.node_id}-*", "workers", together, "--nodes", str(len(self.workers)))]

    def _together(self) -> Settings:
        """Returns the settings of the one process of all workers. Raises ConfigError: they differ in more than that."""
        prefix = str(self.workers[0].node_id).removesuffix("-0")
        together = replace(self.workers[0], node_id=prefix, model=self.settings.model, mixture=self.settings.mixture)
        if tuple(settings_of_workers(together, len(self.workers))) != self.workers:
            named = ", ".join(str(worker.node_id) for worker in self.workers)
            raise ConfigError(
                "--in-process: expected workers that differ in nothing but their models and mixtures, and are called "
                f"NAME-0, NAME-1 and so on, got {named}; leave it out"
            )
        return together


def about(node: Settings, workers: int) -> str:
    """Returns in a few words what a node does."""
    if node.role == "coordinator":
        return f"opens the rounds, {node.max_rounds} of them, for {workers} workers"
    threads = f", {node.threads} thread{'s' if node.threads > 1 else ''}" if node.threads else ""
    groups = f"I {node.local_groups}, J {node.external_groups}, G {node.generations}"
    asks = f" asks {','.join(node.mixture)}," if node.mixture else ""
    return f"trains {','.join(node.model)} on {groups}{threads}{asks.rstrip(',')}"


def _with_ours(asked: StartRequest, loaded: Settings, node: Settings) -> StartRequest:
    """Returns the record with the settings that this command has chosen by itself marked as its own."""
    mine, theirs = node.as_recorded(), loaded.as_recorded()
    ours = {name: OURS for name in mine if mine[name] != theirs[name] and name not in asked.sources}
    return StartRequest(asked.command, {**asked.sources, **ours})


def local_swarm(settings: Settings, nodes: int, in_process: bool, own_cores: int | None = None) -> LocalSwarm:
    """Makes so many workers with the same settings; lists of models and of mixtures are dealt out to them.

    Args:
        own_cores: of each worker, where they do not share this machine's.

    In one process only one of them computes at a time, and the cores are its; otherwise each gets a share of them,
    but for an embedded model, which is too small to gain by a second thread.
    """
    shared = replace(settings, path=settings.place, expected_workers=nodes)
    one = replace(shared.of_a_node(), role="worker", node_id=name_here(shared, WORKER))
    named = settings_of_workers(one, nodes)
    share = own_cores or max(1, cores() // nodes)
    workers = named if in_process else [_with_a_share(worker, share) for worker in named]
    return LocalSwarm(shared, tuple(workers), in_process)


def name_here(settings: Settings, name: str) -> str:
    """Returns the name of a node of this command: where this machine has a name in the place, the node bears that
    first."""
    return "-".join(filter(None, (open_place(settings.place).member, name)))


def _with_a_share(worker: Settings, share: int) -> Settings:
    return replace(worker, threads=worker.threads or (1 if worker.model[0] in EMBEDDED else share))


def plan_of(swarm: LocalSwarm) -> Plan | None:
    """Plans the memory of the swarm; None, with the reason in the log, where it cannot be known."""
    from swarm.cli.plan import longest_talk
    from swarm.planner.planner import plan_for

    return plan_for(swarm.settings, len(swarm.workers), swarm.in_process, longest_talk(swarm.settings))


def within_memory(swarm: LocalSwarm, made: Plan | None, force: bool) -> LocalSwarm:
    """Returns the swarm with micro-batches, or gradient checkpointing, that its plan needs for it to fit.

    Raises:
        MemoryPlanError: nothing of that makes it fit, and nobody insists; names what would.
    """
    settings = swarm.settings
    if made is None:
        return swarm
    if not made.fits:
        if not force:
            raise MemoryPlanError(
                f"{verdict(made)}; {_what_would(made, settings)}. `swarm plan` shows the parts; "
                "--force starts all the same"
            )
        say(verdict(made))
    if changed := changes(made, settings):
        say(changed)
    checkpointing = made.gradient_checkpointing or settings.gradient_checkpointing
    all_of_them = _planned([settings, *swarm.workers], checkpointing, made.micro_batch_tokens)
    return replace(swarm, settings=all_of_them[0], workers=tuple(all_of_them[1:]))


def _what_would(made: Plan, settings: Settings) -> str:
    from swarm.cli.plan import longest_talk
    from swarm.planner.planner import remedies_of

    found = remedies_of(made, settings, longest_talk(settings))
    return render_remedies(found) or "of what was tried nothing would fit"


def _planned(nodes: Sequence[Settings], checkpointing: bool | None, micro_batch_tokens: int) -> list[Settings]:
    return [
        replace(node, gradient_checkpointing=checkpointing, micro_batch_tokens=micro_batch_tokens) for node in nodes
    ]


class Repetition(NamedTuple):
    """A swarm once more."""

    swarm: LocalSwarm
    base: Given
    """The settings that it shares, with where they came from."""
    changed: list[str]
    """What beside the settings is not what it was then: libraries, code, models, hardware."""


def repetition(source: str, given_flags: CommonFlags | None, in_process: bool) -> Repetition:
    """Returns the swarm of an earlier experiment.

    Args:
        source: an experiment of the same shared folder, or the path of one's folder.
        given_flags: what is given now; it counts above what was then.

    Raises:
        ExperimentError: there is no such experiment, or none of its workers has a record of its start.
        ConfigError: a recorded setting is not one that this version can have, or names code that nobody here named.
    """
    given_flags = given_flags or CommonFlags()
    run = _open(source, given_flags)
    starts = last_starts(run)
    workers = [start for start in starts if start.role == "worker"]
    if not workers:
        raise ExperimentError(
            f"--from {source}: expected a logs/NODE/starts.jsonl of its workers in {run.store.describe()}, got none: "
            "an older version made it, or it never began. Give its settings yourself"
        )
    if len(workers) > MOST_WORKERS:
        raise ExperimentError(
            f"--from {source}: {run.store.describe()} records {len(workers)} workers; at most {MOST_WORKERS} are "
            f"started from a shared folder. `swarm status --started --experiment {run.experiment}` shows them; start "
            "those that you mean with --config"
        )
    if gone := sorted({name for start in workers for name in start.settings} - FIELDS.keys()):
        warn(f"--from {source}: recorded there, and no setting of this version: {printable(', '.join(gone))[:400]}")
    clock = next((start for start in starts if start.role == "coordinator"), workers[0])
    models = tuple(model for start in workers for model in _models(start))
    again: Given = {"experiment": (f"{run.experiment}-again", OURS)}
    base: Given = {**_recorded(clock), "model": (models, _origin(clock)), **again}
    shared = _here(_load(given_flags, base), len(workers))
    repeated = tuple(
        replace(
            _here(_load(given_flags, {**_recorded(start), **again}), len(workers)),
            role="worker",
            node_id=start.node_id,
            model=(model,),
            mirror=None,
        )
        for start, model in zip(workers, itertools.cycle(shared.model), strict=False)
    )
    changed = [
        text
        for start, worker in zip(workers, repeated, strict=True)
        for text in changed_makings(start, made_with(worker, NOBODY))
    ]
    return Repetition(LocalSwarm(shared, repeated, in_process), base, list(dict.fromkeys(changed)))


def _open(source: str, given_flags: CommonFlags) -> Run:
    """`demo`, or `/mnt/shared/experiments/demo`."""
    folder = Path(source).expanduser()
    if len(folder.parts) == 1:
        run = open_place(_load(given_flags, {}).place).open(source)
    else:
        run = open_place(folder.absolute().parent.parent).open(folder.name)
    refuse_foreign(run)
    return run


def _load(given_flags: CommonFlags, base: Given) -> Settings:
    named = sources_of(as_settings(given_flags), os.environ, given_flags.config)
    refuse_unsafe({name: value for name, value in base.items() if name not in named})
    return load_settings(as_settings(given_flags), os.environ, given_flags.config, base=base)


def _here(settings: Settings, workers: int) -> Settings:
    return replace(settings, path=settings.place, expected_workers=workers)


def _models(start: NodeStart) -> tuple[str, ...]:
    models: tuple[str, ...] = parse("model", start.settings.get("model", ()), _origin(start))
    return models


def _origin(start: NodeStart) -> str:
    return f"the experiment {start.experiment}"


def _recorded(start: NodeStart) -> Given:
    values = {name: value for name, value in start.settings.items() if name in FIELDS}
    return {name: (value, _origin(start)) for name, value in values.items() if name not in NOT_REPEATED}


def show_nodes(children: Sequence[DaemonChild], *, commands: bool) -> None:
    """A line for each daemon: what it does, or the command that starts it by hand."""
    width = max((len(child.node_id) for child in children), default=0)
    for child in children:
        say(f"{child.node_id:<{width}}  {child.command if commands else child.about}")


def show_dry_run(swarm: LocalSwarm, asked: StartRequest, loaded: Settings, backend: Elsewhere | None = None) -> None:
    """Print the settings with their sources, the memory plan or what jobs are to have, and the command of each daemon.

    Args:
        asked: what the user asked for.
        loaded: the settings that this came to.
    """
    made = None if backend else plan_of(swarm)
    fitting = within_memory(swarm, made, force=True)
    nodes = [node.as_recorded() for node in (*fitting.coordinators, *fitting.workers)]
    say(settings_table(nodes, [asked.sources], OURS, without_defaults=True))
    children = fitting.children(asked, loaded)
    if backend:
        parts = [part_of(child.node_id) for child in children]
        say("\n" + backend.describe([(loaded.place, loaded.experiment, part) for part in parts]))
    else:
        say(
            "\n" + (render_plan(made, loaded) if made else "no memory plan: the size of the model cannot be known here")
        )
    say("")
    show_nodes(children, commands=True)
    say(NOTHING_STARTED)


def show_dry_join(node: Settings, asked: StartRequest) -> None:
    """Print the settings of a node that would join, with their sources, and what it needs of memory."""
    from swarm.cli.plan import longest_talk
    from swarm.planner.planner import plan_for

    made = None if node.endpoint else plan_for(node, 1, False, longest_talk(node))
    say(settings_table([node.as_recorded()], [asked.sources], OURS, without_defaults=True))
    say("\n" + (render_plan(made, node) if made else "no memory plan: the size of the model cannot be known here"))
    say(NOTHING_STARTED)
