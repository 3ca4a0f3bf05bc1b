"""What plugins add to a trainer: a part changes the weights between updates, and keeps its memory in checkpoints.

    entry point in `swarm.training` ─▶ TrainingPlugin.parts(settings): name ─▶ MakePart ─▶ a TrainerPart of each trainer

A plugin that is on registers under its name in `swarm.settings`. A hook of its reaches the part by
`trainer.part(name)`, in the compute thread. Imports no torch, so that a plan costs none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from swarm.config import Settings
from swarm.entry_points import TRAINING, of_plugins

if TYPE_CHECKING:
    from torch import Tensor


class TrainedWeights(NamedTuple):
    """Gives a part what it works on."""

    weights: Mapping[str, Tensor]
    """The parameters that are trained, by name; changed in place."""
    forget: Callable[[], None]
    """Forgets an update that was begun: called before the weights are changed."""


class TrainerPart(Protocol):
    """One of them, of one trainer."""

    file: str
    """Name of the safetensors file of its memory in a checkpoint."""
    remedy: str
    """What to set where a checkpoint has no such file, or one that is not wanted."""

    def state(self) -> dict[str, Tensor]:
        """Returns a copy of its memory, in host memory; empty: it has none, and no file."""

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Goes on from a memory whose names, shapes and types are those of `state`."""


MakePart = Callable[[TrainedWeights], TrainerPart]


class TrainingPlugin(Protocol):
    """Tells what a plugin adds; an entry point in `swarm.training` is one, such as a module. It imports no torch."""

    def parts(self, settings: Settings) -> Mapping[str, MakePart]:
        """Returns what the settings turn on, by name."""

    def copies(self, settings: Settings) -> Mapping[str, int]:
        """Returns what the parts hold in host memory, for a plan: a title, and how many times the trained weights in
        fp32."""


def training_plugins(settings: Settings) -> list[TrainingPlugin]:
    """Returns those that are on. Raises ConfigError: one of them cannot be imported."""
    return of_plugins(TRAINING, settings.plugins)


def parts_of(settings: Settings) -> dict[str, MakePart]:
    """Returns the parts that a node's settings turn on, by name. Raises ConfigError as training_plugins."""
    return {name: make for plugin in training_plugins(settings) for name, make in plugin.parts(settings).items()}
