"""A node as a process: wire the parts of its role together, run them, turn what happened into an exit code.

A worker's torch is imported by its compute executor, while the node is already registered and listening; a
coordinator imports none.
"""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from random import SystemRandom

import anyio

from swarm import __version__
from swarm.config import Settings
from swarm.errors import ConfigError, SwarmError
from swarm.logs import configure_logging, get_logger
from swarm.node.names import readable_name
from swarm.protocol.layout import Layout
from swarm.tasks.profiles import PROFILES
from swarm.types import Policy

logger = get_logger(__name__)

_RECORDED = ("torch", "transformers", "reasoning-gym", "anyio", "watchfiles", "msgspec", "structlog")


def run_node(settings: Settings) -> int:
    """Run one node in the foreground until it ends.

    Returns:
        Exit code: 0 done, 1 failed, 2 configuration, 130 and 143 stopped by a signal.

    Raises:
        FolderError: the log files cannot be opened, so nothing could be recorded.
    """
    node_id = settings.node_id or ("coordinator" if settings.role == "coordinator" else readable_name(SystemRandom()))
    layout = Layout(settings.shared_folder, settings.experiment)
    logs = configure_logging(
        node_id=node_id,
        events_file=layout.events_file(node_id),
        stdout_file=layout.stdout_file(node_id),
        level=settings.log_level,
    )
    try:
        with logs:
            return _run(settings, layout, node_id)
    except SwarmError as error:
        return error.exit_code  # it is in the log, on the terminal and in the folder


def _run(settings: Settings, layout: Layout, node_id: str) -> int:
    logger.info("node.starting", role=settings.role, path=str(settings.shared_folder), pid=os.getpid(), **versions())
    main = _coordinate if settings.role == "coordinator" else _work
    try:
        return anyio.run(main, settings, layout, node_id)
    except BaseExceptionGroup as group:
        raise first_swarm_error(group) or group from None


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


def versions() -> dict[str, str]:
    """The versions on which the figures of a run depend."""
    return {"swarm": __version__, "python": platform.python_version(), **{name: version(name) for name in _RECORDED}}


async def _coordinate(settings: Settings, layout: Layout, node_id: str) -> int:
    from swarm.node.coordinator import Coordinator

    return await Coordinator(settings, layout, node_id, versions=versions()).run()


async def _work(settings: Settings, layout: Layout, node_id: str) -> int:
    from swarm.node.worker import Worker
    from swarm.tasks.scoring import Scorer

    if len(settings.model) != 1:
        raise ConfigError(
            f"MODEL_NAME: a node has one model, got {', '.join(settings.model)}; `swarm up` deals out a list"
        )
    tasks = checked_tasks(settings)
    async with Scorer(settings.scorer_processes) as scorer:
        worker = Worker(
            settings,
            layout,
            node_id,
            tasks=tasks,
            load_policy=lambda: _load_policy(settings),
            task_source=scorer,
        )
        return await worker.run()


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
    from swarm.policy.embedded import EMBEDDED, LEARNING_RATES
    from swarm.policy.policy import load_policy
    from swarm.policy.settings import GrpoConfig

    suited = LEARNING_RATES.get(settings.model[0], GrpoConfig.learning_rate)
    config = GrpoConfig(
        learning_rate=settings.learning_rate or suited,
        temperature=settings.temperature,
        max_new_tokens=settings.max_new_tokens,
        kl_weight=settings.kl_weight,
        max_grad_norm=settings.max_grad_norm,
        iterations=settings.grpo_iterations,
        micro_batch_tokens=settings.micro_batch_tokens,
        gradient_checkpointing=settings.gradient_checkpointing,
    )
    threads = settings.threads or (1 if settings.model[0] in EMBEDDED else None)  # too small to share out among cores
    return load_policy(settings.model[0], config, threads=threads, device=settings.device, hub_token=settings.hub_token)
