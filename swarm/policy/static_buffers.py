"""Where are the keys, values and inputs of a decoding step? In memory that is taken once and stays where it is.

Sizes: R rows, S columns, of which a step works on the first B and C; l rows that move up, H heads of size D,
V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from swarm.policy.prefill import Prefilled


@dataclass(frozen=True, eq=False)
class Buffers:
    """All that a step reads and writes, besides the weights."""

    keys: list[Tensor]
    """[R, H, S, D] per layer, in the dtype attention computes in."""
    values: list[Tensor]
    real: Tensor
    """bool [R, S], False on the padding of prompts."""
    tokens: Tensor
    """[R]: the next token."""
    positions: Tensor
    """[R]: its position."""
    column: Tensor
    """[1]: where its keys and values go."""
    logits: Tensor
    """[R, V]: the output."""

    @classmethod
    def allocate(cls, read: Prefilled, rows: int, columns: int, dtype: torch.dtype | None) -> Buffers:
        """Room for so many rows and columns of the layers in `read`; dtype None: as they are there."""

        def room(like: Tensor) -> Tensor:
            return like.new_empty(rows, like.shape[1], columns, like.shape[3], dtype=dtype or like.dtype)

        layers, ids = read.cache.layers, read.prompts.ids
        return cls(
            keys=[room(layer.keys) for layer in layers],
            values=[room(layer.values) for layer in layers],
            real=read.prompts.mask.new_empty(rows, columns),
            tokens=ids.new_zeros(rows),
            positions=ids.new_zeros(rows),
            column=ids.new_zeros(1),
            logits=read.logits.new_empty(rows, read.logits.shape[1]),
        )

    @property
    def rows(self) -> int:
        """R."""
        return len(self.tokens)

    @property
    def columns(self) -> int:
        """S."""
        return self.real.shape[1]

    def fill(self, read: Prefilled, group_size: int) -> None:
        """Begin with these prompts. All else becomes zero: a masked column still counts as 0 x what it holds."""
        row_R, length = read.prompt_of_row, read.prompts.ids.shape[1]
        rows = len(row_R)
        for layer, keys, values in zip(read.cache.layers, self.keys, self.values, strict=True):
            for source, target in ((layer.keys, keys), (layer.values, values)):
                target.zero_()
                grouped = target.narrow(2, 0, length)[:rows].view(-1, group_size, *source.shape[1:])
                grouped.copy_(source[:, None])
        self.real.fill_(True)
        self.real[:rows, :length] = read.prompts.mask[row_R]
        self.tokens.zero_()
        self.positions.zero_()
        self.positions[:rows] = read.prompts.lengths[row_R]

    def move_up(self, slot_l: Tensor, seen: int) -> None:
        """Make the first rows what the rows slot_l were, whose first `seen` columns are in use."""
        for buffer in (*self.keys, *self.values):
            buffer[: len(slot_l), :, :seen] = buffer[slot_l, :, :seen]
        for state in (self.real, self.positions):
            state[: len(slot_l)] = state[slot_l]

    def visible(self, rows: int, columns: int) -> Tensor:
        """bool [B, C]: what the next token may attend to."""
        column_C = torch.arange(columns, device=self.column.device)
        return self.real[:rows, :columns] & (column_C <= self.column)

    def cache(self, rows: int, columns: int) -> Cache:
        """The part of the keys and values that a step works on, as the model wants it."""
        layers = zip(self.keys, self.values, strict=True)
        return Cache([_Layer(k[:rows, :, :columns], v[:rows, :, :columns], self.column) for k, v in layers])


class _Layer(CacheLayerMixin):  # type: ignore[misc]  # transformers has no types
    """Keys and values of one layer, [B, H, C, D]: a step overwrites one column. Doing so twice changes nothing."""

    is_compileable = True

    def __init__(self, keys: Tensor, values: Tensor, column: Tensor) -> None:
        super().__init__()
        self.keys, self.values, self._column = keys, values, column
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """There already."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
        """Put the new token's keys and values in; all columns come back, and the mask hides those not written yet."""
        self.keys.index_copy_(2, self._column, key_states.to(self.keys.dtype))
        self.values.index_copy_(2, self._column, value_states.to(self.values.dtype))
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_max_length(), 0

    def get_seq_length(self) -> Tensor:
        return self._column

    def get_max_length(self) -> int:
        return int(self.keys.shape[2])
