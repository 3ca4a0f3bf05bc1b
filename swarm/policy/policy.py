"""A generator and a trainer as one policy. Implements swarm.types.Policy.

    load_policy ─▶ one LanguageModel ─┬▶ ModelGenerator ─┐
                                      └▶ ModelTrainer ───┴▶ JoinedPolicy

Either half may be of another kind: an engine that generates elsewhere, or a trainer that takes turns (leased).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from swarm.logs import get_logger
from swarm.policy.asked_well import closing_id, suited
from swarm.policy.device import Halvings
from swarm.policy.generator import ModelGenerator
from swarm.policy.given_weights import take_weights
from swarm.policy.load_probe import tried_compiled, tried_out
from swarm.policy.model import LanguageModel, load_model
from swarm.policy.prompt import SWITCH, switches_thinking_off, writes_date
from swarm.policy.settings import GrpoConfig
from swarm.policy.shared_base import SharedBase, SharedBases
from swarm.policy.trainer import ModelTrainer
from swarm.types import BatchingGenerator, Bill, GenerationCall, Generator, Groups, Trainer

logger = get_logger(__name__)
LEAVE_ON = f'SWARM_CHAT_TEMPLATE_ARGS={{"{SWITCH}": true}}'
"""What lets a model think whose template has the switch."""


class JoinedPolicy:
    """Joins a generator and a trainer; its name and tokenizer are the generator's, which writes what peers see."""

    def __init__(self, generator: Generator, trainer: Trainer) -> None:
        self.generator = generator
        self.trainer = trainer
        self.name = generator.name
        self.tokenizer = generator.tokenizer
        self.repeats = generator.repeats
        self.prompt_date: str | None = getattr(generator, "prompt_date", None)
        """The date in its prompts; None: there is none."""
        self.batch_key: Hashable | None = getattr(generator, "batch_key", None)
        """The generator's; None for one that cannot be batched."""
        self.generate, self.has_room = generator.generate, generator.has_room
        self.begin_update = trainer.begin_update
        self.finish_update = trainer.finish_update
        self.part = trainer.part
        self.snapshot = trainer.snapshot
        self.restore = trainer.restore

    @property
    def batch_size(self) -> int:
        """Returns the generator's batch_size; 1 for one that cannot be batched."""
        return getattr(self.generator, "batch_size", 1)

    def generate_together(
        self, calls: Sequence[tuple[BatchingGenerator, GenerationCall]]
    ) -> Sequence[Groups | Exception]:
        """Generates for several policies in one batch. Implements BatchingGenerator."""
        inner: list[Any] = [(getattr(policy, "generator", policy), call) for policy, call in calls]
        return ModelGenerator.generate_together(inner)

    @property
    def bill(self) -> Bill | None:
        """Returns what generating has cost so far; None where it costs nothing."""
        return self.generator.bill


def make_policy(model: LanguageModel, config: GrpoConfig, shared: SharedBase | None = None) -> JoinedPolicy:
    """Returns a policy that generates with the weights it trains.

    Args:
        shared: the base beside which the model's adapter is.
    """
    halvings = Halvings()
    return JoinedPolicy(ModelGenerator(model, config, halvings, shared), ModelTrainer(model, config, halvings))


def load_generator(
    model_name: str,
    config: GrpoConfig,
    *,
    trained: Path | None = None,
    first_day: Callable[[], str] | None = None,
    **loading: Any,
) -> ModelGenerator:
    """Load a model that generates and is not trained: no optimizer, no gradients. Otherwise as load_policy.

    Args:
        trained: what a training made of it, anybody's: the model's folder of a checkpoint, of which weights alone are
            taken.
    """
    model = _loaded(model_name, config, trains=False, **loading)
    if trained:
        take_weights(model.name, model.module, trained)
    return ModelGenerator(*asked_well(model, config, first_day))


def load_policy(
    model_name: str,
    config: GrpoConfig,
    *,
    threads: int | None = None,
    bases: SharedBases | None = None,
    first_day: Callable[[], str] | None = None,
    **loading: Any,
) -> JoinedPolicy:
    """Load a model and make it trainable. Call it in the thread that will use the policy.

    Args:
        model_name: an embedded model, a local folder, or a hub id.
        threads: CPU threads of torch in this thread; None leaves torch's own choice.
        bases: where an adapter is trained, the frozen models that are there already; None: none.
        first_day: the date that stays in prompts whose chat template writes today's, as 2026-01-31; None: today's.
        loading: device, hub_token, precision and attention, as of load_model.

    Raises:
        ModelError: the model cannot be loaded or used.
        ConfigError: the loss is a function of the user's own and cannot be had.
    """
    if not config.adapter:
        model = _loaded(model_name, config, trains=True, threads=threads, **loading)
        return make_policy(*asked_well(_as_asked(model, config), config, first_day))
    if threads is not None:
        torch.set_num_threads(threads)
    bases = bases or SharedBases()
    shared, model = bases.join(model_name, config.adapter, max_new_tokens=config.max_new_tokens, **loading)
    return make_policy(*asked_well(_as_asked(model, config), config, first_day), shared)


def _as_asked(model: LanguageModel, config: GrpoConfig) -> LanguageModel:
    """Returns the model with a compiled training pass, if the config asks for one and the model can have it."""
    if not config.compiled_training:
        return model
    return tried_compiled(model, temperature=config.temperature, recomputes=config.gradient_checkpointing)


def _loaded(
    model_name: str, config: GrpoConfig, *, trains: bool, threads: int | None = None, **loading: Any
) -> LanguageModel:
    """Returns a model that has been tried out."""
    if threads is not None:
        torch.set_num_threads(threads)
    model = tried_out(load_model(model_name, max_new_tokens=config.max_new_tokens, **loading), trains=trains)
    if switches_thinking_off(model.tokenizer, config.asking):
        logger.info("model.thinking_off", model=model.name, to_leave_it_on=LEAVE_ON)
    return model


def asked_well(
    model: LanguageModel, config: GrpoConfig, first_day: Callable[[], str] | None = None
) -> tuple[LanguageModel, GrpoConfig]:
    """Returns both with questions and ends of turns as the model's chat template has them. Raises ModelError: it shows
    no question whole."""
    asking = config.asking
    if first_day and writes_date(model.tokenizer, asking):
        asking = replace(asking, date=first_day())
    asking = suited(model.name, model.tokenizer, asking, model.not_embedded)
    closing = closing_id(model.tokenizer, model.eos_ids, asking)
    return replace(model, eos_id=model.eos_id if closing is None else closing), replace(config, asking=asking)
