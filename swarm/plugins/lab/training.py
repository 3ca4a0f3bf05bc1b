"""Adds to a trainer what averaging needs, and bounds what it learns of peers, for `swarm.training`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from swarm.algo.bounds import Floors
from swarm.config import Settings
from swarm.plugins.lab.settings import AVERAGING, LabSettings
from swarm.policy.parts import MakePart, TrainedWeights, TrainerPart, UpdateOptions


def parts(settings: Settings) -> Mapping[str, MakePart]:
    """Returns the averaging of weights, where it is on."""
    lab = settings.of(LabSettings)
    return {AVERAGING: partial(_averaging, lab)} if lab.average_every else {}


def copies(settings: Settings) -> Mapping[str, int]:
    """Returns the shared weights and the momentum of DiLoCo."""
    return {"outer optimizer": 2} if settings.of(LabSettings).averaging == "diloco" else {}


def options(settings: Settings) -> UpdateOptions:
    """Returns what is learned of peers' completions, and whether the gradient is measured."""
    lab = settings.of(LabSettings)
    return UpdateOptions(
        answers_only=lab.external_reasoning == "answer",
        floors=Floors(lab.external_logprob_floor, lab.external_negative_floor),
        halves=bool(lab.gradient_halves),
    )


def _averaging(lab: LabSettings, trained: TrainedWeights) -> TrainerPart:
    from swarm.plugins.lab.mean_weights import OuterConfig, WeightAveraging

    outer = OuterConfig(lab.outer_rate, lab.outer_momentum) if lab.averaging == "diloco" else None
    return WeightAveraging(trained, outer)
