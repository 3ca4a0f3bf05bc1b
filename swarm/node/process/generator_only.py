"""Nodes that train nothing: what the settings of each such role come to, and what answers for it beside no trainer.

    role generator ─▶ as_it_runs: J = 0, the next round generated while this one is gathered, no redo
                   ─▶ load_generator ─▶ OnlyGenerates ─┬ ModelGenerator of swarm.policy, no optimizer, no gradients
                                                       └ EndpointGenerator of swarm.remote, no torch
    role person    ─▶ as a generator, asked one round at a time; its policy is of the plugin person
    role evaluator ─▶ as_it_runs: I = 0, all groups of its peers looked at; AnswersNothing

Its checkpoints hold no weights, but what the endpoint has cost, so that a cap holds over restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from swarm.config import Settings, variable
from swarm.errors import CheckpointError, ConfigError
from swarm.policy.settings import asking_of
from swarm.remote.generation import RemoteWriter
from swarm.spelling import did_you_mean
from swarm.types import (
    Bill,
    GenerationCall,
    Generator,
    Groups,
    Policy,
    RemoteGenerator,
    Snapshot,
    TrainGroup,
    TrainReport,
)

if TYPE_CHECKING:
    from swarm.remote.endpoint_config import EndpointConfig

USAGE = "usage.json"
"""File of a checkpoint: what the endpoint has cost in all lives of the node."""
MOST_USAGE = 4096
FOREVER = 1e9
"""Seconds."""
NOTHING_TRAINED = TrainReport(loss=0.0, grad_norm=0.0, tokens=0, trained_tokens=0, updated=False)


def as_it_runs(settings: Settings) -> Settings:
    """Returns the settings of a node that does not train, as they come to; those of any other as they are.

    A generator learns nothing, so a round may be generated before the last is over, and no round has to be redone. A
    person is asked one thing at a time, and nothing while nobody keeps the clock. An evaluator answers nothing, and
    looks at all groups of its peers; on a clock of its own nothing would keep it from running ahead of them.
    """
    idle = replace(settings, external_groups=0, adaptive=False, staleness=0, redo_rounds=0)
    match settings.role:
        case "generator":
            interval = 1 if settings.endpoint else settings.checkpoint_interval
            return replace(idle, staleness=1, checkpoint_interval=interval)
        case "person":
            return replace(idle, coordinator_patience=FOREVER)
        case "evaluator":
            whole = replace(idle, local_groups=0, sampler="whole-pool")
            return replace(whole, checkpoint_interval=0, coordinator_patience=FOREVER)
    return settings


def endpoint_config(settings: Settings) -> EndpointConfig | None:
    """Returns which endpoint answers; None: a model of this machine. Raises ConfigError: the table cannot be used."""
    if settings.endpoint is None:
        return None
    from swarm.remote.endpoint_config import EndpointConfig

    known = [field.name for field in fields(EndpointConfig) if field.name != "asking"]
    for key in settings.endpoint.keys() - {*known}:
        raise ConfigError(f"{variable('endpoint')} ([endpoint]): unknown key {key!r:.80}{did_you_mean(key, known)}")
    defaults = {"max_tokens": settings.max_new_tokens} if settings.max_new_tokens else {}
    try:
        config = msgspec.convert({**defaults, **settings.endpoint}, EndpointConfig, strict=True)
    except (msgspec.ValidationError, TypeError) as error:
        raise ConfigError(f"{variable('endpoint')} ([endpoint]): {error}; docs/generators.md lists all") from None
    return replace(config, asking=asking_of(settings))


def load_generator(settings: Settings, load_model: Callable[[], Generator]) -> Policy:
    """Returns the policy of a node that trains nothing. Raises ConfigError, ModelError, SpendingCapError.

    Args:
        load_model: used where no endpoint is named.
    """
    if settings.role == "evaluator":
        return OnlyGenerates(AnswersNothing())
    config = endpoint_config(settings)
    if config is None:
        return OnlyGenerates(load_model())
    from swarm.remote.endpoint import EndpointGenerator

    endpoint = EndpointGenerator(config)
    endpoint.check()
    return OnlyGenerates(endpoint)


@runtime_checkable
class Metered(Protocol):
    """A generator that costs something, which outlives the process."""

    def as_json(self) -> bytes:
        """Encodes as JSON what it has cost so far."""

    def take_up(self, former: bytes) -> None:
        """Go on from what it had cost in former lives. Raises msgspec.MsgspecError."""


class AnswersNothing(RemoteWriter):
    """The generator of a node that has no questions."""

    name, repeats = "", True

    async def write(self, call: GenerationCall) -> Groups:
        """Answers nothing."""
        return [()] * len(call.prompts)


class OnlyGenerates:
    """A policy without a trainer."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.name, self.tokenizer, self.repeats = generator.name, generator.tokenizer, generator.repeats
        self.generate, self.has_room = generator.generate, generator.has_room
        if isinstance(generator, RemoteGenerator):
            self.write = generator.write

    @property
    def bill(self) -> Bill | None:
        """Returns what generating has cost so far; None where it costs nothing."""
        return self.generator.bill

    def begin_update(self, groups: Sequence[TrainGroup]) -> None:
        """Does nothing."""

    def finish_update(self, groups: Sequence[TrainGroup]) -> TrainReport:
        """Trains nothing."""
        return NOTHING_TRAINED

    def part(self, name: str) -> Any:
        """Nothing is added, for nothing is trained. Raises KeyError."""
        raise KeyError(name)

    def snapshot(self) -> Snapshot:
        """Takes a snapshot of what generating has cost, if anything."""
        return UsageSnapshot(self.generator.as_json() if isinstance(self.generator, Metered) else b"")

    def restore(self, snapshot_dir: str) -> None:
        """Take up what it had cost. Raises CheckpointError."""
        file = Path(snapshot_dir) / USAGE
        if not isinstance(self.generator, Metered) or not file.exists():
            return
        try:
            with file.open("rb") as opened:
                self.generator.take_up(opened.read(MOST_USAGE))
        except (OSError, msgspec.MsgspecError) as error:
            raise CheckpointError(f"{file}: expected what an endpoint has cost, {error}") from None


class UsageSnapshot:
    """Holds what an endpoint had cost at one moment; empty bytes: nothing is written."""

    def __init__(self, usage: bytes) -> None:
        self._usage = usage

    def write(self, directory: str) -> None:
        """One small file, or none."""
        if self._usage:
            (Path(directory) / USAGE).write_bytes(self._usage)
