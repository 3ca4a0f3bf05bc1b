"""The plan for a swarm on this machine. Takes milliseconds and no torch for a model that is known.

Settings ─▶ sizes of the models (shape), activations (footprint), free memory (device_memory) ─▶ plan.choose ─▶ Plan
"""

from __future__ import annotations

from swarm.config import Settings
from swarm.errors import ModelError
from swarm.logs import get_logger
from swarm.planner.device_memory import DeviceMemory, device_memory
from swarm.planner.footprint import footprint
from swarm.planner.node_memory import ONE_TURN, SizedModel, Talk, computes_in_bf16
from swarm.planner.plan import Plan, choose
from swarm.planner.shape import model_shape

logger = get_logger(__name__)


def make_plan(settings: Settings, nodes: int, in_process: bool, talk: Talk = ONE_TURN) -> Plan:
    """The plan for so many workers on the device of the settings.

    Args:
        talk: the longest conversation of the run's tasks; their families know it.

    Raises:
        ModelError: the size of a model, or the memory of the device, cannot be known.
    """
    device = device_memory(settings.device)
    models = [sized_model(name, settings, device) for name in settings.model[:nodes]]
    return choose(models, settings, device, nodes=nodes, in_process=in_process, talk=talk)


def sized_model(name: str, settings: Settings, device: DeviceMemory) -> SizedModel:
    """What a plan must know of a model. Raises ModelError if it cannot be known."""
    shape = model_shape(name, hub_token=settings.hub_token)
    return SizedModel(shape, footprint(shape, settings, bf16=computes_in_bf16(settings, device)))


def plan_for(settings: Settings, nodes: int, in_process: bool, talk: Talk = ONE_TURN) -> Plan | None:
    """make_plan, or None with the reason in the log: what cannot be planned may still run."""
    try:
        return make_plan(settings, nodes, in_process, talk)
    except ModelError as error:
        logger.warning("plan.unknown", problem=str(error))
        return None
