"""Nodes that train nothing: what the settings of each such role come to, and what answers for it beside no trainer.

    role generator ─▶ as_generator: J = 0, the next round generated while this one is gathered, no redo
                   ─▶ load_generator ─▶ OnlyGenerates ─┬ ModelGenerator of swarm.policy, no optimizer, no gradients
                                                       └ EndpointGenerator of swarm.endpoint, no torch
    role person    ─▶ as a generator, asked one round at a time; its policy is of the plugin person
    role evaluator ─▶ as_evaluator: I = 0, all groups of its peers looked at; AnswersNothing

Its checkpoints hold no weights, but what the endpoint has cost, so that a cap holds over restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from swarm import forms
from swarm.config import Settings, variable
from swarm.errors import CheckpointError, ConfigError, SpendingCapError
from swarm.policy.settings import asking_of
from swarm.types import Bill, Completion, Dialogue, Generator, Policy, Ready, Snapshot, TrainGroup, TrainReport

if TYPE_CHECKING:
    from swarm.endpoint.config import EndpointConfig
    from swarm.endpoint.generator import EndpointGenerator

USAGE = "usage.json"
"""File of a checkpoint: what the endpoint has cost in all lives of the node."""
MOST_USAGE = 4096
FOREVER = 1e9
"""Seconds."""
NOTHING_TRAINED = TrainReport(loss=0.0, grad_norm=0.0, tokens=0, trained_tokens=0, updated=False)


def as_generator(settings: Settings) -> Settings:
    """Returns the settings that a generator runs with. It learns nothing, so a round may be generated before the last
    is over, and no round has to be redone."""
    return replace(
        settings,
        external_groups=0,
        adaptive=False,
        staleness=1,
        redo_rounds=0,
        checkpoint_interval=1 if settings.endpoint else settings.checkpoint_interval,
    )


def as_evaluator(settings: Settings) -> Settings:
    """Returns the settings that an evaluator runs with: no answers, no updates, all groups of its peers looked at. It
    follows the coordinator's clock alone: on one of its own nothing would keep it from running ahead of those that it
    evaluates."""
    return replace(
        settings,
        local_groups=0,
        external_groups=0,
        adaptive=False,
        sampler="whole-pool",
        staleness=0,
        redo_rounds=0,
        checkpoint_interval=0,
        coordinator_patience=FOREVER,
    )


def as_it_runs(settings: Settings) -> Settings:
    """Returns the settings of a node that does not train, as they come to; those of any other as they are."""
    match settings.role:
        case "generator":
            return as_generator(settings)
        case "person":  # is asked one thing at a time, and nothing while nobody keeps the clock
            return replace(as_generator(settings), staleness=0, coordinator_patience=FOREVER)
        case "evaluator":
            return as_evaluator(settings)
    return settings


def endpoint_config(settings: Settings) -> EndpointConfig | None:
    """Returns which endpoint answers; None: a model of this machine. Raises ConfigError: the table cannot be used."""
    if settings.endpoint is None:
        return None
    from swarm.endpoint.config import EndpointConfig

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
    from swarm.endpoint.generator import EndpointGenerator

    endpoint = EndpointGenerator(config)
    endpoint.check()
    return OnlyGenerates(Metered(endpoint))


class Metered:
    """An endpoint whose spending cap ends the node after the round, not in the middle of it."""

    def __init__(self, endpoint: EndpointGenerator) -> None:
        self._endpoint = endpoint
        self.name, self.tokenizer, self.repeats = endpoint.name, endpoint.tokenizer, endpoint.repeats

    @property
    def bill(self) -> Bill:
        """Returns what the endpoint has cost in all lives of the node."""
        usage = self._endpoint.usage
        return Bill(usage.requests, usage.tokens_in, usage.tokens_out, usage.money, closed=self._endpoint.spent)

    def has_room(self, prompt: str) -> bool:
        """Tells whether the endpoint has room for a prompt."""
        return self._endpoint.has_room(prompt)

    def generate(
        self, prompts: Sequence[str | Dialogue], *, group_size: int, seed: int, ready: Ready | None = None
    ) -> list[tuple[Completion, ...]]:
        """Generates with the endpoint; gives no completions once the spending cap is reached."""
        try:
            return self._endpoint.generate(prompts, group_size=group_size, seed=seed, ready=ready)
        except SpendingCapError:
            return [()] * len(prompts)

    def as_json(self) -> bytes:
        """Encodes as JSON what the endpoint has cost so far."""
        return msgspec.json.encode(self._endpoint.usage)

    def take_up(self, former: bytes) -> None:
        """Go on from what it had cost in former lives. Raises msgspec.MsgspecError."""
        from swarm.endpoint.usage import Usage

        self._endpoint.take_up(forms.decode(former, Usage))


class AnswersNothing:
    """The generator of a node that has no questions."""

    def __init__(self) -> None:
        self.name, self.tokenizer, self.repeats = "", "", True
        self.bill: Bill | None = None

    def has_room(self, _prompt: str) -> bool:
        """Says that there is room for any prompt, for none is ever asked."""
        return True

    def generate(
        self, prompts: Sequence[str | Dialogue], *, group_size: int, seed: int, ready: Ready | None = None
    ) -> list[tuple[Completion, ...]]:
        """Answers nothing."""
        return [()] * len(prompts)


class OnlyGenerates:
    """A policy without a trainer."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.name, self.tokenizer, self.repeats = generator.name, generator.tokenizer, generator.repeats
        self.generate, self.has_room = generator.generate, generator.has_room

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
