"""Completions to question texts from a model at hand. Implements swarm.types.Generator."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from swarm.logs import get_logger
from swarm.policy.decode import choose_decoding
from swarm.policy.draw import Sampling
from swarm.policy.generate import Sample, draw_uniforms, sample_in_parts
from swarm.policy.memory import Halvings, MemoryBudget
from swarm.policy.model import LanguageModel
from swarm.policy.prompt import decode_completion, encode_prompt
from swarm.policy.settings import GrpoConfig
from swarm.types import Completion

logger = get_logger(__name__)

_NO_ROOM = Completion(text="", finished=False, token_ids=(), logprobs=())


class ModelGenerator:
    """Samples from the weights as they are at each call. Not thread-safe."""

    def __init__(self, model: LanguageModel, config: GrpoConfig, halvings: Halvings | None = None) -> None:
        """`halvings` is told to whoever reports them; None: nobody does."""
        self._model = model
        self.name = model.name
        self.tokenizer = model.tokenizer_digest
        self.repeats = model.device.type == "cpu"
        self._decoding = choose_decoding(model, config.decoding)
        self._sampling = Sampling(config.temperature, config.top_p, config.top_k, config.min_p)
        self._rows = MemoryBudget("generation", 2**16, halvings or Halvings())

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

    def _completion(self, sample: Sample) -> Completion:
        text_ids = sample.token_ids[:-1] if sample.finished else sample.token_ids
        text = decode_completion(self._model.tokenizer, list(text_ids))
        return Completion(text, sample.finished, sample.token_ids, sample.logprobs)
