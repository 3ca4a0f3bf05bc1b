"""The policy as a node sees it: generate, update, snapshot, restore. Implements swarm.types.Policy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec
import torch
from torch import Tensor

from swarm.logs import get_logger
from swarm.policy import snapshot as snapshots
from swarm.policy.decode import choose_decoding
from swarm.policy.generate import Sample, Sampling, draw_uniforms, sample_in_parts
from swarm.policy.memory import MemoryBudget
from swarm.policy.model import LanguageModel, load_model
from swarm.policy.prompt import decode_completion, encode_prompt
from swarm.policy.settings import GrpoConfig
from swarm.policy.trainer import Trainer
from swarm.types import Completion, TrainGroup, TrainReport

__all__ = ["GrpoConfig", "GrpoPolicy", "load_policy"]

logger = get_logger(__name__)

_NO_ROOM = Completion(text="", finished=False, token_ids=(), logprobs=())


class GrpoPolicy:
    """A Hugging Face causal LM trained by GRPO. Not thread-safe: one thread at a time calls it."""

    def __init__(self, model: LanguageModel, config: GrpoConfig) -> None:
        self._model = model
        self._decoding = choose_decoding(model, config.decoding)
        self._sampling = Sampling(config.temperature, config.top_p, config.top_k, config.min_p)
        self._trainer = Trainer(model, config)
        self._rows = MemoryBudget("generation", 2**16)

    @property
    def name(self) -> str:
        """Short name that peers see."""
        return self._model.name

    @property
    def tokenizer(self) -> str:
        """Digest of its tokenizer."""
        return self._model.tokenizer_digest

    def generate(self, prompts: Sequence[str], *, group_size: int, seed: int) -> list[tuple[Completion, ...]]:
        """Sample group_size completions for each question text; the same seed gives the same tokens.

        A question that fills the whole context gets empty, unfinished completions: one long question among thousands
        must not end a run of days.

        Raises:
            ModelError: one row does not fit into the GPU's memory, or the weights have diverged.
        """
        encoded = [encode_prompt(self._model.tokenizer, prompt) for prompt in prompts]
        fitting = [index for index, ids in enumerate(encoded) if len(ids) < self._model.context]
        for ids in encoded:
            if len(ids) >= self._model.context:
                logger.warning("generate.prompt_too_long", tokens=len(ids), context=self._model.context)
        uniform_K_G_T = draw_uniforms(len(prompts), group_size, self._model.max_new_tokens, seed)
        groups = [(_NO_ROOM,) * group_size] * len(prompts)
        for index, samples in zip(fitting, self._sample(fitting, encoded, uniform_K_G_T), strict=True):
            groups[index] = tuple(self._completion(sample) for sample in samples)
        return groups

    def _sample(self, fitting: list[int], encoded: list[list[int]], uniform_K_G_T: Tensor) -> list[list[Sample]]:
        if not fitting:
            return []
        prompts, uniforms = [encoded[index] for index in fitting], uniform_K_G_T[fitting]
        return self._rows.run(
            lambda rows: sample_in_parts(
                self._model,
                prompts,
                uniform_K_G_T=uniforms,
                sampling=self._sampling,
                max_rows=rows,
                decoding=self._decoding,
            ),
            floor=1,
            whole=len(fitting) * uniform_K_G_T.shape[1],
        )

    def begin_update(self, groups: Sequence[TrainGroup]) -> None:
        """Add up the gradients of the first groups of an update; the weights stay as they are.

        Raises:
            ModelError: a single completion does not fit into the GPU's memory.
        """
        self._trainer.begin_update(groups)

    def finish_update(self, groups: Sequence[TrainGroup]) -> TrainReport:
        """Add those of the remaining groups, then make one GRPO update on all of them together.

        Raises:
            ModelError: as begin_update.
        """
        report = self._trainer.finish_update(groups)
        return msgspec.structs.replace(report, memory_halvings=report.memory_halvings + self._rows.take_halvings())

    def snapshot(self) -> snapshots.PolicySnapshot:
        """Copy weights and optimizer to host memory."""
        return snapshots.capture(self._model, self._trainer.state(), self._model_files)

    def restore(self, snapshot_dir: str) -> None:
        """Load what a snapshot wrote; forgets an update that was begun. A reference model keeps the initial weights.

        Raises:
            CheckpointError: it does not fit; nothing has changed then.
        """
        restored = snapshots.read(snapshot_dir, self._model)
        snapshots.load_weights(self._model, restored.weights)
        self._trainer.load_state(restored.optimizer)

    @cached_property
    def _model_files(self) -> dict[str, bytes]:
        return snapshots.read_model_files(self._model)

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
    precision: str = "auto",
    attention: str = "auto",
) -> GrpoPolicy:
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
    return GrpoPolicy(model, config)
