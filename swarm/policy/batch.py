"""Which tensors does the trainer see of the round's groups?

    TrainGroup ──encode_groups──▶ Encoded (rows of token ids) ──split_rows──▶ [rows] ──stack_rows──▶ MicroBatch

End-of-text is part of the loss: own completions carry the sampled one, finished external ones get the model's, cut
ones have none. Prompts are padded on the left and completions on the right, so that every sequence is contiguous and
its completion begins in one column.

Sizes: K prompts of up to P tokens, N completion rows of up to T tokens, M real completion tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from swarm.policy.model import LanguageModel
from swarm.policy.prompt import encode_completion, encode_prompt
from swarm.types import Completion, TrainGroup

EXTERNAL_LENGTHS = 4
"""A stranger's completion may be so many times as long as the own longest: a row is the least that memory must hold."""
_MIN_BLOCK_ROWS = 8


@dataclass(frozen=True, eq=False)
class Row:
    """One completion that carries a gradient."""

    group: int
    """Which group it belongs to: rows of one group share one forward pass of the prompt."""
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    advantage: float
    sampled_logprobs: tuple[float, ...] | None
    """What the generator saw, for own completions."""


@dataclass(frozen=True)
class Encoded:
    """All groups of one update as token ids."""

    rows: list[Row]
    tokens: int
    """Completion tokens of all groups, those without a gradient included: the loss is divided by this."""
    groups_too_long: int

    @property
    def trained_tokens(self) -> int:
        """Completion tokens of the rows."""
        return sum(len(row.token_ids) for row in self.rows)

    @property
    def longest(self) -> int:
        """Tokens of the longest row, prompt included: no micro-batch can be smaller."""
        return max(len(row.prompt_ids) + len(row.token_ids) for row in self.rows)


@dataclass(frozen=True)
class PaddedPrompts:
    """K prompts, padded on the left."""

    ids: Tensor
    """[K, P]."""
    mask: Tensor
    """bool [K, P], False on padding."""
    positions: Tensor
    """[K, P], 0 at each prompt's first token."""

    @property
    def lengths(self) -> Tensor:
        """Tokens of each prompt, [K]."""
        return self.mask.sum(dim=1)


class Block(NamedTuple):
    """Rows start to stop, whose completions have at most `width` tokens."""

    start: int
    stop: int
    width: int


@dataclass(frozen=True)
class MicroBatch:
    """The tensors of one forward and backward pass."""

    prompts: PaddedPrompts
    prompt_of_row: Tensor
    """[N], index of each row's prompt."""
    completion_ids: Tensor
    """[N, T]."""
    completion_mask: Tensor
    """bool [N, T], False on padding."""
    advantages: Tensor
    """[M], of each token's completion."""
    sampled_logprobs: Tensor
    """[M], the generator's log-probs, NaN where there are none."""
    blocks: list[Block]
    """The rows, parted where their lengths differ enough for separate padding to pay."""


def encode_groups(groups: Sequence[TrainGroup], model: LanguageModel, *, all_rows: bool) -> Encoded:
    """Tokenize the groups; leave out those too long for the context or beside the own ones, and rows without gradient.

    Args:
        all_rows: keep rows with advantage 0 too, because a KL term gives them a gradient.
    """
    rows: list[Row] = []
    tokens = too_long = 0
    for index, group in enumerate(groups):
        prompt_ids = tuple(encode_prompt(model.tokenizer, group.prompt))
        completions = [_completion_ids(completion, model) for completion in group.completions]
        longest = max(map(len, completions), default=0)
        if len(prompt_ids) + longest > model.context or longest > EXTERNAL_LENGTHS * model.max_new_tokens:
            too_long += 1
            continue
        tokens += sum(map(len, completions))
        for completion, ids, advantage in zip(group.completions, completions, group.advantages, strict=True):
            if ids and (all_rows or advantage != 0):
                rows.append(Row(index, prompt_ids, ids, advantage, completion.logprobs))
    return Encoded(rows, tokens, too_long)


def split_rows(rows: Sequence[Row], *, max_positions: int, share_prompts: bool) -> Iterator[list[Row]]:
    """Pack rows into micro-batches of at most max_positions padded token positions; a longer row goes alone.

    Prompts of similar length come together, a group's rows stay together as far as they fit, and the rows of each
    micro-batch are ordered by the length of their completions.
    """
    part: list[Row] = []
    for row in sorted(rows, key=lambda row: (len(row.prompt_ids), row.group, len(row.token_ids))):
        if part and _positions([*part, row], share_prompts) > max_positions:
            yield sorted(part, key=_completion_length)
            part = []
        part.append(row)
    if part:
        yield sorted(part, key=_completion_length)


def stack_rows(rows: Sequence[Row], model: LanguageModel) -> MicroBatch:
    """Pad rows, ordered by the length of their completions, into tensors on the model's device."""
    prompts = {row.group: row.prompt_ids for row in rows}
    index = {group: k for k, group in enumerate(prompts)}
    lengths = [len(row.token_ids) for row in rows]
    longest, length_N = lengths[-1], torch.tensor(lengths)
    padded = [[*row.token_ids, *[model.pad_id] * (longest - len(row.token_ids))] for row in rows]
    advantage_N = torch.tensor([row.advantage for row in rows], dtype=torch.float32)
    sampled = [value for row in rows for value in row.sampled_logprobs or [float("nan")] * len(row.token_ids)]
    return MicroBatch(
        prompts=pad_prompts(list(prompts.values()), model),
        prompt_of_row=torch.tensor([index[row.group] for row in rows], device=model.device),
        completion_ids=torch.tensor(padded, device=model.device),
        completion_mask=(torch.arange(longest) < length_N[:, None]).to(model.device),
        advantages=advantage_N.repeat_interleave(length_N).to(model.device),
        sampled_logprobs=torch.tensor(sampled, dtype=torch.float32, device=model.device),
        blocks=length_blocks(lengths),
    )


def length_blocks(lengths: Sequence[int], start: int = 0) -> list[Block]:
    """Part ascending lengths in halves, again and again, as long as that saves an eighth of the padded positions.

    A forward pass costs about the same per position however they are parted, down to a few rows.
    """
    half = len(lengths) // 2
    block = Block(start, start + len(lengths), lengths[-1])
    if half < _MIN_BLOCK_ROWS or 8 * half * (lengths[-1] - lengths[half - 1]) < len(lengths) * lengths[-1]:
        return [block]
    return length_blocks(lengths[:half], start) + length_blocks(lengths[half:], start + half)


def pad_prompts(prompts: Sequence[Sequence[int]], model: LanguageModel) -> PaddedPrompts:
    """Left-pad K prompts into tensors on the model's device."""
    longest = max(map(len, prompts))
    ids_K_P = torch.tensor([[*[model.pad_id] * (longest - len(ids)), *ids] for ids in prompts])
    length_K = torch.tensor([len(ids) for ids in prompts])
    position_K_P = torch.arange(longest) - (longest - length_K)[:, None]
    return PaddedPrompts(
        ids=ids_K_P.to(model.device),
        mask=(position_K_P >= 0).to(model.device),
        positions=position_K_P.clamp(min=0).to(model.device),
    )


def _completion_ids(completion: Completion, model: LanguageModel) -> tuple[int, ...]:
    """Own completions keep their sampled ids: decoding and encoding again is not the identity."""
    if completion.token_ids is not None:
        return completion.token_ids
    ids = encode_completion(model.tokenizer, completion.text)
    return (*ids, model.eos_id) if completion.finished else tuple(ids)


def _completion_length(row: Row) -> int:
    return len(row.token_ids)


def _positions(rows: Sequence[Row], share_prompts: bool) -> int:
    prompt, completion = max(len(row.prompt_ids) for row in rows), max(len(row.token_ids) for row in rows)
    if share_prompts:
        return prompt * len({row.group for row in rows}) + completion * len(rows)
    return (prompt + completion) * len(rows)
