"""Adds to a trainer what averaging needs, for `swarm.training`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from swarm.config import Settings
from swarm.plugins.lab.settings import AVERAGING, LabSettings
from swarm.policy.parts import MakePart, TrainedWeights, TrainerPart


def parts(settings: Settings) -> Mapping[str, MakePart]:
    """Returns the averaging of weights, where it is on."""
    lab = settings.of(LabSettings)
    return {AVERAGING: partial(_averaging, lab)} if lab.average_every else {}


def copies(settings: Settings) -> Mapping[str, int]:
    """Returns the shared weights and the momentum of DiLoCo."""
    return {"outer optimizer": 2} if settings.of(LabSettings).averaging == "diloco" else {}


def _averaging(lab: LabSettings, trained: TrainedWeights) -> TrainerPart:
    from swarm.plugins.lab.mean_weights import OuterConfig, WeightAveraging

    outer = OuterConfig(lab.outer_rate, lab.outer_momentum) if lab.averaging == "diloco" else None
    return WeightAveraging(trained, outer)
