"""Completions to question texts, and turns of dialogues, from a model at hand. Implements swarm.types.Generator.

    GenerationCall ─encode─▶ prompts ─┐
    GenerationCall ─encode─▶ prompts ─┴▶ one batch (generate.py) ─▶ samples ─decode─▶ completions of each call

Calls of several nodes, each with its own adapter beside one base, are one batch: a decoding step reads the base's
weights once for all of them. Uniforms are drawn per call, so that what a node samples depends on the others by rounding
alone.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import torch

from swarm.errors import ModelError
from swarm.logs import get_logger
from swarm.policy.decode import Decoding, choose_decoding
from swarm.policy.device import Halvings, MemoryBudget
from swarm.policy.draw import Sampling
from swarm.policy.generate import GeneratedSample, StopStrings, draw_uniforms, sample_in_parts
from swarm.policy.lora import Adapter
from swarm.policy.model import LanguageModel
from swarm.policy.prompt import (
    decode_completion,
    encode_dialogue,
    encode_prompt,
    shown_prompt,
    switches_thinking_off,
)
from swarm.policy.settings import GrpoConfig
from swarm.policy.shared_base import SharedBase
from swarm.types import Bill, Completion, Dialogue, GenerationCall, Groups, Ready

logger = get_logger(__name__)

_NO_ROOM = Completion(text="", finished=False, token_ids=(), logprobs=())


class ModelGenerator:
    """Samples from the weights as they are at each call. Not thread-safe."""

    def __init__(
        self,
        model: LanguageModel,
        config: GrpoConfig,
        halvings: Halvings | None = None,
        shared: SharedBase | None = None,
    ) -> None:
        """A generator of its own, or one of several.

        Args:
            halvings: is told to whoever reports them; None: nobody does.
            shared: the base beside which the model's adapter is.
        """
        self.model = model
        self.name = model.name
        self.tokenizer = model.tokenizer_digest
        self.bill: Bill | None = None
        self.prompt_date = config.asking.date
        """The date in its prompts; None: today's, or there is none."""
        self._shared = shared
        self._config = config
        self._decoding: Decoding | None = None if shared else choose_decoding(model, config.decoding)
        self._sampling = Sampling(config.temperature, config.top_p, config.top_k, config.min_p)
        how = (model.max_new_tokens, self._sampling, config.stop, config.decoding)
        self.batch_key: Hashable | None = (id(shared), *how) if shared else None
        """Shared by generators whose calls can be one batch; None: it generates alone."""
        self._asking = config.asking
        self.thinking_off = switches_thinking_off(model.tokenizer, config.asking)
        """By the template's switch, which nobody set."""
        self._stops = StopStrings(model.tokenizer, config.stop) if config.stop else None
        self._rows = MemoryBudget("generation", 2**16, halvings or Halvings())

    @property
    def repeats(self) -> bool:
        """Tells whether equal calls give equal completions: not on a GPU, and not where others' rows may be in the
        batch."""
        return self.model.device.type == "cpu" and not (self._shared and self._shared.size > 1)

    @property
    def batch_size(self) -> int:
        """Returns how many nodes share its base. Implements BatchingGenerator."""
        return self._shared.size if self._shared else 1

    def has_room(self, prompt: str) -> bool:
        """Tells whether the model's context has room for this prompt and a whole answer."""
        return len(self.encode(prompt)) + self.model.max_new_tokens <= self.model.context

    def generate(
        self, prompts: Sequence[str | Dialogue], *, group_size: int, seed: int, ready: Ready | None = None
    ) -> Groups:
        """Sample group_size completions for each question text, or next turns of each dialogue.

        The same seed gives the same tokens. What has no room in the context ends no run: such a question gets empty,
        unfinished completions, such a dialogue none at all. What `ready` was told stays, also where the batch is made
        smaller and run again.

        Raises:
            ModelError: one row does not fit into the GPU's memory, the weights have diverged, or the model's chat
                template takes no dialogue.
        """
        (groups,) = self.generate_together([(self, GenerationCall(prompts, group_size, seed, ready))])
        if isinstance(groups, ModelError):
            raise groups
        return groups

    @staticmethod
    def generate_together(calls: Sequence[tuple[ModelGenerator, GenerationCall]]) -> list[Groups | ModelError]:
        """Generates for several generators of equal batch_key, or for one, in one batch. Implements BatchingGenerator.

        Raises:
            ModelError: one row does not fit into the GPU's memory.
        """
        writings = [_Writing(generator, call) for generator, call in calls]
        asked = [writing for writing in writings if writing.prompts]
        if len(asked) > 1:
            asked = [writing for writing in asked if writing.is_sound()]
        if asked:
            _write(asked)
        return [writing.groups() for writing in writings]

    def shown_prompt(self, question: str) -> tuple[str, int]:
        """Returns the prompt as the model gets it, special tokens visible, and its length in tokens."""
        ids = encode_prompt(self.model.tokenizer, question, self._asking)
        return shown_prompt(self.model.tokenizer, ids), len(ids)

    def encode(self, prompt: str | Dialogue) -> list[int]:
        """Encodes a prompt into tokens. Raises ModelError: the model's chat template takes no dialogue."""
        if isinstance(prompt, Dialogue):
            return encode_dialogue(self.model, prompt, self._asking)
        return encode_prompt(self.model.tokenizer, prompt, self._asking)

    def completions(self, samples: list[GeneratedSample]) -> tuple[Completion, ...]:
        """Returns a group as text.

        Raises:
            ModelError: the model gave no probabilities.
        """
        return tuple(self._completion(sample) for sample in samples)

    def diverged(self) -> ModelError:
        """Makes the error that says why nothing comes of this model any more."""
        return ModelError(
            f"model {self.name!r} gives probabilities that are not finite: its weights have diverged. "
            "Resume from an older checkpoint with a lower learning rate."
        )

    def _completion(self, sample: GeneratedSample) -> Completion:
        if not math.isfinite(sum(sample.logprobs)):
            raise self.diverged()
        text_ids = sample.token_ids[:-1] if sample.finished and not sample.stopped else sample.token_ids
        text = decode_completion(self.model.tokenizer, list(text_ids))
        return Completion(text, sample.finished, sample.token_ids, sample.logprobs)


class _Writing:
    """One call while it is carried out."""

    def __init__(self, generator: ModelGenerator, call: GenerationCall) -> None:
        self.generator, self.call = generator, call
        context = generator.model.context
        self._told = dict[int, tuple[Completion, ...]]()
        self._error: ModelError | None = None
        self.written: list[list[GeneratedSample]] = []
        """The group to each of `prompts`, once all are there."""
        encoded = [generator.encode(prompt) for prompt in call.prompts]
        self._fitting = [index for index, ids in enumerate(encoded) if len(ids) < context]
        self.prompts = [encoded[index] for index in self._fitting]
        for prompt, ids in zip(call.prompts, encoded, strict=True):
            if len(ids) >= context and not isinstance(prompt, Dialogue):
                logger.warning("generate.prompt_too_long", tokens=len(ids), context=context)
        uniforms = draw_uniforms(len(encoded), call.group_size, generator.model.max_new_tokens, call.seed)
        self.uniform_F_G_T = uniforms[self._fitting]

    def ended(self, position: int, samples: list[GeneratedSample]) -> None:
        """The group to one of `prompts` is written."""
        index = self._fitting[position]
        if self.call.ready is None or index in self._told or self._error:
            return
        try:
            self._told[index] = self.generator.completions(samples)
        except ModelError as error:
            self._error = error
            return
        self.call.ready(index, self._told[index])

    def is_sound(self) -> bool:
        """Tells whether the weights are finite; what is not would be others' business in a batch with them."""
        model = self.generator.model
        if isinstance(model.adapter, Adapter) and not model.adapter.is_finite(model.autocast_dtype):
            self._error = self.generator.diverged()
        return self._error is None

    def groups(self) -> Groups | ModelError:
        """Returns the groups that the call returns, or the error that it raises."""
        if self._error:
            return self._error
        nothing = (_NO_ROOM,) * self.call.group_size
        groups = [() if isinstance(prompt, Dialogue) else nothing for prompt in self.call.prompts]
        try:
            for index, samples in zip(self._fitting, self.written, strict=True):
                groups[index] = self._told.get(index) or self.generator.completions(samples)
        except ModelError as error:
            return error
        return groups


def _write(writings: Sequence[_Writing]) -> None:
    """Sample what all of them ask for, as one batch."""
    first = writings[0].generator
    decoding, owner_K = _means(writings)
    places = [(writing, position) for writing in writings for position in range(len(writing.prompts))]
    prompts = [writing.prompts[position] for writing, position in places]
    uniform_K_G_T = torch.cat([writing.uniform_F_G_T for writing in writings])

    def ended(k: int, samples: list[GeneratedSample]) -> None:
        writing, position = places[k]
        writing.ended(position, samples)

    budget = min((writing.generator._rows for writing in writings), key=lambda rows: rows.size)
    samples = budget.run(
        lambda rows: sample_in_parts(
            decoding,
            prompts,
            uniform_K_G_T=uniform_K_G_T,
            sampling=first._sampling,
            max_rows=rows,
            ended=ended if any(writing.call.ready for writing in writings) else None,
            stops=first._stops,
            owner_K=owner_K,
        ),
        floor=1,
        whole=len(prompts) * uniform_K_G_T.shape[1],
    )
    for writing in writings:
        writing.generator._rows.size = budget.size
        writing.written = samples[: len(writing.prompts)]
        samples = samples[len(writing.prompts) :]


def _means(writings: Sequence[_Writing]) -> tuple[Decoding, torch.Tensor | None]:
    """Returns the decoding, and the number of each prompt's adapter where several are used."""
    first = writings[0].generator
    if first._decoding is not None:
        return first._decoding, None
    shared = first._shared
    assert shared is not None
    adapters = [writing.generator.model.adapter for writing in writings]
    own = [adapter for adapter in adapters if isinstance(adapter, Adapter)]
    decoding, numbers = shared.together(own, first._config.decoding)
    if numbers is None:
        return decoding, None
    counts = torch.tensor([len(writing.prompts) for writing in writings])
    return decoding, torch.tensor(numbers).repeat_interleave(counts).to(decoding.model.device)
