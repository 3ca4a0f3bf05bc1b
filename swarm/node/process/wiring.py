"""Wire a node's parts together: its context, its worker, its policy.

Torch is imported by the worker's compute thread, while the node is already registered and listening.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from swarm.algo.registry import advantage_scaling, loss, sampler
from swarm.config import NOBODY, Settings, StartRequest, variable
from swarm.errors import ConfigError, SwarmError
from swarm.logs import NodeLog, get_logger
from swarm.node.base.context import NodeContext
from swarm.node.process.generator_only import endpoint_config, load_generator
from swarm.node.process.host import this_process
from swarm.node.process.system import SYSTEM_CLOCK, ComputeExecutor, ThreadBlocking, compute_thread
from swarm.node.process.together import GenerationTogether
from swarm.node.worker.steps import make_rule
from swarm.planner.free_memory import process_memory
from swarm.provenance import made_with, versions
from swarm.records.files import id_of
from swarm.records.made_by import refuse_foreign
from swarm.signing.trust import make_trust
from swarm.store.base import Kind
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.systems import own_state_folder
from swarm.tasks.registry import NO_TASKS
from swarm.tasks.universe import own_mixture, refuse_unknown_tasks, universe_of
from swarm.types import Generator, Policy, Trainer
from swarm.wire import keys

if TYPE_CHECKING:
    from swarm.node.worker.worker import Worker
    from swarm.policy.shared_base import SharedBases

logger = get_logger(__name__)


def make_context(settings: Settings, node_id: str, asked: StartRequest = NOBODY) -> NodeContext:
    """Returns a node of this process in its experiment.

    Args:
        asked: the command that started it, and where its settings came from, for the record.

    Raises:
        ConfigError: it is to sign, and there is no key.
        ExperimentError: another program made the experiment; or, where nodes sign, it is another one than this machine
            began in.
    """
    place, names = (settings.place, settings.experiment), settings.expected_names
    run = open_place(settings.place).open(settings.experiment, writer=node_id)
    refuse_foreign(run)
    born = partial(id_of, run)
    trust = make_trust(settings.signing, settings.private_folder, *place, born, SYSTEM_CLOCK.wall, expected=names)
    run = replace(run, trust=trust)
    return NodeContext(
        settings=settings,
        node_id=node_id,
        run=run,
        clock=SYSTEM_CLOCK,
        blocking=ThreadBlocking(),
        process=this_process(),
        versions=versions(settings),
        process_memory=process_memory,
        kept=str(own_state_folder() / "kept"),
        made_with=partial(made_with, settings, asked),
    )


def node_log(ctx: NodeContext) -> NodeLog:
    """Returns where a node's events go."""
    opened = ctx.run.store.open_log
    return NodeLog(ctx.node_id, partial(opened, keys.events(ctx.node_id)), partial(opened, keys.stdout(ctx.node_id)))


def remove_empty_logs(run: Run, node_id: str) -> None:
    """Take back the logs that were opened for a node and have no line: it was refused before it began."""
    for key in (keys.events(node_id), keys.stdout(node_id)):
        with suppress(SwarmError):
            found = run.store.stat(key)
            if found is not None and found.kind is Kind.FILE and not found.size:
                run.store.remove(key)


@asynccontextmanager
async def worker_maker(
    settings: Settings, nodes: int = 1, load: Callable[[Settings], Policy] | None = None
) -> AsyncIterator[Callable[[NodeContext], Worker]]:
    """Yields a function that makes the workers of this process, and runs what they have in common while the block runs.

    That is the scoring children, the compute thread, and their first round.

    Args:
        nodes: how many will be made.
        load: gives a node its policy; None: what its settings name.
    """
    from swarm.node.worker.checkpoints import first_day
    from swarm.node.worker.worker import Worker
    from swarm.tasks.scoring import Scorer

    def make(ctx: NodeContext) -> Worker:
        return Worker(
            ctx,
            universe=universe_of(ctx.settings),
            load_policy=partial(load, ctx.settings)
            if load
            else partial(_load_policy, ctx.settings, bases, partial(first_day, ctx)),
            task_source=scorer,
            prepare=scorer.start,
            compute=ComputeExecutor(ctx.clock.monotonic, thread, ctx.node_id, batches if nodes > 1 else None),
            others_ready=together.wait,
        )

    # Nodes of one process that was killed come back one after the other, as each has its own rounds to redo. The first
    # would find its round open and train without the groups of the others, which do not count as alive yet.
    together, bases = asyncio.Barrier(nodes), cache(_no_bases)
    tasks = settings.task_table or NO_TASKS
    scorer = Scorer(settings.scorer_processes, settings.task_families, tasks)
    async with AsyncExitStack() as ends:
        await scorer.enter()  # each node has it start once it is registered: that takes seconds
        ends.push_async_exit(scorer)
        with compute_thread() as thread:
            batches = GenerationTogether(thread, SYSTEM_CLOCK.monotonic)
            yield make


def check(settings: Settings) -> None:
    """Refuse what no node of this role can run with, before anything starts. Raises ConfigError."""
    if settings.role != "coordinator":
        one_model(settings)
        own_mixture(settings, universe_of(settings))
    check_alone(settings)
    if settings.role == "worker" and settings.adaptive:
        make_rule(settings)


def check_alone(settings: Settings) -> None:
    """Checks those settings that no experiment can mend: a worker's profile, I, J and rule may still come from one.

    Raises ConfigError.
    """
    _check_role(settings)
    make_trust(settings.signing, settings.private_folder, settings.place, settings.experiment)  # there is a key
    if settings.role == "coordinator":
        return
    refuse_unknown_tasks(settings)
    sampler(settings.sampler)
    loss(settings.loss)
    advantage_scaling(settings.advantage_scaling)


def _check_role(settings: Settings) -> None:
    """Refuse a role that contradicts the clock. Raises ConfigError."""
    if settings.role in ("coordinator", "evaluator", "person") and settings.clock == "own":
        raise ConfigError(
            f"{variable('clock')}: expected coordinator for the role {settings.role}, got own, where every node keeps "
            f"its own clock: start no {settings.role}, or unset the variable"
        )
    for name, roles in (("endpoint", ("generator",)), ("awaited", ("generator", "person"))):
        if getattr(settings, name) and settings.role not in roles:
            raise ConfigError(
                f"{variable(name)}: only a {' or a '.join(roles)} has it, got {variable('role')} {settings.role!r}; "
                f"give it to that node alone (swarm join --role generator), or unset it"
            )
    endpoint_config(settings)
    if settings.standby and settings.role != "coordinator":
        raise ConfigError(
            f"{variable('standby')}: only a coordinator stands by, got {variable('role')} {settings.role!r}; "
            f"add --role coordinator"
        )


def one_model(settings: Settings) -> str:
    """Returns the model of a worker. Raises ConfigError: it has several."""
    if len(settings.model) != 1:
        raise ConfigError(
            f"MODEL_NAME: a node has one model, got {', '.join(settings.model)}; `swarm up` deals out a list"
        )
    return settings.model[0]


def _no_bases() -> SharedBases:
    from swarm.policy.shared_base import SharedBases

    return SharedBases()


def _load_policy(
    settings: Settings,
    bases: Callable[[], SharedBases] = _no_bases,
    first: Callable[[], str] | None = None,
) -> Policy:
    if not settings.trains:
        return load_generator(settings, partial(_load_generator, settings, first))
    logger.info("model.loading", model=settings.model[0], first="torch is imported, which takes some seconds")
    from swarm.policy.policy import JoinedPolicy, load_policy
    from swarm.policy.settings import grpo_config, loading_options

    config, loading = grpo_config(settings), loading_options(settings)
    if config.adapter:
        loading["bases"] = bases()
    if first:
        loading["first_day"] = first
    policy = load_policy(settings.model[0], config, **loading)
    gc.collect()
    gc.freeze()  # the objects of torch and the model stay: looking through them cost a quarter of a light round
    return JoinedPolicy(policy.generator, _taking_turns(policy.trainer, settings))


def _load_generator(settings: Settings, first: Callable[[], str] | None) -> Generator:
    from swarm.policy.policy import load_generator
    from swarm.policy.settings import grpo_config, loading_options

    logger.info("model.loading", model=settings.model[0], first="torch is imported, which takes some seconds")
    return load_generator(settings.model[0], grpo_config(settings), first_day=first, **loading_options(settings))


def _taking_turns(trainer: Trainer, settings: Settings) -> Trainer:
    """Returns the trainer with the device lease around its updates, where the setting asks for it."""
    from swarm.policy.embedded import suited_device
    from swarm.policy.leased import DeviceLease, LeasedTrainer, device_to_lease

    if settings.device_lease == "off":
        return trainer
    device = device_to_lease(suited_device(settings.device, settings.model), gpus_only=settings.device_lease == "auto")
    if device is None:
        return trainer
    lease = DeviceLease()
    return LeasedTrainer(trainer, partial(lease.held, device), lease.take_waited)
