"""The memory that one node needs, by part. Pure arithmetic; all sizes are bytes.

What a node holds at its highest point:

    always      fp32 weights, two Adam moments, the reference where there is a KL term, gradients (an update may be
                begun while the node generates)
    and either  generating: KV cache of I x G rows, the sampler's rows of the vocabulary
    or          an update: the activations of one micro-batch (swarm.planner.footprint), one block of logits

Not covered: what kernels allocate for themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from swarm.config import Settings
from swarm.config.revising import revising
from swarm.planner.device_memory import DeviceMemory
from swarm.planner.footprint import Footprint, MicroBatch
from swarm.planner.prompt_lengths import longest_prompt
from swarm.planner.shape import ModelShape
from swarm.policy.buckets import column_bucket, row_bucket

MAX_LOGITS = 2**22
"""Logits of one block and its least width, as in swarm.policy.logprobs, which imports torch."""
MIN_LOGITS_WIDTH = 256
LOGITS_BUFFERS = 2
"""A block's probabilities, and their gradient."""
SCORER = 100 * 2**20
"""One scoring server (measured)."""
_FP32, _BF16 = 4, 2


@dataclass(frozen=True, kw_only=True)
class NodeMemory:
    """What one worker needs, by part."""

    model: str
    prompt_tokens: int
    """Longest prompt that is assumed."""
    new_tokens: int
    """Longest completion, of a conversation all that follows the prompt."""
    weights: int
    """fp32, and a bf16 copy where the device computes in it."""
    reference: int
    optimizer: int
    gradients: int
    """All of them, and one more of the largest weight while it is added."""
    buffers: int
    """Static KV cache of generation and its logits, which stay; 0 for a dynamic one."""
    generation: int
    """Sampler and dynamic KV cache, while it generates."""
    activations: int
    """Of one micro-batch, while it makes an update."""
    logits: int
    """One block of them, while it makes an update."""
    snapshot: int
    """Host memory: weights and moments while a checkpoint is written."""
    scorers: int
    """Host memory of the children that score."""

    @property
    def resident(self) -> int:
        """Device memory that is held all the time."""
        return self.weights + self.reference + self.optimizer + self.gradients + self.buffers

    @property
    def update(self) -> int:
        """Device memory that an update needs on top."""
        return self.activations + self.logits

    @property
    def peak(self) -> int:
        """The highest point on the device, without context."""
        return self.resident + max(self.generation, self.update)


CHARACTERS_PER_TOKEN = 2
"""At least, of answers in words and digits."""


class Talk(NamedTuple):
    """The longest conversation that a run's tasks may lead to."""

    turns: int = 1
    """Of the model."""
    reply_tokens: int = 0
    """Of what the environment says between two of them, the chat template's marks included."""


ONE_TURN = Talk()


class SizedModel(NamedTuple):
    """A model as the plan knows it."""

    shape: ModelShape
    footprint: Footprint


def node_memory(
    model: SizedModel,
    settings: Settings,
    device: DeviceMemory,
    *,
    micro_batch_tokens: int,
    checkpointing: bool,
    talk: Talk = ONE_TURN,
) -> NodeMemory:
    """What one node of this model needs."""
    shape, footprint = model
    bf16 = computes_in_bf16(settings, device)
    batch = worst_micro_batch(shape, settings, micro_batch_tokens, share_prompts=not checkpointing, talk=talk)
    static = settings.decoding == "static" or (settings.decoding == "auto" and device.is_gpu)
    cache = cache_bytes(shape, settings, bf16=bf16, static=static, talk=talk)
    fp32_weights = _FP32 * shape.parameters
    return NodeMemory(
        model=shape.name,
        prompt_tokens=batch.prompt_tokens,
        new_tokens=batch.new_tokens,
        weights=fp32_weights + (_BF16 * shape.parameters if bf16 else 0),
        reference=fp32_weights if settings.kl_weight > 0 else 0,
        optimizer=2 * fp32_weights,
        gradients=fp32_weights + _FP32 * shape.vocabulary * shape.hidden,
        buffers=cache + static_logits_bytes(shape, settings) if static else 0,
        generation=sampler_bytes(shape, settings) + (0 if static else cache),
        activations=(footprint.checkpointed if checkpointing else footprint.shared).bytes(batch, shape.layers),
        logits=_logits_bytes(shape, batch),
        snapshot=3 * fp32_weights,
        scorers=settings.scorer_processes * SCORER,
    )


def computes_in_bf16(settings: Settings, device: DeviceMemory) -> bool:
    """Whether the model computes under bf16 autocast."""
    return settings.precision == "bf16" or (settings.precision == "auto" and device.is_gpu and device.bf16)


def lengths(shape: ModelShape, settings: Settings, talk: Talk = ONE_TURN) -> tuple[int, int]:
    """(prompt, all that follows it): tokens of the longest, both within the context."""
    most = talk.turns * (settings.max_new_tokens or shape.max_new_tokens) + (talk.turns - 1) * talk.reply_tokens
    new = min(most, shape.context - 1)
    prompt = longest_prompt(shape.name, settings.profile, settings.tasks) + _shown_tokens(settings)
    return min(prompt, shape.context - new), new


def _shown_tokens(settings: Settings) -> int:
    """Of the answers that a prompt of a later stage shows, with the words of its template."""
    if settings.max_stages == 1:
        return 0
    rules = revising(settings.revise, settings.profile)
    return math.ceil((rules.answers * rules.characters + max(map(len, rules.templates))) / CHARACTERS_PER_TOKEN)


def worst_micro_batch(
    shape: ModelShape, settings: Settings, micro_batch_tokens: int, *, share_prompts: bool, talk: Talk = ONE_TURN
) -> MicroBatch:
    """The largest micro-batch that fills at most so many positions, of rows that are all as long as can be."""
    prompt, new = lengths(shape, settings, talk)
    group, all_rows = settings.generations, settings.total_groups * settings.generations
    if not share_prompts:
        rows = max(1, min(all_rows, micro_batch_tokens // (prompt + new)))
        return MicroBatch(prompts=0, rows=rows, prompt_tokens=prompt, new_tokens=new)
    whole = micro_batch_tokens // (prompt + group * new)
    rest = max(0, micro_batch_tokens - whole * (prompt + group * new) - prompt) // new
    rows = max(1, min(all_rows, whole * group + rest))
    return MicroBatch(prompts=-(-rows // group), rows=rows, prompt_tokens=prompt, new_tokens=new)


def cache_bytes(shape: ModelShape, settings: Settings, *, bf16: bool, static: bool, talk: Talk = ONE_TURN) -> int:
    """KV cache of all rows at full length.

    A dynamic one has one layer twice while it grows; a static one is rounded up.
    """
    rows, columns = settings.most_local_groups * settings.generations, sum(lengths(shape, settings, talk))
    if static:
        rows, columns = row_bucket(rows), column_bucket(columns)
    layer = rows * columns * 2 * shape.kv_heads * shape.head_dim * (_BF16 if bf16 else _FP32)
    return (shape.layers + (not static)) * layer


def static_logits_bytes(shape: ModelShape, settings: Settings) -> int:
    """fp32 logits of all rows, where a recorded step puts them."""
    return _FP32 * row_bucket(settings.most_local_groups * settings.generations) * shape.vocabulary


def sampler_bytes(shape: ModelShape, settings: Settings) -> int:
    """Logits, log-probs, probabilities and their fp64 running sum of all rows; more to scale, and to sort them."""
    scaled = _FP32 if settings.temperature != 1 else 0
    sorted_with_order = 24 if settings.top_k or settings.top_p < 1 else 0
    words = settings.most_local_groups * settings.generations * shape.vocabulary
    return words * (3 * _FP32 + 8 + scaled + sorted_with_order)


def _logits_bytes(shape: ModelShape, batch: MicroBatch) -> int:
    tokens = batch.rows * batch.new_tokens
    width = min(shape.vocabulary, max(MIN_LOGITS_WIDTH, MAX_LOGITS // tokens))
    return LOGITS_BUFFERS * _FP32 * tokens * width
