"""A node as a process: wire the parts of its role together, run them, turn what happened into an exit code.

A worker's torch is imported by its compute executor, while the node is already registered and listening; a
coordinator imports none.
"""

from __future__ import annotations

import os
import platform
import time
from functools import partial
from importlib.metadata import version
from random import SystemRandom
from typing import TYPE_CHECKING

import anyio

from swarm import __version__
from swarm.algo.registry import sampler
from swarm.config import Settings, variable
from swarm.errors import ConfigError, SwarmError
from swarm.logs import configure_logging, get_logger
from swarm.node.base.names import readable_name
from swarm.node.worker.ij_schedule import make_rule
from swarm.signing.trust import make_trust
from swarm.tasks.profiles import PROFILES
from swarm.types import Policy
from swarm.wire.layout import Layout

if TYPE_CHECKING:
    from swarm.node.process.executor import ComputeExecutor
    from swarm.node.sharing.verification import TaskSource
    from swarm.node.worker.worker import Worker

logger = get_logger(__name__)

_RECORDED = ("torch", "transformers", "reasoning-gym", "anyio", "watchfiles", "msgspec", "structlog")


def run_node(settings: Settings) -> int:
    """Run one node in the foreground until it ends.

    Returns:
        Exit code: 0 done, 1 failed, 2 configuration, 130 and 143 stopped by a signal.

    Raises:
        ConfigError: it is to sign, and there is no key.
        StoreError: the log files cannot be opened, so nothing could be recorded.
    """
    node_id = settings.node_id or _made_up_name(settings)
    layout = signed_layout(settings)
    logs = configure_logging(
        node_id=node_id,
        events_file=layout.events_file(node_id),
        stdout_file=layout.stdout_file(node_id),
        level=settings.log_level,
        held=True,
    )
    try:
        with logs:
            return _run(settings, layout, node_id)
    except SwarmError as error:
        return error.exit_code  # it is in the log, on the terminal and in the folder


def _made_up_name(settings: Settings) -> str:
    """The clock's owner has a name that says so; those who stand by are several."""
    if settings.role == "worker":
        return readable_name(SystemRandom())
    return f"coordinator-{readable_name(SystemRandom())}" if settings.standby else "coordinator"


def _run(settings: Settings, layout: Layout, node_id: str) -> int:
    log_start(settings)
    _check_role(settings)
    main = _coordinate if settings.role == "coordinator" else _work
    try:
        return anyio.run(main, settings, layout, node_id)
    except BaseExceptionGroup as group:
        raise first_swarm_error(group) or group from None


def _check_role(settings: Settings) -> None:
    if settings.role == "coordinator" and settings.clock == "own":
        raise ConfigError(
            f"{variable('clock')}: expected coordinator for a coordinator, got own, where every node keeps its own "
            f"clock: start no coordinator, or unset the variable"
        )
    if settings.standby and settings.role != "coordinator":
        raise ConfigError(
            f"{variable('standby')}: only a coordinator stands by, got {variable('role')} {settings.role!r}; "
            f"add --role coordinator"
        )


def signed_layout(settings: Settings) -> Layout:
    """The experiment's paths, with what this process does about signatures. Raises ConfigError without a key."""
    trust = make_trust(settings.signing, settings.private_folder, settings.shared_folder, settings.experiment)
    return Layout(settings.shared_folder, settings.experiment, trust)


def first_swarm_error(group: BaseExceptionGroup[BaseException]) -> SwarmError | None:
    """The deliberate error inside what a task group raised, None if there is anything else in it."""
    expected, other = group.split(SwarmError)
    if expected is None or other is not None:
        return None
    found: BaseException = expected
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, SwarmError)
    return found


def log_start(settings: Settings) -> None:
    """A node's first event."""
    logger.info("node.starting", role=settings.role, path=str(settings.shared_folder), pid=os.getpid(), **versions())


def versions() -> dict[str, str]:
    """The versions on which the figures of a run depend."""
    return {"swarm": __version__, "python": platform.python_version(), **{name: version(name) for name in _RECORDED}}


async def _coordinate(settings: Settings, layout: Layout, node_id: str) -> int:
    from swarm.node.coordinator.coordinator import Coordinator

    return await Coordinator(settings, layout, node_id, versions=versions()).run()


async def _work(settings: Settings, layout: Layout, node_id: str) -> int:
    from swarm.node.process.executor import ComputeExecutor
    from swarm.tasks.scoring import Scorer

    check(settings)
    async with Scorer(settings.scorer_processes) as scorer:
        with ComputeExecutor(time.monotonic) as executor:
            return await make_worker(settings, layout, node_id, scorer, executor).run()


def make_worker(
    settings: Settings,
    layout: Layout,
    node_id: str,
    scorer: TaskSource,
    executor: ComputeExecutor,
    *,
    obeys_signals: bool = True,
) -> Worker:
    """Wire up one worker, whose scorer and compute thread may be others' as well."""
    from swarm.node.worker.worker import Worker

    return Worker(
        settings,
        layout,
        node_id,
        tasks=checked_tasks(settings),
        load_policy=lambda: _load_policy(settings),
        task_source=scorer,
        executor=executor,
        obeys_signals=obeys_signals,
        versions=versions(),
    )


def check(settings: Settings) -> None:
    """Refuse what no worker can run with, before anything starts. Raises ConfigError."""
    if len(settings.model) != 1:
        raise ConfigError(
            f"MODEL_NAME: a node has one model, got {', '.join(settings.model)}; `swarm up` deals out a list"
        )
    checked_tasks(settings)
    sampler(settings.sampler)
    if settings.adaptive:
        make_rule(settings)


def checked_tasks(settings: Settings) -> tuple[str, ...]:
    """The tasks to draw from, in the order given.

    Raises:
        ConfigError: the profile has no such task.
    """
    profile = PROFILES[settings.profile]
    tasks = settings.tasks or tuple(profile)
    for task in tasks:
        if task not in profile:
            raise ConfigError(
                f"SWARM_TASKS (tasks): profile {settings.profile!r} has no task {task!r}; it has {', '.join(profile)}"
            )
    return tasks


def _load_policy(settings: Settings) -> Policy:
    from swarm.policy.policy import load_policy
    from swarm.policy.settings import compute_threads, grpo_config

    policy = load_policy(
        settings.model[0],
        grpo_config(settings),
        threads=compute_threads(settings),
        device=settings.device,
        hub_token=settings.hub_token,
        precision=settings.precision,
        attention=settings.attention,
    )
    return _taking_turns(policy, settings)


def _taking_turns(policy: Policy, settings: Settings) -> Policy:
    """The policy with the device lease around its updates, where the setting asks for it."""
    from swarm.node.process.lease import DeviceLease
    from swarm.policy.leased import LeasedPolicy, device_to_lease

    if settings.device_lease == "off":
        return policy
    device = device_to_lease(settings.device, gpus_only=settings.device_lease == "auto")
    if device is None:
        return policy
    lease = DeviceLease()
    return LeasedPolicy(policy, partial(lease.held, device), lease.take_waited)
