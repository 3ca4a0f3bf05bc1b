"""What plugins add to a trainer: a part changes the weights between updates, and keeps its memory in checkpoints;
options bound and measure what an update learns.

    entry point in `swarm.training` ─▶ TrainingPlugin.parts(settings): name ─▶ MakePart ─▶ a TrainerPart of each trainer

A plugin that is on registers under its name in `swarm.settings`. A hook of its reaches the part by
`trainer.part(name)`, in the compute thread. Imports no torch, so that a plan costs none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from swarm.algo.bounds import Floors, strictest
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


class UpdateOptions(NamedTuple):
    """Says what is asked of each update."""

    answers_only: bool = False
    """Of external completions nothing but the answers and ends of text is learned from."""
    floors: Floors = Floors()
    """Below these an external token is not learned from."""
    halves: bool = False
    """The gradient is taken in halves, and measured: two more copies of it are held."""

    @property
    def bounds_tokens(self) -> bool:
        """Tells whether some tokens of external completions may be left out of what is learned."""
        return self.answers_only or self.floors.wanted


NO_OPTIONS = UpdateOptions()


class TrainingPlugin(Protocol):
    """Tells what a plugin adds; an entry point in `swarm.training` is one, such as a module. It imports no torch."""

    def parts(self, settings: Settings) -> Mapping[str, MakePart]:
        """Returns what the settings turn on, by name."""

    def copies(self, settings: Settings) -> Mapping[str, int]:
        """Returns what the parts hold in host memory, for a plan: a title, and how many times the trained weights in
        fp32."""

    def options(self, settings: Settings) -> UpdateOptions:
        """Returns what the settings ask of each update."""


def training_plugins(settings: Settings) -> list[TrainingPlugin]:
    """Returns those that are on. Raises ConfigError: one of them cannot be imported."""
    return of_plugins(TRAINING, settings.plugins)


def options_of(settings: Settings) -> UpdateOptions:
    """Returns what a node's settings ask of each update: the strictest of all floors. Raises ConfigError as
    training_plugins."""
    asked = [UpdateOptions(halves=settings.needs_halves), *(p.options(settings) for p in training_plugins(settings))]
    return UpdateOptions(
        answers_only=any(one.answers_only for one in asked),
        floors=strictest([one.floors for one in asked]),
        halves=any(one.halves for one in asked),
    )


def parts_of(settings: Settings) -> dict[str, MakePart]:
    """Returns the parts that a node's settings turn on, by name. Raises ConfigError as training_plugins."""
    return {name: make for plugin in training_plugins(settings) for name, make in plugin.parts(settings).items()}
