"""Does what is asked for fit on this machine? Answered in milliseconds: no torch is imported for a model at hand.

Settings ─▶ sizes of the models (shape), free memory (device_memory) ─▶ plan.choose ─▶ Plan
"""

from __future__ import annotations

from swarm.config import Settings
from swarm.errors import ModelError
from swarm.logs import get_logger
from swarm.policy.device_memory import device_memory
from swarm.policy.plan import Plan, choose
from swarm.policy.shape import model_shape

logger = get_logger(__name__)


def make_plan(settings: Settings, nodes: int, in_process: bool) -> Plan:
    """The plan for so many workers on the device of the settings.

    Raises:
        ModelError: the size of a model, or the memory of the device, cannot be known.
    """
    shapes = [model_shape(name, hub_token=settings.hub_token) for name in settings.model[:nodes]]
    return choose(shapes, settings, device_memory(settings.device), nodes=nodes, in_process=in_process)


def plan_for(settings: Settings, nodes: int, in_process: bool) -> Plan | None:
    """make_plan, or None with the reason in the log: what cannot be planned may still run."""
    try:
        return make_plan(settings, nodes, in_process)
    except ModelError as error:
        logger.warning("plan.unknown", problem=str(error))
        return None
