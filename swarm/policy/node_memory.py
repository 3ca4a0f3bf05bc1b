"""How much memory does one node need? Pure arithmetic; all sizes are bytes.

What a node holds at its highest point:

    always      fp32 weights, two Adam moments, the reference where there is a KL term, gradients (an update may be
                begun while the node generates)
    and either  generating: KV cache of I x G rows, the sampler's rows of the vocabulary
    or          an update: what autograd keeps of one micro-batch, one block of logits, one layer's own gradients

What autograd keeps is counted, not fitted. Per layer and token position, D hidden, F feed-forward, Q = heads x head
dim, K = key/value heads x head dim:

    gated layer (Qwen2, Llama)                        fp32, numbers   under bf16 autocast, bytes
      2 x RMSNorm: input, normalised, output          6 D             (4 + 4 + 3 x 2) D + (4 + 4 + 2 x 2) D; each of the
                                                                      3 + 2 products behind them casts its own input
      queries, attention output                       2 Q             2 x 2 Q
      gate, silu(gate), up, their product             4 F             4 x 2 F
      log-sum-exp of the attention                    heads           4 heads
      queries and keys normalised (Qwen3)             2 (Q + K)       2 x 4 (Q + K)
    fused layer (GPT-2)
      2 x LayerNorm: input, output                    4 D             2 x (4 + 2) D
      fused queries, keys and values; output          4 D             4 x 2 D
      tanh GELU: x, x / 2, tanh, 1 + tanh, product    5 F             (2 + 4 + 2 + 4 + 4 + 2) F; its power is fp32

    per key that a row attends to: a key and a value, repeated to Q where heads share them (masked attention does that);
    per pair of query and key: the mask as numbers, or with eager attention each head's weights.

With shared prompts a row has its own copy of its prompt's keys and values; with gradient checkpointing each layer keeps
its input alone, and one layer at a time is whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from swarm.config import Settings
from swarm.policy.buckets import column_bucket, row_bucket
from swarm.policy.device_memory import DeviceMemory
from swarm.policy.prompt_lengths import longest_prompt
from swarm.policy.shape import ModelShape

MAX_LOGITS = 2**22
"""Logits of one block and its least width, as in swarm.policy.linear_logprobs, which imports torch."""
MIN_LOGITS_WIDTH = 256
LOGITS_BUFFERS = 2
"""A block's probabilities, and their gradient."""
SCORER = 100 * 2**20
"""One scoring server (measured)."""
_FP32, _BF16 = 4, 2


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """The largest micro-batch of an update."""

    prompts: int
    """Prompts that run once for all their rows; 0 where each row repeats its own."""
    rows: int
    prompt_tokens: int
    new_tokens: int

    @property
    def positions(self) -> int:
        """Token positions in the forward pass."""
        return self.prompts * self.prompt_tokens + self.rows * (self.new_tokens + self._repeated)

    @property
    def keys(self) -> int:
        """Keys in memory: of prompts, and of each row its prompt's again."""
        return self.prompts * self.prompt_tokens + self.rows * (self.prompt_tokens + self.new_tokens)

    @property
    def pairs(self) -> int:
        """Pairs of query and key."""
        length = self.prompt_tokens + self.new_tokens
        return self.prompts * self.prompt_tokens**2 + self.rows * (self.new_tokens + self._repeated) * length

    @property
    def _repeated(self) -> int:
        return 0 if self.prompts else self.prompt_tokens


@dataclass(frozen=True, kw_only=True)
class NodeMemory:
    """What one worker needs, by part."""

    model: str
    prompt_tokens: int
    """Longest prompt that is assumed."""
    new_tokens: int
    """Longest completion."""
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


def node_memory(
    shape: ModelShape, settings: Settings, device: DeviceMemory, *, micro_batch_tokens: int, checkpointing: bool
) -> NodeMemory:
    """What one node of this model needs."""
    bf16 = computes_in_bf16(settings, device)
    batch = worst_micro_batch(shape, settings, micro_batch_tokens, share_prompts=not checkpointing)
    eager = settings.attention == "eager"
    static = settings.decoding == "static" or (settings.decoding == "auto" and device.is_gpu)
    cache = cache_bytes(shape, settings, bf16=bf16, static=static)
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
        activations=activation_bytes(shape, batch, bf16=bf16, eager=eager, checkpointing=checkpointing),
        logits=_logits_bytes(shape, batch),
        snapshot=3 * fp32_weights,
        scorers=settings.scorer_processes * SCORER,
    )


def computes_in_bf16(settings: Settings, device: DeviceMemory) -> bool:
    """Whether the model computes under bf16 autocast."""
    return settings.precision == "bf16" or (settings.precision == "auto" and device.is_gpu and device.bf16)


def lengths(shape: ModelShape, settings: Settings) -> tuple[int, int]:
    """(prompt, completion): tokens of the longest, both within the context."""
    new = min(settings.max_new_tokens or shape.max_new_tokens, shape.context - 1)
    return min(longest_prompt(shape.name, settings.profile, settings.tasks), shape.context - new), new


def worst_micro_batch(
    shape: ModelShape, settings: Settings, micro_batch_tokens: int, *, share_prompts: bool
) -> MicroBatch:
    """The largest micro-batch that fills at most so many positions, of rows that are all as long as can be."""
    prompt, new = lengths(shape, settings)
    group, all_rows = settings.generations, settings.total_groups * settings.generations
    if not share_prompts:
        rows = max(1, min(all_rows, micro_batch_tokens // (prompt + new)))
        return MicroBatch(prompts=0, rows=rows, prompt_tokens=prompt, new_tokens=new)
    whole = micro_batch_tokens // (prompt + group * new)
    rest = max(0, micro_batch_tokens - whole * (prompt + group * new) - prompt) // new
    rows = max(1, min(all_rows, whole * group + rest))
    return MicroBatch(prompts=-(-rows // group), rows=rows, prompt_tokens=prompt, new_tokens=new)


def cache_bytes(shape: ModelShape, settings: Settings, *, bf16: bool, static: bool) -> int:
    """KV cache of all rows at full length.

    A dynamic one has one layer twice while it grows; a static one is rounded up.
    """
    rows, columns = settings.most_local_groups * settings.generations, sum(lengths(shape, settings))
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


def activation_bytes(shape: ModelShape, batch: MicroBatch, *, bf16: bool, eager: bool, checkpointing: bool) -> int:
    """The highest point of one micro-batch, logits apart: what autograd keeps, and what comes and goes beside it.

    That is the cache of shared prompts at the end of the forward pass, and after it the gradients inside one layer.
    """
    kept = kept_bytes(shape, batch, bf16=bf16, eager=eager, checkpointing=checkpointing)
    width = _BF16 if bf16 else _FP32
    grouped = batch.prompts > 0 and shape.heads > shape.kv_heads  # else autograd keeps the cache's own tensors
    cache = shape.layers * batch.keys * 2 * shape.kv_heads * shape.head_dim * width if grouped else 0
    gradients = 3 * shape.intermediate * batch.positions * width  # of gate, up and their product
    return kept + max(cache, gradients)


def kept_bytes(shape: ModelShape, batch: MicroBatch, *, bf16: bool, eager: bool, checkpointing: bool) -> int:
    """What autograd keeps of one micro-batch up to the logits; under bf16 also every matrix as it was cast."""
    layer = _layer_bytes(shape, batch, bf16=bf16, eager=eager)
    final_norm = 2 * shape.hidden * batch.positions + shape.hidden * batch.rows * batch.new_tokens
    rotations = 0 if shape.fused_qkv else 2 * shape.head_dim * batch.positions
    cast = _BF16 * shape.parameters if bf16 else 0
    edges = _FP32 * (final_norm + rotations) + cast
    if checkpointing:
        return shape.layers * _FP32 * shape.hidden * batch.positions + layer + edges
    return shape.layers * layer + edges


def _layer_bytes(shape: ModelShape, batch: MicroBatch, *, bf16: bool, eager: bool) -> int:
    """What autograd keeps of one layer; the table is in this file's docstring."""
    width = _BF16 if bf16 else _FP32
    per_token = _fused_token_bytes(shape, bf16=bf16) if shape.fused_qkv else _gated_token_bytes(shape, bf16=bf16)
    views_of_fused = shape.fused_qkv and not batch.prompts
    per_key = 0 if views_of_fused else 2 * shape.heads * shape.head_dim * width
    per_pair = shape.heads * (_FP32 + (_BF16 if bf16 else 0)) if eager else width
    return batch.positions * per_token + batch.keys * per_key + batch.pairs * per_pair


def _gated_token_bytes(shape: ModelShape, *, bf16: bool) -> int:
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    norms = shape.hidden * (26 if bf16 else 24) + (8 * (queries + keys) if shape.qk_norm else 0)
    width = _BF16 if bf16 else _FP32
    return norms + width * (2 * queries + 4 * shape.intermediate) + _FP32 * shape.heads


def _fused_token_bytes(shape: ModelShape, *, bf16: bool) -> int:
    per_hidden, per_inner = (12 + 8, 18) if bf16 else (16 + 16, 20)
    return per_hidden * shape.hidden + per_inner * shape.intermediate + _FP32 * shape.heads


def _logits_bytes(shape: ModelShape, batch: MicroBatch) -> int:
    tokens = batch.rows * batch.new_tokens
    width = min(shape.vocabulary, max(MIN_LOGITS_WIDTH, MAX_LOGITS // tokens))
    return LOGITS_BUFFERS * _FP32 * tokens * width
