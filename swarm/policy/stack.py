"""Parts rows of training data into micro-batches, and turns each into the tensors of one forward pass.

    rows ──split_rows──▶ [rows] ──stack_rows──▶ TensorBatch: what is read (Pass), and what is known of each token

A pass is packed where the model's attention lets it be (attention.py), so that no position is padding and a prompt is
read once for all that follows it; else each row is a sequence by itself, with its prompt:

    packed  [1, T]   prompt 1 | prompt 2 | ... | row 1 | row 2 | ...        rows of about one length attend as one block
    padded  [N, T]   prompt 1, row 1, padding
                     prompt 1, row 2
                     ...

Sizes: N rows, B sequences of T places, M tokens that models wrote, K prompts of up to P tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from swarm.policy.attention import Packing, RowBlock, attend_in_blocks
from swarm.policy.batch import BatchRow
from swarm.policy.device import moved
from swarm.policy.model import LanguageModel

_BLOCK_COST = {"cpu": 48, "cuda": 1024}
"""What one more block of a packed pass costs, in positions of padding: the time to call attention once more."""


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
        """Returns tokens of each prompt, [K]."""
        return self.mask.sum(dim=1)


@dataclass(frozen=True, eq=False)
class Pass:
    """One forward pass over rows of training data: B sequences of T places, of which M are asked for."""

    ids: Tensor
    """[B, T]; of packed rows one sequence."""
    mask: Tensor
    """bool [B, T], False on padding."""
    positions: Tensor
    """[B, T], each token's in its row."""
    predicting: Tensor
    """[M], the places, of B x T laid end to end, whose hidden states predict the tokens that models wrote."""
    packing: Packing | None
    """Where the rows are, if they are packed."""


@dataclass(frozen=True)
class TensorBatch:
    """The tensors of one forward and backward pass."""

    forward: Pass
    token_ids: Tensor
    """[M], what models wrote, row after row."""
    lengths: Tensor
    """[N], how many of these each row has."""
    completion_of_token: Tensor
    """[M], the index of each token's row."""
    advantages: Tensor
    """[M], of each token's completion."""
    own: Tensor
    """bool [M], the token is this policy's own."""
    behaviour_logprobs: Tensor
    """[M], under the policy that wrote the token, NaN where unknown."""
    learned: Tensor | None
    """bool [M], the token may be learned from; None: all may."""


def split_rows(rows: Sequence[BatchRow], *, max_positions: int, packs: bool) -> Iterator[list[BatchRow]]:
    """Parts rows into micro-batches of at most max_positions token positions; a longer row goes alone.

    Prompts of similar length come together, a group's rows stay together as far as they fit, and the rows of each
    micro-batch are ordered by the length of their completions.
    """

    def by_length(row: BatchRow) -> int:
        return len(row.token_ids)

    part: list[BatchRow] = []
    for row in sorted(rows, key=lambda row: (len(row.prompt_ids), row.group, len(row.token_ids))):
        if part and positions_of([*part, row], packs=packs) > max_positions:
            yield sorted(part, key=by_length)
            part = []
        part.append(row)
    if part:
        yield sorted(part, key=by_length)


def positions_of(rows: Sequence[BatchRow], *, packs: bool) -> int:
    """Returns token positions of the rows as one micro-batch, padding included."""
    if packs:
        prompts = {row.group: len(row.prompt_ids) for row in rows}
        return sum(prompts.values()) + sum(len(row.token_ids) for row in rows)
    return max(len(row.prompt_ids) + len(row.token_ids) for row in rows) * len(rows)


def stack_rows(rows: Sequence[BatchRow], model: LanguageModel) -> TensorBatch:
    """Turns rows, ordered by the length of their completions, into tensors on the model's device."""
    device = model.device
    lengths = [len(row.written) for row in rows]
    length_N = torch.tensor(lengths)
    advantage_N = torch.tensor([row.advantage for row in rows], dtype=torch.float32)
    own_N = torch.tensor([row.own for row in rows])
    learned = [one for row in rows for one in row.learned or [True] * len(row.written)]
    behaviour = [value for row in rows for value in row.behaviour_logprobs or [math.nan] * len(row.written)]
    return TensorBatch(
        forward=_packed(rows, model) if model.packs else _padded(rows, model),
        token_ids=moved(torch.tensor([token for row in rows for token in row.written_ids]), device),
        lengths=moved(length_N, device),
        completion_of_token=moved(torch.arange(len(rows)).repeat_interleave(length_N), device),
        advantages=moved(advantage_N.repeat_interleave(length_N), device),
        own=moved(own_N.repeat_interleave(length_N), device),
        behaviour_logprobs=moved(torch.tensor(behaviour, dtype=torch.float32), device),
        learned=None if all(learned) else moved(torch.tensor(learned), device),
    )


def _padded(rows: Sequence[BatchRow], model: LanguageModel) -> Pass:
    """Each row by itself, its prompt and what follows, padded on the right."""
    whole = [[*row.prompt_ids, *row.token_ids[:-1]] for row in rows]  # the last token predicts nothing
    width = max(map(len, whole))
    mask = torch.arange(width) < torch.tensor([len(ids) for ids in whole])[:, None]
    ids = torch.tensor([[*ids, *[model.pad_id] * (width - len(ids))] for ids in whole])
    predicting = [
        number * width + len(row.prompt_ids) - 1 + place for number, row in enumerate(rows) for place in row.written
    ]
    return Pass(
        ids=moved(ids, model.device),
        mask=moved(mask, model.device),
        positions=torch.arange(width, device=model.device).expand(len(rows), -1),
        predicting=moved(torch.tensor(predicting), model.device),
        packing=None,
    )


def _packed(rows: Sequence[BatchRow], model: LanguageModel) -> Pass:
    """One sequence: the prompts, one after the other, and then what follows them in each row."""
    device = model.device
    prompts = {row.group: row.prompt_ids for row in rows}
    laid: list[int] = []
    position: list[int] = []

    def lay(ids: Sequence[int], first: int) -> range:
        start = len(laid)
        laid.extend(ids)
        position.extend(range(first, first + len(ids)))
        return range(start, len(laid))

    place_of = {group: lay(ids, 0) for group, ids in prompts.items()}
    behind = [lay(row.token_ids[:-1], len(row.prompt_ids)) for row in rows]  # the last token predicts nothing
    blocks = [_block([(range(0), places) for places in place_of.values()])]
    longer = [(place_of[row.group], places) for row, places in zip(rows, behind, strict=True) if places]
    cost = _BLOCK_COST.get(device.type, _BLOCK_COST["cuda"])
    for start, stop in length_blocks([len(places) for _, places in longer], cost=cost) if longer else ():
        blocks.append(_block(longer[start:stop]))
    predicting = []
    for row, places in zip(rows, behind, strict=True):
        before = (place_of[row.group][-1], *places)
        predicting += [before[place] for place in row.written]
    ids, positions = (moved(torch.tensor([one]), device) for one in (laid, position))
    return Pass(
        ids=ids,
        mask=torch.ones_like(ids, dtype=torch.bool),
        positions=positions,
        predicting=moved(torch.tensor(predicting), device),
        packing=Packing(
            [RowBlock(**{name: moved(tensor, device) for name, tensor in vars(block).items()}) for block in blocks],
            moved(_places(blocks, len(laid)), device),
            model.compiled.attend if model.compiled else attend_in_blocks,
        ),
    )


def _block(rows: Sequence[tuple[range, range]]) -> RowBlock:
    """Makes a block of rows, each with the places of its prompt and of its queries, which see that and themselves."""
    prompt, queries = max(len(before) for before, _ in rows), max(len(places) for _, places in rows)
    before_n, start_n, first_n, length_n = (
        torch.tensor(numbers)[:, None]
        for numbers in zip(*((len(b), q.start, b.start, len(q)) for b, q in rows), strict=True)
    )
    column_P, column_T = torch.arange(prompt), torch.arange(queries)
    query_mask, prompt_mask = column_T < length_n, column_P < before_n
    place, position = torch.where(query_mask, start_n + column_T, start_n), before_n + column_T
    prompt_place = torch.where(prompt_mask, first_n + column_P, first_n)
    return RowBlock(
        queries=place,
        query_mask=query_mask,
        query_positions=position,
        keys=torch.cat([prompt_place, place], dim=1),
        key_mask=torch.cat([prompt_mask, query_mask], dim=1),
        key_positions=torch.cat([column_P.expand(len(rows), -1), position], dim=1),
    )


def _places(blocks: Sequence[RowBlock], tokens: int) -> Tensor:
    """[N]: where each token's query is among those of all blocks, laid end to end."""
    queries, mask = (
        torch.cat([getattr(block, name).flatten() for block in blocks]) for name in ("queries", "query_mask")
    )
    place_N = torch.empty(tokens, dtype=torch.long)
    place_N[queries[mask]] = mask.nonzero().squeeze(1)
    return place_N


def length_blocks(lengths: Sequence[int], *, cost: int, start: int = 0) -> list[tuple[int, int]]:
    """Parts ascending lengths in halves, again and again, as long as that saves more padding than a block costs.

    Returns where each block begins and ends.
    """
    half = len(lengths) // 2
    if half * (lengths[-1] - lengths[half - 1]) <= cost:
        return [(start, start + len(lengths))]
    return [
        *length_blocks(lengths[:half], cost=cost, start=start),
        *length_blocks(lengths[half:], cost=cost, start=start + half),
    ]


def pad_prompts(prompts: Sequence[Sequence[int]], model: LanguageModel) -> PaddedPrompts:
    """Left-pad K prompts into tensors on the model's device."""
    longest = max(map(len, prompts))
    ids_K_P = torch.tensor([[*[model.pad_id] * (longest - len(ids)), *ids] for ids in prompts])
    length_K = torch.tensor([len(ids) for ids in prompts])
    position_K_P = torch.arange(longest) - (longest - length_K)[:, None]
    return PaddedPrompts(
        ids=moved(ids_K_P, model.device),
        mask=moved(position_K_P >= 0, model.device),
        positions=moved(position_K_P.clamp(min=0), model.device),
    )
