"""Decoding in memory of fixed sizes, so that a step is the same work at the same addresses and can be recorded.

    one KV buffer  ┌──────────── columns ───────────┐
                   │ live rows   │                  │   a step works on the upper left part of the buffer: rows and
              rows │─ ─ ─ ─ ─ ─ ─┘                  │   columns rounded up to a few sizes, a graph for each
                   └────────────────────────────────┘

Rows that finish stay in the way until half of them have; then the live ones move up. What is rounded up computes in
vain, and nothing reads it. Sizes: B rows and C columns, the part a step works on; L live rows, V vocabulary, D hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor

from swarm.policy.buckets import column_bucket, row_bucket
from swarm.policy.cuda_graphs import Capture, GraphedSteps
from swarm.policy.decode_weights import DecodeWeights
from swarm.policy.model import LanguageModel
from swarm.policy.prefill import Prefilled, prefill
from swarm.policy.static_buffers import Buffers


class StaticDecoding:
    """Buffers and recorded steps, kept from one call to the next. They grow to the largest batch seen."""

    look_every = 4
    """Looking at what was sampled makes the CPU wait for the GPU; a row that ended runs on for up to three steps."""

    def __init__(self, model: LanguageModel, capture: Capture | None) -> None:
        self.steps = GraphedSteps(capture)
        self._model, self._weights = model, DecodeWeights(model)
        self._addresses = self._weights.addresses()
        self._buffers: Buffers | None = None

    @contextmanager
    def region(self) -> Iterator[None]:
        """Autocast without its weight cache, whose memory a recorded step must not refer to.

        Running out of memory inside gives all buffers back, so that a smaller batch gets smaller ones.
        """
        try:
            with torch.inference_mode(), self._model.autocast(cache_weights=False):
                self._weights.refresh()
                yield
        except torch.OutOfMemoryError:
            self.release()
            raise

    def begin(self, prompts: Sequence[Sequence[int]], *, group_size: int, steps: int) -> StaticDecoder:
        """Read the prompts, and copy their keys and values into the buffers, once per row."""
        read = prefill(self._weights.model, prompts, group_size)
        buffers = self._reserve(read, steps)
        buffers.fill(read, group_size)
        return StaticDecoder(buffers, read, partial(self._step, buffers), context=self._model.context)

    def release(self) -> None:
        """Give all memory back."""
        self.steps.forget()
        self._buffers = None

    def _reserve(self, read: Prefilled, steps: int) -> Buffers:
        """The buffers, larger ones if need be; graphs of the old ones are dropped."""
        rows = row_bucket(len(read.prompt_of_row))
        columns = column_bucket(read.prompts.ids.shape[1] + steps)
        if self._addresses != (addresses := self._weights.addresses()):
            self.steps.forget()
            self._addresses = addresses
        if self._buffers is None or rows > self._buffers.rows or columns > self._buffers.columns:
            if self._buffers is not None:
                rows, columns = max(rows, self._buffers.rows), max(columns, self._buffers.columns)
            self.release()  # before the new ones are made: both at once might not fit
            self._buffers = Buffers.allocate(read, rows, columns, self._model.autocast_dtype)
        return self._buffers

    def _step(self, buffers: Buffers, rows: int, columns: int) -> Tensor:
        """Logits [B, V] of the tokens that follow those in tokens, at buffers.column."""
        return self.steps.run((rows, columns), lambda: self._forward(buffers, rows, columns))

    def _forward(self, buffers: Buffers, rows: int, columns: int) -> Tensor:
        model = self._weights.model
        hidden_B_1_D = model.hidden(
            buffers.tokens[:rows, None],
            mask=_ready_mask(model, buffers.visible(rows, columns)),
            positions_B_T=buffers.positions[:rows, None],
            cache=buffers.cache(rows, columns),
        )
        return buffers.logits[:rows].copy_(model.logits(hidden_B_1_D[:, 0]))


class StaticDecoder:
    """Where in the buffers the live rows are, and logits [L, V] of the next token."""

    def __init__(self, buffers: Buffers, read: Prefilled, step: Callable[[int, int], Tensor], *, context: int) -> None:
        self._buffers, self._step, self._last_position = buffers, step, context - 1
        self.logits = read.logits
        self._slot_L = torch.arange(len(read.prompt_of_row), device=self.logits.device)
        self._rows = row_bucket(len(self._slot_L))
        self._seen = read.prompts.ids.shape[1]

    def keep(self, kept_l: Tensor) -> None:
        """Go on with these of the live rows, which move up once they fit into half of the rows."""
        self._slot_L = self._slot_L[kept_l]
        if (rows := row_bucket(len(kept_l))) < self._rows:
            self._buffers.move_up(self._slot_L, self._seen)
            self._slot_L = torch.arange(len(kept_l), device=self._slot_L.device)
            self._rows = rows

    def forward(self, token_L: Tensor) -> None:
        """Append one token to every live row."""
        buffers = self._buffers
        buffers.tokens[self._slot_L] = token_L
        buffers.column.fill_(self._seen)
        self._seen += 1
        logits_B_V = self._step(self._rows, column_bucket(self._seen))
        self.logits = logits_B_V if len(self._slot_L) == self._rows else logits_B_V[self._slot_L]
        # A row that ended may run on, but not beyond what the model has positions for.
        buffers.positions.add_(1).clamp_(max=self._last_position)


def _ready_mask(model: LanguageModel, visible_B_C: Tensor) -> Tensor:
    """[B, 1, 1, C], which transformers passes on to attention as it is; making one itself would ask the GPU back.

    Plain attention adds its mask to the scores, the others take it as bool.
    """
    visible_B_1_1_C = visible_B_C[:, None, None]
    if model.module.config._attn_implementation != "eager":
        return visible_B_1_1_C
    lowest = torch.finfo(torch.float32).min
    return torch.zeros_like(visible_B_1_1_C, dtype=torch.float32).masked_fill(~visible_B_1_1_C, lowest)
