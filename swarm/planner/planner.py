"""The plan for a swarm on this machine. Takes milliseconds and no torch for a model that is known.

Settings ─▶ sizes of the models (shape), activations (footprint), free memory (device_memory) ─▶ plan.choose ─▶ Plan
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from swarm.config import Settings
from swarm.errors import ModelError
from swarm.logs import get_logger
from swarm.planner.device_memory import DeviceMemory, device_memory
from swarm.planner.footprint import footprint
from swarm.planner.node_memory import ONE_TURN, SizedModel, Talk, computes_in_half
from swarm.planner.plan import Plan, choose
from swarm.planner.remedies import Remedy, remedies
from swarm.planner.shape import model_shape

if TYPE_CHECKING:
    from swarm.planner.probe import ProbeReport

logger = get_logger(__name__)


class RoundPace(NamedTuple):
    """Seconds of a round of all nodes."""

    least: float
    most: float
    source: str
    """What they come from, for people."""


def make_plan(
    settings: Settings, nodes: int, in_process: bool, talk: Talk = ONE_TURN, device: DeviceMemory | None = None
) -> Plan:
    """Returns the plan for so many workers on the device of the settings.

    Args:
        talk: the longest conversation of the run's tasks; their families know it.
        device: what they are planned for; None: what the settings say, as it is now.

    Raises:
        ModelError: the size of a model, or the memory of the device, cannot be known.
    """
    device = device or device_memory(settings.device)
    models = sized_models(settings, nodes, device)
    return choose(models, settings, device, nodes=nodes, in_process=in_process, talk=talk)


def sized_model(name: str, settings: Settings, device: DeviceMemory) -> SizedModel:
    """Returns what a plan must know of a model. Raises ModelError if it cannot be known."""
    shape = model_shape(name, hub_token=settings.hub_token, needs_weights=not device.elsewhere)
    found = footprint(shape, settings, bf16=computes_in_half(settings, device))
    return SizedModel(replace(shape, parameters=shape.parameters or found.parameters), found)


def sized_models(settings: Settings, nodes: int, device: DeviceMemory) -> list[SizedModel]:
    """Returns the models that so many nodes are dealt in turn. Raises ModelError."""
    return [sized_model(name, settings, device) for name in settings.model[:nodes]]


def remedies_of(made: Plan, settings: Settings, talk: Talk = ONE_TURN) -> list[Remedy]:
    """Returns what would make these nodes fit into their device."""
    return remedies(
        made, settings, lambda tried, in_process: make_plan(tried, made.nodes, in_process, talk, made.device)
    )


def measured_pace(report: ProbeReport, plan: Plan, *, at_once: int) -> RoundPace | None:
    """Takes the pace of a round from the probe of one node; None: the probe did not get to the end.

    All completions are as long as they may be; scoring and the shared place are left out.

    Args:
        at_once: nodes that compute at the same time as fast as one does.
    """
    if report.generation_s is None or report.update_s is None:
        return None
    turns = -(-plan.nodes // (1 if plan.in_process else at_once))
    together = plan.in_process and plan.adapter != "none"
    free = ", and all nodes generating together as fast as one," if together and plan.nodes > 1 else ""
    return RoundPace(
        (1 if together else turns) * report.generation_s,
        turns * (report.generation_s + report.update_s),
        f"measured: {report.generation_s:.3g} s of generation and {report.update_s:.3g} s of an update of one node on "
        f"this machine, {turns} in turn. From no group with an advantage{free} to all with one",
    )


def plan_for(settings: Settings, nodes: int, in_process: bool, talk: Talk = ONE_TURN) -> Plan | None:
    """make_plan, or None with the reason in the log: what cannot be planned may still run."""
    try:
        return make_plan(settings, nodes, in_process, talk)
    except ModelError as error:
        logger.warning("plan.unknown", problem=str(error))
        return None
