"""`swarm plan`: how much memory would a swarm need, and does it fit?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.before_start import suited_settings
from swarm.cli.fork_server import can_fork
from swarm.cli.run_flags import DEFAULT_WORKERS, UP_DEFAULTS, UpFlags
from swarm.cli.say import warn
from swarm.config import Settings
from swarm.planner.device_memory import far_device
from swarm.planner.node_memory import ONE_TURN, Talk
from swarm.planner.plan import RESERVE, Plan
from swarm.planner.planner import Remedy, make_plan, problems, refusal, remedies_of
from swarm.policy.embedded import suited_device
from swarm.provenance import cores
from swarm.systems import require_for
from swarm.tasks.python.questions import turns_of
from swarm.tasks.registry import NO_TASKS
from swarm.tasks.universe import check_tasks
from swarm.views.text import size, table

REPLY_TOKENS = 128
"""Assumed of a reply, with the chat template's marks: some hundred words. How long it is shows when it is made."""


def plan(
    *,
    nodes: Annotated[int, Parameter(validator=Number(gte=1))] = DEFAULT_WORKERS,
    in_process: bool = False,
    device_memory: str | None = None,
    up_flags: UpFlags | None = None,
    as_json: Annotated[bool, Parameter("--json")] = False,
) -> int:
    """Predict the memory of a swarm, and say what fits.

    Exit code 0 if it fits, 1 if not. The settings are those of `swarm up`.

    Args:
        nodes: Number of workers.
        in_process: All workers in one process, as `swarm up --in-process`.
        device_memory: Plan for a device that is not on this machine, by its memory, such as 16GB or 22GiB (with
            --device cpu, or embedded models alone: for a machine without a GPU).
        as_json: JSON instead of a table.
    """
    require_for("`swarm plan`")
    settings = suited_settings(up_flags, **UP_DEFAULTS)
    check_tasks(settings)
    names = settings.model[:nodes]
    far = far_device(device_memory, suited_device(settings.device, names)) if device_memory else None
    if far is None and (wrong := problems(settings)):
        raise refusal(wrong, settings.model)
    if far and settings.device is None and not far.is_gpu:
        warn(
            f"--device-memory {device_memory} is taken for the memory of a machine, because embedded models compute on "
            "the CPU. --device cuda (SWARM_DEVICE) plans a GPU"
        )
    talk = longest_talk(settings)
    processes = most_processes(settings, in_process=in_process, elsewhere=far is not None)
    made = make_plan(settings, nodes, processes, talk, far)
    found = [] if made.fits else remedies_of(made, settings, talk)
    parts = [_json(made, found)] if as_json else [render_plan(made, settings), render_remedies(found)]
    sys.stdout.write("\n".join(filter(None, parts)) + "\n")
    return 0 if made.fits else 1


def most_processes(settings: Settings, *, in_process: bool, elsewhere: bool) -> int | None:
    """Returns how many processes the workers share, at most; None: each has its own.

    On a CPU of this machine that is one for each core: more would take turns on it, and each holds torch, a scorer and
    an event loop. Nodes of one process that train adapters generate together, which rounds otherwise; so they share one
    only if they are asked to.
    """
    if in_process:
        return 1
    own = elsewhere or settings.adapter.kind != "none" or not can_fork([suited_device(settings.device, settings.model)])
    return None if own else cores()


def _json(made: Plan, found: Sequence[Remedy]) -> str:
    content: dict[str, Any] = msgspec.to_builtins(made)
    content |= {"needed": made.needed, "host_needed": made.host_needed, "usable": made.usable, "fits": made.fits}
    content |= {"would_fit": [remedy.flags for remedy in found]}
    return msgspec.json.encode(content).decode()


def render_plan(plan: Plan, settings: Settings) -> str:
    """Returns the table of parts, what is free, the verdict, the choice, and the largest configuration that fits."""
    head, foot = [_title(plan), _assumption(plan), ""], ["", verdict(plan), _choice(plan, settings), _most(plan)]
    return "\n".join([*head, _table(plan), *foot])


def verdict(plan: Plan) -> str:
    """Tells whether it fits, in one line."""
    whose = "of its host" if plan.device.elsewhere else f"of the host's {size(plan.device.host_free)}"
    host = f", and {size(plan.host_needed)} {whose}" if plan.host_needed else ""
    where = f"{plan.device.title} and the CPU" if plan.on_host else plan.device.title
    return (
        f"{'fits' if plan.fits else 'does not fit'}: {_nodes(plan.nodes)} on {where} need "
        f"{size(plan.needed)} of {size(plan.device.free)} free{host} ({RESERVE:.0%} stay in reserve)"
    )


def render_remedies(found: Sequence[Remedy]) -> str:
    """Returns what would fit, for somebody to choose from; empty where nothing would."""
    if not found:
        return ""
    return f"what would fit, and nothing does by itself: {', or '.join(map(_remedy, found))}"


def _remedy(remedy: Remedy) -> str:
    if remedy.plan is None:
        return remedy.flags
    way = ", small matrices beside frozen weights" if remedy.plan.adapter != "none" else ""
    return f"{remedy.flags} ({size(remedy.plan.needed)}{way})"


def changes(plan: Plan, settings: Settings) -> str:
    """Returns in one line what the plan does otherwise than the settings that it was made from; empty if nothing."""
    done = []
    if plan.gradient_checkpointing and not settings.gradient_checkpointing:
        done.append("turned on gradient checkpointing (SWARM_GRADIENT_CHECKPOINTING=False forbids it)")
    if plan.micro_batch_tokens < settings.micro_batch_tokens:
        done.append(f"cut micro-batches from {settings.micro_batch_tokens} to {plan.micro_batch_tokens} tokens")
    return f"to save memory, the plan {' and '.join(done)}" if done else ""


def _title(plan: Plan) -> str:
    several = "one process each" if plan.processes == plan.nodes else f"in {plan.processes} processes"
    processes = "in one process" if plan.processes == 1 < plan.nodes else several
    what = "adapters beside " if plan.adapter != "none" else ""
    models = ", ".join(name for name in plan.models if name not in plan.on_host)
    beside = f" and {', '.join(plan.on_host)} on the CPU" if plan.on_host else ""
    return f"{_nodes(plan.nodes)} of {what}{models} on {plan.device.title}{beside}, {processes}"


def _assumption(plan: Plan) -> str:
    return (
        f"assumed: prompts of {plan.prompt_tokens} tokens, the longest measured for these tasks, "
        f"and completions of {plan.new_tokens}, all of full length"
    )


def _table(plan: Plan) -> str:
    rows = [(part.name + (" (host)" if part.on_host else ""), size(part.one), size(part.all)) for part in plan.parts]
    for name, on_host in (("total", False), ("total (host)", True)):
        parts = [part for part in plan.parts if part.on_host == on_host]
        if plan.host_needed or not on_host:
            rows.append((name, size(sum(part.one for part in parts)), size(sum(part.all for part in parts))))
    return table(("memory", "one node", _nodes(plan.nodes)), rows)


def _choice(plan: Plan, settings: Settings) -> str:
    way = f"with{'' if plan.gradient_checkpointing else 'out'} gradient checkpointing"
    how = f"micro-batches of up to {plan.micro_batch_tokens} tokens, {way}"
    if not plan.fits:
        return f"that is with the least: {how}"
    return "; ".join(filter(None, (f"chosen: {how}", changes(plan, settings))))


def _most(plan: Plan) -> str:
    longest = plan.longest_completion
    return (
        f"largest that fits: {_nodes(plan.most_nodes)} with what was chosen; for {_nodes(plan.nodes)} completions of "
        f"{'no length (none fits)' if longest is None else f'{longest} tokens'}"
    )


def _nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"


def longest_talk(settings: Settings) -> Talk:
    """Returns the longest conversation among the tasks that the settings define."""
    table = settings.task_table or NO_TASKS
    files = [Path(asked["python"]) for asked in table.values() if "python" in asked]
    turns = max(map(turns_of, files), default=1)
    return Talk(turns, REPLY_TOKENS) if turns > 1 else ONE_TURN
