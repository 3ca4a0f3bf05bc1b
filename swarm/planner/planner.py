"""The plan for a swarm on this machine. Takes milliseconds and no torch for a model that is known.

Settings ─▶ sizes of the models (shape), activations (footprint), free memory (device_memory) ─▶ plan.choose ─▶ Plan

remedies_of finds what would fit where a plan does not: the same nodes in one process, with adapters, or with less.

Plan that does not fit ─▶ other plans of the same device ─▶ Remedy: the flags, and what it would come to

Nobody takes one of them but a person: an adapter trains something else, and fewer nodes are another swarm.

problems finds what is known to fail before anything starts: a model that cannot be had, a device that cannot be used as
asked.

Settings ─▶ problems, a line each ─▶ up, its --dry-run, plan, node, join, workers, study run: refused; doctor: findings
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from swarm.config import Settings
from swarm.errors import ModelError, NoModelError
from swarm.planner.device_memory import DeviceMemory, device_memory
from swarm.planner.footprint import footprint
from swarm.planner.node_memory import ONE_TURN, SizedModel, Talk, computes_in_half
from swarm.planner.plan import Plan, choose
from swarm.planner.shape import model_shape
from swarm.policy.embedded import suited_device
from swarm.policy.hub import is_hub_id, look_up
from swarm.policy.model_files import folder_problem, resolve_model
from swarm.policy.settings import unsuited


def make_plan(
    settings: Settings,
    nodes: int,
    processes: int | None,
    talk: Talk = ONE_TURN,
    device: DeviceMemory | None = None,
) -> Plan:
    """Returns the plan for so many workers on the device of the settings.

    Args:
        processes: they share so many at most; None: each has its own.
        talk: the longest conversation of the run's tasks; their families know it.
        device: what they are planned for; None: what the settings say, as it is now.

    Raises:
        ModelError: the size of a model, or the memory of the device, cannot be known.
    """
    names = settings.model[:nodes]
    device = device or device_memory(suited_device(settings.device, names))
    models = [sized_model(name, settings, device) for name in names]
    return choose(models, settings, device, nodes=nodes, processes=processes, talk=talk)


def sized_model(name: str, settings: Settings, device: DeviceMemory) -> SizedModel:
    """Returns what a plan for a device must know of a model. Raises ModelError if it cannot be known."""
    shape = model_shape(name, hub_token=settings.hub_token)
    on_host = device.is_gpu and suited_device(settings.device, (name,)) == "cpu"
    bf16 = computes_in_half(settings, device.host if on_host else device)
    return SizedModel(shape, footprint(shape, settings, bf16=bf16), on_host)


def plan_for(settings: Settings, nodes: int, processes: int | None, talk: Talk = ONE_TURN) -> Plan | None:
    """make_plan, or None with the reason in the log: what cannot be planned may still run."""
    try:
        return make_plan(settings, nodes, processes, talk)
    except ModelError as error:
        from swarm.logs import get_logger  # here, for commands that only look do without it

        get_logger(__name__).warning("plan.unknown", problem=str(error))
        return None


LORA: Literal["lora"] = "lora"


class Remedy(NamedTuple):
    """One way to make it fit."""

    flags: str
    plan: Plan | None = None
    """What it would come to; None: it is the plan's own count."""


def remedies_of(made: Plan, settings: Settings, talk: Talk = ONE_TURN) -> list[Remedy]:
    """Returns the changes with which a plan fits that does not; those come first that change nothing of what is
    learned."""
    adapted = settings.with_values({"adapter": LORA})
    several = made.processes > 1
    tries = [("--in-process", settings, 1)] if several else []
    if settings.adapter.kind != LORA:
        tries.append((f"--adapter {LORA}", adapted, made.processes))
        tries += [(f"--adapter {LORA} --in-process", adapted, 1)] if several else []
    found = []
    for flags, tried, processes in tries:
        with suppress(ModelError):  # this model cannot be adapted as the settings say
            plan = make_plan(tried, made.nodes, processes, talk, made.device)
            found += [Remedy(flags, plan)] if plan.fits else []
    if made.longest_completion:
        found.append(Remedy(f"--max-new-tokens {made.longest_completion}"))
    if made.most_nodes:
        found.append(Remedy(f"--nodes {made.most_nodes}"))
    return found


def problems(settings: Settings) -> list[str]:
    """Returns why a worker with these settings would fail to load its model; empty where nothing speaks against it."""
    models = [model_problem(name, settings.hub_token) for name in dict.fromkeys(settings.model)]
    return [problem for problem in (*models, device_problem(settings)) if problem]


def refusal(found: Iterable[str], models: Iterable[str]) -> ModelError:
    """Returns the error of these problems, a line each: NoModelError where no hub was asked, so that trying again is of
    no use."""
    return (ModelError if any(map(is_hub_id, models)) else NoModelError)("\n".join(found))


def model_problem(name: str, hub_token: str | None = None) -> str:
    """Returns why a model cannot be had; empty if it can. Asks the hub for no more than its names and sizes."""
    try:
        if is_hub_id(name):
            look_up(name, hub_token)
            return ""
        folder = Path(resolve_model(name))
        problem = folder_problem(folder)
    except ModelError as error:
        return str(error)
    return f"model {name!r}: {problem}. Check MODEL_NAME" if problem else ""


def device_problem(settings: Settings) -> str:
    """Returns why the device cannot be used, or not with these settings; empty if it can. Free where nothing is asked
    of it."""
    name = suited_device(settings.device, settings.model)
    if name in (None, "cpu") and settings.precision != "bf16":
        return ""
    try:
        device = device_memory(name)
    except ModelError as error:
        return str(error)
    problem = unsuited(settings.precision, is_gpu=device.is_gpu, is_ampere=device.bf16)
    return f"device {device.device!r}: {problem}" if problem else ""
