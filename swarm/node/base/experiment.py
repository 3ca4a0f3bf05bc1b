"""The settings that make an experiment what it is: written once by its first node, and compared by every other.

record_start notes what a node was started with, and says where that is not what it was started with before.

    settings, made_with ─▶ NodeStart ─▶ logs/{node}/starts.jsonl ─▶ `swarm status --started`

A node that cannot write it says so and goes on: the record is for people and for later starts.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from swarm.config import Settings, identity_defaults, rule_in_settings, variable
from swarm.errors import AlreadyThereError, ProtocolError, StoreError
from swarm.harmless import quoted
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext
from swarm.records import files
from swarm.records.listing import entries
from swarm.records.starts import changed_settings, last_start
from swarm.records.task_files import MOST_BYTES, publish
from swarm.store.base import Kind
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import ExperimentFile, NodeStart

logger = get_logger(__name__)

SHARED = ("seed", "profile", "tasks", "task_table", "task_families", "clock", "max_stages", "revise")
"""Settings in which a node that differs from its experiment has nothing to share with its peers. In the others one that
does not train cannot differ."""


def read_experiment(run: Run) -> ExperimentFile | None:
    """Returns the experiment's identity, None where nobody has made it yet. Blocking.

    Raises:
        StoreError: the file is there but cannot be understood.
    """
    try:
        return files.read_experiment(run)
    except ProtocolError as error:
        raise StoreError(f"{error}; restore the file, or choose another EXPERIMENT_NAME") from None


def differences(settings: Settings, experiment: ExperimentFile) -> list[str]:
    """Returns one text per setting in which these settings would be another experiment."""
    return list(differing(settings, experiment).values())


def differing(settings: Settings, experiment: ExperimentFile) -> dict[str, str]:
    """Returns the same, by setting."""
    asked, made = _by_todays_names(settings.experiment_identity()), identity_of(experiment)
    return {
        name: f"{variable(name)} was {quoted(made[name])}, now {quoted(asked[name])}"
        for name in asked
        if name in made and made[name] != asked[name] and (settings.trains or name in SHARED)
    }


def identity_of(experiment: ExperimentFile) -> dict[str, Any]:
    """Returns setting -> value of all that makes an experiment, by today's names; as it was written, sound or not."""
    return _by_todays_names(experiment.identity)


def _by_todays_names(identity: dict[str, Any]) -> dict[str, Any]:
    whole = identity_defaults() | identity
    rule = whole.get("adaptive_rule")
    return whole | {"adaptive_rule": rule_in_settings(rule)} if isinstance(rule, str) else whole


def is_begun(run: Run) -> bool:
    """Tells whether anything was done in an experiment; a start that was aborted leaves its identity at most. Blocking.

    Raises:
        StoreError: it cannot be listed.
    """
    clock = files.read_clock(run)
    if clock.problem or (clock.state and (clock.state.finished or clock.state.round > 0)):
        return True
    parts = (keys.ROLLOUTS, keys.REWARDS, keys.CHECKPOINTS)
    return any(entry.kind is not Kind.OTHER for part in parts for entry in entries(run.store, part))


def claim_experiment(ctx: NodeContext, *, create: bool = True, anew: bool = False) -> tuple[bool, list[str]]:
    """Say what the experiment is where nobody has, if `create`, and compare it with this node's settings. Blocking.

    Nodes with the same settings that create it at once say the same.

    Args:
        anew: where it is another one in which nothing was done, as an aborted start leaves, say it anew.

    Returns:
        Whether it was created, and the `differences`: none where it is the same one, or is none yet.

    Raises:
        StoreError: the file cannot be understood, or not be written.
    """
    experiment = read_experiment(ctx.run)
    replaced = anew and experiment is not None and bool(differences(ctx.settings, experiment)) and not is_begun(ctx.run)
    created = replaced or (create and experiment is None)
    if created:
        file = ExperimentFile(
            experiment_name=ctx.run.experiment,
            created_at=ctx.clock.wall(),
            created_by=ctx.node_id,
            identity=ctx.settings.experiment_identity(),
            versions=dict(ctx.versions),
            max_rounds=ctx.settings.max_rounds,
            id=_id(ctx, experiment),
        )
        with suppress(AlreadyThereError):
            ctx.run.store.put(keys.EXPERIMENT, encode(file), if_absent=not replaced)
        experiment = read_experiment(ctx.run)  # of two that create it at once it may be the other one's
    return created, differences(ctx.settings, experiment) if experiment else []


def _id(ctx: NodeContext, replaced: ExperimentFile | None) -> str | UnsetType:
    """Returns the id of an experiment; who says anew what it is keeps the id: others may have signed with it."""
    if replaced is not None:
        return replaced.id
    fresh = blake2b(ctx.process.secret, digest_size=16, person=b"experiment id").hexdigest()
    return ctx.run.trust.begin(fresh, partial(is_begun, ctx.run)) or UNSET


def other_experiment(run: Run, changed: list[str]) -> str:
    """Returns the message for somebody whose settings differ from those of the experiment in the folder."""
    return (
        f"{run.store.describe()} holds an experiment with other settings ({'; '.join(changed)}): "
        f"go on with its settings and its MODEL_NAME, or choose another --experiment"
    )


def publish_task_files(ctx: NodeContext) -> None:
    """Puts the files that a run's own tasks are asked from into its place, before the experiment is. Blocking; raises
    StoreError."""
    if alone := publish(ctx.run.store, ctx.settings.task_table or {}):
        logger.warning(
            "tasks.not_published", tasks=alone, most_bytes=MOST_BYTES, consequence="who joins needs their files"
        )


async def record_start(ctx: NodeContext, rounds_done: int = 0) -> None:
    """Append this start to the node's record."""
    try:
        changed = await ctx.blocking.run(_record, ctx, rounds_done)
    except StoreError as error:
        logger.warning("start.not_recorded", error=str(error))
        return
    if changed:
        logger.info("settings.changed", since_last_start=changed)


def _record(ctx: NodeContext, rounds_done: int) -> list[str]:
    """Blocking; returns what differs from the start before."""
    start = NodeStart(
        timestamp=ctx.clock.wall(),
        node_id=ctx.node_id,
        experiment=ctx.run.experiment,
        role=ctx.settings.role,
        incarnation=ctx.process.incarnation,
        settings=ctx.settings.as_recorded(),
        rounds_done=rounds_done,
        **msgspec.structs.asdict(ctx.made_with()),
    )
    before = last_start(ctx.run, ctx.node_id)
    ctx.run.store.append_records(keys.starts(ctx.node_id), [msgspec.json.encode(start)], durable=True)
    return changed_settings(before, start.settings) if before else []
