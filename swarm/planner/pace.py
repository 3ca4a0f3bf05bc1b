"""Estimates how long a round takes, as a range: from what a step of one node took here, or from what devices can at
best.

    ProbeReport ──measured───▶ Pace       all nodes share this machine: one after the other
    Plan, model ──predicted──▶ Pace       of a device that is not here: bytes / bandwidth, operations / FLOPs

Every completion is taken to be as long as it may be, which few are. Scoring, and the way through the shared place, are
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from swarm.config import Settings
from swarm.planner.far_device import TypicalDevice, devices_of
from swarm.planner.node_memory import SizedModel, computes_in_half
from swarm.planner.plan import Plan
from swarm.planner.probe import ProbeReport

FLOPS_SHARE, BANDWIDTH_SHARE = 0.2, 0.3
"""Share of a device's best, at the slow end of the range: assumed, not measured."""
_FP32, _HALF = 4, 2


class Pace(NamedTuple):
    """Seconds of a round of all nodes."""

    least: float
    most: float
    source: str
    """What they come from, for people."""


class _Work(NamedTuple):
    """Holds the work of one round of all nodes of one model."""

    read: float
    """Bytes that decoding reads."""
    decoding: float
    """Operations of it."""
    rest: float
    """Operations of reading the prompts, and of the updates."""


def measured(report: ProbeReport, plan: Plan, *, at_once: int) -> Pace | None:
    """Takes the pace from the probe of one node; None: it did not get to the end.

    Args:
        at_once: nodes that compute at the same time as fast as one does.
    """
    if report.generation_s is None or report.update_s is None:
        return None
    turns = -(-plan.nodes // (1 if plan.in_process else at_once))
    together = plan.in_process and plan.adapter != "none"
    free = ", and all nodes generating together as fast as one," if together and plan.nodes > 1 else ""
    return Pace(
        (1 if together else turns) * report.generation_s,
        turns * (report.generation_s + report.update_s),
        f"measured: {report.generation_s:.3g} s of generation and {report.update_s:.3g} s of an update of one node on "
        f"this machine, {turns} in turn; from no group with an advantage{free} to all with one",
    )


def predicted(plan: Plan, models: Sequence[SizedModel], settings: Settings) -> Pace | None:
    """Predicts the pace by the data sheets of devices of that memory; None: of a CPU nothing is known."""
    if not plan.device.is_gpu:
        return None
    half = computes_in_half(settings, plan.device)
    works = [
        _work(model, len(range(index, plan.nodes, len(models))), plan, settings, half=half)
        for index, model in enumerate(models)
    ]
    devices = devices_of(plan.device.total)
    return Pace(
        min(_seconds(works, device, half=half) for device in devices),
        max(_seconds(works, device, half=half, bandwidth=BANDWIDTH_SHARE, flops=FLOPS_SHARE) for device in devices),
        f"not measured: from all that {', '.join(device.name for device in devices)} can by their data sheets to "
        f"{BANDWIDTH_SHARE:.0%} of the bandwidth and {FLOPS_SHARE:.0%} of the FLOPs, all groups with an advantage",
    )


def _work(model: SizedModel, nodes: int, plan: Plan, settings: Settings, *, half: bool) -> _Work:
    """The backward pass of a layer costs two products for trained weights, and one beside frozen ones."""
    shape, adapted, width = model.shape, bool(model.footprint.adapter), _HALF if half else _FP32
    rows, prompts = settings.most_local_groups * settings.generations, settings.most_local_groups
    written, length = plan.new_tokens, plan.prompt_tokens + plan.new_tokens / 2
    in_batch = nodes if adapted and plan.in_process else 1
    cached = 2 * shape.layers * shape.kv_heads * shape.head_dim * width
    head = shape.vocabulary * shape.hidden
    body = max(0, shape.parameters - head)
    trained_rows = settings.total_groups * settings.generations
    again = 2 if plan.gradient_checkpointing else 0
    positions = trained_rows * written + plan.prompt_tokens * (
        trained_rows if plan.gradient_checkpointing else settings.total_groups
    )
    update = ((4 if adapted else 6) + again) * body * positions + (6 if adapted else 8) * head * trained_rows * written
    return _Work(
        read=nodes * written * (width * (body + head) / in_batch + rows * length * cached),
        decoding=2.0 * nodes * rows * written * (body + head),
        rest=nodes * (2.0 * body * prompts * plan.prompt_tokens + update),
    )


def _seconds(
    works: Sequence[_Work], device: TypicalDevice, *, half: bool, bandwidth: float = 1.0, flops: float = 1.0
) -> float:
    rate = flops * (device.half_flops if half else device.fp32_flops)
    return sum(
        max(work.read / (bandwidth * device.bandwidth), work.decoding / rate) + work.rest / rate for work in works
    )
