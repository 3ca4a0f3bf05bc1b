"""The memory that one node needs, by part. Pure arithmetic; all sizes are bytes.

What a node holds at its highest point:

    always      fp32 weights, two Adam moments, the reference where there is a KL term, gradients (an update may be
                begun while the node generates)
                of an adapter these are small; beside it the frozen base, once for all nodes of a process, in what is
                computed in, which is the reference, too
    and either  generating: reading the prompts; then KV cache of I x G rows, the sampler's rows of the vocabulary
                with adapters: of all nodes of the process together
    or          an update: the activations of one micro-batch (swarm.planner.footprint), one block of logits

Not covered: what kernels allocate for themselves.

longest_prompt was measured once: asking the tasks themselves costs more than a second.

400 questions per task of the first family (0.1.25), seeds drawn at random. For the embedded models: whole prompts, in
their own tokens. For all others: pieces of the question under Qwen2's pre-tokenizer, which splits numbers into digits;
a common word is one token there, and no piece is less than one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from swarm.config import Settings
from swarm.config.revising import revising
from swarm.planner.device_memory import DeviceMemory
from swarm.planner.footprint import Footprint, MicroBatch
from swarm.planner.shape import ModelShape
from swarm.policy.embedded import EMBEDDED
from swarm.policy.parts import options_of, training_plugins
from swarm.policy.settings import column_bucket, has_static_buffers, logits_width, row_bucket

LOGITS_BUFFERS = 2
"""A block's probabilities, and their gradient."""
SCORER = 100 * 2**20
"""One scoring server (measured)."""
_FP32, _HALF = 4, 2


@dataclass(frozen=True, kw_only=True)
class NodeMemory:
    """Lists what one worker needs of memory, by part."""

    model: str
    prompt_tokens: int
    """Longest prompt that is assumed."""
    new_tokens: int
    """Longest completion, of a conversation all that follows the prompt."""
    base: int
    """Frozen weights beside which an adapter is trained, once for all nodes of a process; 0: there is no adapter."""
    weights: int
    """What is trained: fp32, and a copy where the device computes in half precision; an adapter's twice, to generate
    with others' and alone."""
    reference: int
    optimizer: int
    gradients: int
    """All of them, and one more of the largest weight while it is added."""
    buffers: int
    """Static KV cache of generation, its logits, and what a recorded drawing works in; 0 for a dynamic cache."""
    generation: int
    """While it generates: the prompts' activations, or sampler and dynamic KV cache."""
    activations: int
    """Activations of one micro-batch, while it makes an update."""
    logits: int
    """One block of them, while it makes an update."""
    kept: Mapping[str, int]
    """Host memory of plugins' parts of the trainer (swarm.policy.parts), by title."""
    snapshot: int
    """Host memory: weights, moments and `kept` while a checkpoint is written."""
    scorers: int
    """Host memory of the children that score."""
    on_host: bool
    """It computes on the CPU, although the plan's device is a GPU."""

    @property
    def resident(self) -> int:
        """Device memory that is held all the time."""
        return self.base + self.weights + self.reference + self.optimizer + self.gradients + self.buffers

    @property
    def update(self) -> int:
        """Device memory that an update needs on top."""
        return self.activations + self.logits

    @property
    def peak(self) -> int:
        """Returns the highest point on the device, without context."""
        return self.resident + max(self.generation, self.update)


CHARACTERS_PER_TOKEN = 2
"""At least, of answers in words and digits."""


class Talk(NamedTuple):
    """The longest conversation that a run's tasks may lead to."""

    turns: int = 1
    """Turns of the model."""
    reply_tokens: int = 0
    """Tokens of what the environment says between two of them, the chat template's marks included."""


ONE_TURN = Talk()


class SizedModel(NamedTuple):
    """A model as the plan knows it."""

    shape: ModelShape
    footprint: Footprint
    on_host: bool = False
    """Its nodes compute on the CPU, although the plan's device is a GPU."""


def node_memory(
    model: SizedModel,
    settings: Settings,
    device: DeviceMemory,
    *,
    micro_batch_tokens: int,
    checkpointing: bool,
    talk: Talk = ONE_TURN,
    together: int = 1,
) -> NodeMemory:
    """Returns the memory that one node of this model needs.

    Args:
        together: nodes that generate as one batch; its cache, sampler and prompts are counted here.
    """
    shape, footprint, on_host = model
    device = device.host if on_host else device
    half = computes_in_half(settings, device)
    batch = worst_micro_batch(shape, settings, micro_batch_tokens, talk=talk)
    static = has_static_buffers(settings.decoding, on_gpu=device.is_gpu)
    recorded = static and device.is_gpu
    rows = together * settings.most_local_groups * settings.generations
    drawing = sampler_bytes(shape, settings, row_bucket(rows) if recorded else rows)
    cache = cache_bytes(shape, settings, half=half, static=static, talk=talk, together=together)
    fp32_all, width = _FP32 * shape.parameters, _HALF if half else _FP32
    fp32_trained = _FP32 * (footprint.adapter or shape.parameters)
    reading = _reading_bytes(model, batch, rows, together * settings.most_local_groups, talk)
    copies = {title: number for one in training_plugins(settings) for title, number in one.copies(settings).items()}
    return NodeMemory(
        model=shape.name,
        prompt_tokens=batch.prompt_tokens,
        new_tokens=batch.new_tokens,
        base=width * shape.parameters if footprint.adapter else 0,
        weights=fp32_trained
        + (2 * width * footprint.adapter if footprint.adapter else _HALF * shape.parameters if half else 0),
        reference=fp32_all if settings.kl_weight > 0 and not footprint.adapter else 0,
        optimizer=2 * fp32_trained,
        gradients=fp32_trained * (3 if options_of(settings).halves else 1)
        + (0 if footprint.adapter else _FP32 * shape.vocabulary * shape.hidden),
        buffers=(cache + _FP32 * row_bucket(rows) * shape.vocabulary if static else 0) + (drawing if recorded else 0),
        generation=max(reading, (0 if recorded else drawing) + (0 if static else cache)),
        activations=(footprint.checkpointed if checkpointing else footprint.kept).bytes(batch, shape.layers),
        logits=_logits_bytes(shape, batch, on_gpu=device.is_gpu),
        kept={title: number * fp32_trained for title, number in copies.items()},
        snapshot=(3 + sum(copies.values())) * fp32_trained,
        scorers=settings.scorer_processes * SCORER,
        on_host=on_host,
    )


def computes_in_half(settings: Settings, device: DeviceMemory) -> bool:
    """Tells whether the model computes under autocast, in bf16 or fp16."""
    if settings.precision == "auto":
        return device.is_gpu and (device.bf16 or settings.adapter.kind != "none")
    return settings.precision != "fp32"


def _reading_bytes(model: SizedModel, batch: MicroBatch, rows: int, prompts: int, talk: Talk) -> int:
    """Returns the bytes of reading the prompts, each once; in the last turn of a conversation each row has one of its
    own."""
    tokens = batch.prompt_tokens
    if talk.turns > 1:
        prompts, tokens = rows, tokens + batch.new_tokens
    read = MicroBatch(prompts=prompts, rows=0, prompt_tokens=tokens, new_tokens=0)
    return round(max(0, model.footprint.reading.of(read, model.shape.layers)))


def lengths(shape: ModelShape, settings: Settings, talk: Talk = ONE_TURN) -> tuple[int, int]:
    """(prompt, all that follows it): tokens of the longest, both within the context."""
    most = talk.turns * (settings.max_new_tokens or shape.max_new_tokens) + (talk.turns - 1) * talk.reply_tokens
    new = min(most, shape.context - 1)
    prompt = longest_prompt(shape.name, settings.profile, settings.tasks) + _shown_tokens(settings)
    return min(prompt, shape.context - new), new


def _shown_tokens(settings: Settings) -> int:
    """Returns the tokens of the answers that a later stage's prompt shows, with the words of its template."""
    if settings.max_stages == 1:
        return 0
    rules = revising(settings.revise, settings.profile)
    return math.ceil((rules.answers * rules.characters + max(map(len, rules.templates))) / CHARACTERS_PER_TOKEN)


def worst_micro_batch(
    shape: ModelShape, settings: Settings, micro_batch_tokens: int, *, talk: Talk = ONE_TURN
) -> MicroBatch:
    """Returns the largest micro-batch that fills at most so many positions, of rows that are all as long as can be."""
    prompt, new = lengths(shape, settings, talk)
    group, all_rows = settings.generations, settings.total_groups * settings.generations
    whole = micro_batch_tokens // (prompt + group * new)
    rest = max(0, micro_batch_tokens - whole * (prompt + group * new) - prompt) // new
    rows = max(1, min(all_rows, whole * group + rest))
    return MicroBatch(prompts=-(-rows // group), rows=rows, prompt_tokens=prompt, new_tokens=new)


def cache_bytes(
    shape: ModelShape, settings: Settings, *, half: bool, static: bool, talk: Talk = ONE_TURN, together: int = 1
) -> int:
    """KV cache of all rows of so many nodes at full length.

    A dynamic one has one layer twice while it grows; a static one is rounded up.
    """
    rows, columns = settings.most_local_groups * settings.generations * together, sum(lengths(shape, settings, talk))
    if static:
        rows, columns = row_bucket(rows), column_bucket(columns)
    layer = rows * columns * 2 * shape.kv_heads * shape.head_dim * (_HALF if half else _FP32)
    return (shape.layers + (not static)) * layer


def sampler_bytes(shape: ModelShape, settings: Settings, rows: int) -> int:
    """Logits, log-probs, probabilities and their fp64 running sum of all rows; more to scale, and to sort them."""
    scaled = _FP32 if settings.temperature != 1 else 0
    sorted_with_order = 24 if settings.top_k or settings.top_p < 1 else 0
    return rows * shape.vocabulary * (3 * _FP32 + 8 + scaled + sorted_with_order)


def _logits_bytes(shape: ModelShape, batch: MicroBatch, *, on_gpu: bool) -> int:
    tokens = batch.rows * batch.new_tokens
    return LOGITS_BUFFERS * _FP32 * tokens * logits_width(tokens, shape.vocabulary, on_gpu=on_gpu)


FRAME_TOKENS = 64
"""Instruction and chat template around a question, for models that are not embedded."""

_LONGEST: dict[str, dict[str, tuple[int, int, int]]] = {
    "paper": {
        "base_conversion": (56, 40, 52),
        "basic_arithmetic": (46, 59, 76),
        "arc_1d": (523, 241, 457),
        "bf": (27, 61, 97),
        "propositional_logic": (172, 175, 278),
        "fraction_simplification": (33, 26, 26),
        "decimal_arithmetic": (66, 56, 58),
        "calendar_arithmetic": (52, 129, 202),
        "binary_matrix": (268, 128, 220),
    },
    "tiny": {
        "base_conversion": (51, 25, 30),
        "basic_arithmetic": (12, 11, 15),
        "arc_1d": (129, 41, 71),
        "bf": (27, 67, 97),
        "propositional_logic": (117, 62, 99),
        "fraction_simplification": (24, 9, 9),
        "decimal_arithmetic": (38, 20, 22),
        "calendar_arithmetic": (45, 39, 107),
        "binary_matrix": (86, 30, 38),
    },
}
"""Family of profiles -> task -> (pieces of the question, tokens of the prompt for the embedded models of Qwen2, of
GPT-2): the most of all its profiles."""
_COLUMN = {name: 2 if "gpt2" in name else 1 for name in EMBEDDED}


def longest_prompt(model: str, profile: str, tasks: Sequence[str] | None) -> int:
    """Returns tokens of the longest prompt that a model may be given; tasks None: all of the profile."""
    measured = _LONGEST["tiny" if profile.startswith("tiny") else "paper"]
    column = _COLUMN.get(model, 0)
    of_all = max(lengths[column] for lengths in measured.values())  # what counts for a task that was not measured
    longest = max((measured[task][column] if task in measured else of_all) for task in tasks or measured)
    return longest if column else longest + FRAME_TOKENS
