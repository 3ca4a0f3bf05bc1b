"""A generator and a trainer as one policy. Implements swarm.types.Policy.

    load_policy ─▶ one LanguageModel ─┬▶ ModelGenerator ─┐
                                      └▶ ModelTrainer ───┴▶ JoinedPolicy

Either half may be of another kind: an engine that generates elsewhere, or a trainer that takes turns (leased).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from swarm.policy.generator import ModelGenerator
from swarm.policy.memory import Halvings
from swarm.policy.model import LanguageModel, load_model
from swarm.policy.settings import GrpoConfig
from swarm.policy.trainer import ModelTrainer
from swarm.types import Completion, Generator, Snapshot, Trainer, TrainGroup, TrainReport


@dataclass(frozen=True)
class JoinedPolicy:
    """What each half does."""

    generator: Generator
    trainer: Trainer

    @property
    def name(self) -> str:
        """The generator's: it writes what peers see."""
        return self.generator.name

    @property
    def tokenizer(self) -> str:
        """The generator's."""
        return self.generator.tokenizer

    def generate(self, prompts: Sequence[str], *, group_size: int, seed: int) -> list[tuple[Completion, ...]]:
        """As the generator."""
        return self.generator.generate(prompts, group_size=group_size, seed=seed)

    def begin_update(self, groups: Sequence[TrainGroup]) -> None:
        """As the trainer."""
        self.trainer.begin_update(groups)

    def finish_update(self, groups: Sequence[TrainGroup]) -> TrainReport:
        """As the trainer."""
        return self.trainer.finish_update(groups)

    def snapshot(self) -> Snapshot:
        """As the trainer."""
        return self.trainer.snapshot()

    def restore(self, snapshot_dir: str) -> None:
        """As the trainer."""
        self.trainer.restore(snapshot_dir)


def make_policy(model: LanguageModel, config: GrpoConfig) -> JoinedPolicy:
    """A policy that generates with the weights it trains."""
    halvings = Halvings()
    return JoinedPolicy(ModelGenerator(model, config, halvings), ModelTrainer(model, config, halvings))


def load_policy(
    model_name: str,
    config: GrpoConfig,
    *,
    threads: int | None = None,
    device: str | None = None,
    hub_token: str | None = None,
    precision: str = "auto",
    attention: str = "auto",
) -> JoinedPolicy:
    """Load a model and make it trainable. Call it in the thread that will use the policy.

    Args:
        model_name: an embedded model, a local folder, or a hub id.
        threads: CPU threads of torch in this thread; None leaves torch's own choice.
        device: "cpu", "cuda", "cuda:1" ...; None: a GPU if there is one.
        hub_token: Hugging Face access token, for gated models.
        precision: "fp32" or "bf16", what the model computes in; "auto": bf16 on GPUs that have it.
        attention: back-end of transformers; "auto": the fastest that device and model have.

    Raises:
        ModelError: the model cannot be loaded or used.
        ConfigError: the loss is a function of the user's own and cannot be had.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    model = load_model(
        model_name,
        device=device,
        hub_token=hub_token,
        max_new_tokens=config.max_new_tokens,
        precision=precision,
        attention=attention,
    )
    return make_policy(model, config)
