"""The nodes of a local swarm: which there are, with which settings, and the daemons that run them.

settings, number of nodes ─▶ local_swarm ─▶ LocalSwarm ─within_memory─▶ LocalSwarm ─▶ children
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from swarm.cli.elsewhere import Elsewhere, part_of
from swarm.cli.plan import changes, longest_talk, render_plan, render_remedies, verdict
from swarm.cli.say import say
from swarm.cli.supervisor import DaemonChild
from swarm.config import Settings, StartRequest, as_variable
from swarm.errors import MemoryPlanError
from swarm.node.process.worker_settings import number_flags, settings_of_workers
from swarm.planner.plan import Plan, in_processes
from swarm.planner.planner import plan_for, remedies_of
from swarm.policy.embedded import EMBEDDED
from swarm.provenance import cores
from swarm.store.place import open_place
from swarm.views.starts import settings_table

WORKER = "worker"
"""The workers are called worker-0, worker-1, ..., where nobody calls them otherwise."""
COORDINATOR = "coordinator"
OURS = "swarm up"
"""Where a setting came from that this command chose."""
NOTHING_STARTED = "nothing was started or written; the same command without --dry-run does it"


@dataclass(frozen=True)
class LocalSwarm:
    """A coordinator, unless every node keeps its own clock, and workers."""

    settings: Settings
    """What they share; the models of all workers, in their order."""
    workers: tuple[Settings, ...]
    """Settings of each worker."""
    processes: int | None
    """The workers share so many processes at most; None: each has its own."""

    @property
    def coordinators(self) -> tuple[Settings, ...]:
        if self.settings.clock == "own":
            return ()
        name = name_here(self.settings, COORDINATOR)
        return (replace(self.settings.of_a_node(), role="coordinator", node_id=name, hub_token=None),)

    @property
    def names(self) -> list[str]:
        return [*(str(coordinator.node_id) for coordinator in self.coordinators), *self.worker_names]

    @property
    def worker_names(self) -> list[str]:
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

        def process(numbers: range) -> DaemonChild:
            one = self.workers[numbers.start]
            if len(numbers) == 1 and self.processes != 1:
                return child(one.node_id, "worker", one)
            prefix = str(one.node_id).removesuffix(f"-{numbers.start}")
            # all have as many threads as this one: one each, or all cores if the process is the only one
            together = replace(one, node_id=prefix, model=self.settings.model, mixture=self.settings.mixture)
            all_of_them = len(numbers) == len(self.workers)
            title = f"{prefix}-*" if all_of_them else f"{prefix}-{{{numbers.start}..{numbers[-1]}}}"
            return child(title, "workers", together, *number_flags(numbers))

        clocks = [child(node.node_id, "coordinator", node) for node in self.coordinators]
        return [*clocks, *map(process, in_processes(len(self.workers), self.processes))]


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


def local_swarm(
    settings: Settings, nodes: int, processes: int | None = None, own_cores: int | None = None
) -> LocalSwarm:
    """Makes so many workers with the same settings; lists of models and of mixtures are dealt out to them.

    Args:
        processes: they share so many at most; None: each has its own.
        own_cores: of each worker, where they do not share this machine's.

    In a process only one of them computes at a time. A process that is the only one has all cores; else each has a
    share of them, but for an embedded model, which is too small to gain by a second thread.
    """
    shared = replace(settings, path=settings.place, expected_workers=nodes)
    one = replace(shared.of_a_node(), role="worker", node_id=name_here(shared, WORKER))
    named = settings_of_workers(one, range(nodes))
    share = own_cores or max(1, cores() // min(nodes, processes or nodes))
    workers = named if processes == 1 else [_with_a_share(worker, share) for worker in named]
    return LocalSwarm(shared, tuple(workers), processes)


def name_here(settings: Settings, name: str) -> str:
    """Returns the name of a node of this command: where this machine has a name in the place, the node bears that
    first."""
    return "-".join(filter(None, (open_place(settings.place).member, name)))


def _with_a_share(worker: Settings, share: int) -> Settings:
    return replace(worker, threads=worker.threads or (1 if worker.model[0] in EMBEDDED else share))


def plan_of(swarm: LocalSwarm) -> Plan | None:
    """Plans the memory of the swarm; None, with the reason in the log, where it cannot be known."""
    return plan_for(swarm.settings, len(swarm.workers), swarm.processes, longest_talk(swarm.settings))


def within_memory(swarm: LocalSwarm, made: Plan | None, force: bool) -> LocalSwarm:
    """Returns the swarm with micro-batches, or gradient checkpointing, that its plan needs for it to fit.

    Raises:
        MemoryPlanError: nothing of that makes it fit, and nobody insists; names what would.
    """
    settings = swarm.settings
    if made is None:
        return swarm
    if not made.fits and not force:
        would = render_remedies(remedies_of(made, settings, longest_talk(settings)))
        raise MemoryPlanError(
            f"{verdict(made)}; {would or 'of what was tried nothing would fit'}. `swarm plan` shows the parts; "
            "--force starts all the same"
        )
    if not made.fits:
        say(verdict(made))
    if changed := changes(made, settings):
        say(changed)
    checkpointing = made.gradient_checkpointing or settings.gradient_checkpointing
    planned = {"gradient_checkpointing": checkpointing, "micro_batch_tokens": made.micro_batch_tokens}
    workers = tuple(worker.with_values(planned) for worker in swarm.workers)
    return replace(swarm, settings=settings.with_values(planned), workers=workers)


def show_nodes(children: Sequence[DaemonChild], *, commands: bool) -> None:
    """Says a line for each daemon: what it does, or the command that starts it by hand."""
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
    children = fitting.children(asked, loaded)
    nodes = [node.as_recorded() for node in (*fitting.coordinators, *fitting.workers)]
    say(settings_table(nodes, [asked.sources], OURS, without_defaults=True))
    if backend:
        parts = [part_of(child.node_id) for child in children]
        say("\n" + backend.describe([(loaded.place, loaded.experiment, part) for part in parts]))
    else:
        say(_plan_shown(made, loaded))
    say("")
    show_nodes(children, commands=True)
    say(NOTHING_STARTED)


def show_dry_join(node: Settings, asked: StartRequest) -> None:
    """Print the settings of a node that would join, with their sources, and what it needs of memory."""
    made = None if node.endpoint else plan_for(node, 1, None, longest_talk(node))
    say(settings_table([node.as_recorded()], [asked.sources], OURS, without_defaults=True))
    say(_plan_shown(made, node))
    say(NOTHING_STARTED)


def _plan_shown(made: Plan | None, settings: Settings) -> str:
    return "\n" + (render_plan(made, settings) if made else "no memory plan: the size of the model is not known here")
