"""Completions to question texts, and turns of dialogues, from a model at hand. Implements swarm.types.Generator."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from swarm.logs import get_logger
from swarm.policy.conversation import encode_dialogue
from swarm.policy.decode import choose_decoding
from swarm.policy.draw import Sampling
from swarm.policy.generate import Ended, Sample, draw_uniforms, sample_in_parts
from swarm.policy.memory import Halvings, MemoryBudget
from swarm.policy.model import LanguageModel
from swarm.policy.prompt import decode_completion, encode_prompt, shown_prompt, switches_thinking_off
from swarm.policy.reasoning import ReasoningBudget
from swarm.policy.settings import GrpoConfig
from swarm.policy.stops import StopStrings
from swarm.types import Bill, Completion, Dialogue, Ready

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
        self.bill: Bill | None = None
        self._decoding = choose_decoding(model, config.decoding)
        self._sampling = Sampling(config.temperature, config.top_p, config.top_k, config.min_p)
        self._asking = config.asking
        self.thinking_off = switches_thinking_off(model.tokenizer, config.asking)
        """By the template's switch, which nobody set."""
        self._stops = StopStrings(model.tokenizer, config.stop) if config.stop else None
        budget = config.max_reasoning_tokens
        self._reasoning = ReasoningBudget(model.tokenizer, budget) if budget else None
        self._rows = MemoryBudget("generation", 2**16, halvings or Halvings())

    def has_room(self, prompt: str) -> bool:
        """Whether the model's context has room for this prompt and a whole answer."""
        return len(self._encode(prompt)) + self._model.max_new_tokens <= self._model.context

    def generate(
        self, prompts: Sequence[str | Dialogue], *, group_size: int, seed: int, ready: Ready | None = None
    ) -> list[tuple[Completion, ...]]:
        """Sample group_size completions for each question text, or next turns of each dialogue.

        The same seed gives the same tokens. What has no room in the context ends no run: such a question gets empty,
        unfinished completions, such a dialogue none at all. What `ready` was told stays, also where the batch is made
        smaller and run again.

        Raises:
            ModelError: one row does not fit into the GPU's memory, the weights have diverged, or the model's chat
                template takes no dialogue.
        """
        encoded = [self._encode(prompt) for prompt in prompts]
        fitting = [index for index, ids in enumerate(encoded) if len(ids) < self._model.context]
        for prompt, ids in zip(prompts, encoded, strict=True):
            if len(ids) >= self._model.context and not isinstance(prompt, Dialogue):
                logger.warning("generate.prompt_too_long", tokens=len(ids), context=self._model.context)
        uniform_K_G_T = draw_uniforms(len(prompts), group_size, self._model.max_new_tokens, seed)
        groups = [() if isinstance(prompt, Dialogue) else (_NO_ROOM,) * group_size for prompt in prompts]
        told = dict[int, tuple[Completion, ...]]()

        def ended(position: int, samples: list[Sample]) -> None:
            if (index := fitting[position]) not in told:
                told[index] = self._group(samples)
                assert ready
                ready(index, told[index])

        written = self._sample(fitting, encoded, uniform_K_G_T, ended if ready else None)
        for index, samples in zip(fitting, written, strict=True):
            groups[index] = told.get(index) or self._group(samples)
        return groups

    def shown_prompt(self, question: str) -> tuple[str, int]:
        """The prompt as the model gets it, special tokens visible, and its length in tokens."""
        ids = encode_prompt(self._model.tokenizer, question, self._asking)
        return shown_prompt(self._model.tokenizer, ids), len(ids)

    def _encode(self, prompt: str | Dialogue) -> list[int]:
        if isinstance(prompt, Dialogue):
            return encode_dialogue(self._model, prompt, self._asking)
        return encode_prompt(self._model.tokenizer, prompt, self._asking)

    def _sample(
        self, fitting: list[int], encoded: list[list[int]], uniform_K_G_T: Tensor, ended: Ended | None
    ) -> list[list[Sample]]:
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
                ended=ended,
                stops=self._stops,
                reasoning=self._reasoning,
            ),
            floor=1,
            whole=len(fitting) * uniform_K_G_T.shape[1],
        )

    def _group(self, samples: list[Sample]) -> tuple[Completion, ...]:
        return tuple(self._completion(sample) for sample in samples)

    def _completion(self, sample: Sample) -> Completion:
        text_ids = sample.token_ids[:-1] if sample.finished and not sample.stopped else sample.token_ids
        text = decode_completion(self._model.tokenizer, list(text_ids))
        return Completion(text, sample.finished, sample.token_ids, sample.logprobs, forced=sample.forced)
