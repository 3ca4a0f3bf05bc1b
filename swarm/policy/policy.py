"""The policy as a node sees it: generate, train, snapshot, restore. Implements swarm.types.Policy."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from swarm.policy import checkpoint
from swarm.policy.generate import Sample, Sampling, draw_uniforms, sample_in_parts
from swarm.policy.memory import MemoryBudget
from swarm.policy.model import LanguageModel, load_model
from swarm.policy.prompt import decode_completion, encode_prompt
from swarm.policy.settings import GrpoConfig
from swarm.policy.trainer import Trainer
from swarm.types import Completion, TrainGroup, TrainReport

__all__ = ["GrpoConfig", "GrpoPolicy", "load_policy"]


class GrpoPolicy:
    """A Hugging Face causal LM trained by GRPO. Not thread-safe: one thread at a time calls it."""

    def __init__(self, model: LanguageModel, config: GrpoConfig) -> None:
        self._model = model
        self._sampling = Sampling(config.temperature, config.top_p, config.top_k)
        self._trainer = Trainer(model, config)
        self._rows = MemoryBudget("generation", 2**16)

    @property
    def name(self) -> str:
        """Short name that peers see."""
        return self._model.name

    def generate(self, prompts: Sequence[str], *, group_size: int, seed: int) -> list[tuple[Completion, ...]]:
        """Sample group_size completions for each question text; the same seed gives the same tokens.

        Raises:
            ModelError: a prompt leaves no room for an answer, or one row does not fit into the GPU's memory.
        """
        if not prompts:
            return []
        encoded = [encode_prompt(self._model.tokenizer, prompt) for prompt in prompts]
        uniform_K_G_T = draw_uniforms(len(prompts), group_size, self._model.max_new_tokens, seed)
        self._rows.size = min(self._rows.size, len(prompts) * group_size)
        groups = self._rows.run(
            lambda rows: sample_in_parts(
                self._model, encoded, uniform_K_G_T=uniform_K_G_T, sampling=self._sampling, max_rows=rows
            ),
            floor=1,
        )
        return [tuple(self._completion(sample) for sample in samples) for samples in groups]

    def train(self, groups: Sequence[TrainGroup], *, seed: int) -> TrainReport:
        """One GRPO update on all groups together. It draws nothing at random, so that `seed` changes nothing."""
        return self._trainer.update(groups)

    def snapshot(self) -> checkpoint.PolicySnapshot:
        """Copy weights and optimizer to host memory."""
        return checkpoint.capture(self._model, self._trainer.state())

    def restore(self, snapshot_dir: str) -> None:
        """Load what a snapshot wrote. A reference model keeps the initial weights.

        Raises:
            CheckpointError: it does not fit; nothing has changed then.
        """
        restored = checkpoint.read(snapshot_dir, self._model)
        checkpoint.load_weights(self._model, restored.weights)
        self._trainer.load_state(restored.optimizer)

    def _completion(self, sample: Sample) -> Completion:
        text_ids = sample.token_ids[:-1] if sample.finished else sample.token_ids
        text = decode_completion(self._model.tokenizer, list(text_ids))
        return Completion(text, sample.finished, sample.token_ids, sample.logprobs)


def load_policy(
    model_name: str,
    config: GrpoConfig,
    *,
    threads: int | None = None,
    device: str | None = None,
    hub_token: str | None = None,
) -> GrpoPolicy:
    """Load a model and make it trainable. Call it in the thread that will use the policy.

    Args:
        model_name: an embedded model, a local folder, or a hub id.
        threads: CPU threads of torch in this thread; None leaves torch's own choice.
        device: "cpu", "cuda", "cuda:1" ...; None: a GPU if there is one.
        hub_token: Hugging Face access token, for gated models.

    Raises:
        ModelError: the model cannot be loaded or used.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    model = load_model(model_name, device=device, hub_token=hub_token, max_new_tokens=config.max_new_tokens)
    return GrpoPolicy(model, config)
