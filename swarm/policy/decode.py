"""Interface of decoding, and the choice between its two implementations, which agree up to rounding:

    dynamic  the cache grows by a column per token and shrinks with every row that ends      any device, any model
    static   buffers of fixed size; a step is recorded once as a CUDA graph and replayed     full attention only
             `compiled`: the same with a compiled step

A Decoding lives as long as the policy and begins a Decoder per batch. Sizes: R rows, L live rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from swarm.logs import get_logger
from swarm.policy.draw import Sampling, draw_tokens
from swarm.policy.forward import DynamicDecoding
from swarm.policy.lora import StackedAdapters
from swarm.policy.model import LanguageModel
from swarm.policy.settings import has_static_buffers
from swarm.policy.static_decode import CudaCapture, StaticDecoding

_TOLERANCE = {None: 1e-3, torch.bfloat16: 5e-2}
"""Tolerance of logits, relative to the largest. A wrong mask or position is off by much more."""

logger = get_logger(__name__)


class Decoder(Protocol):
    """A batch that is being written."""

    @property
    def logits(self) -> Tensor:
        """fp32 [L, V], of each live row's next token; valid until the next `forward`."""

    def draw(self, uniform_L: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
        """Returns each live row's next token [L], as draw_tokens, and its log-prob [L]; valid until the next `draw`."""

    def keep(self, kept_l: Tensor) -> None:
        """Go on with these of the live rows, an ascending choice of 0..L-1."""

    def forward(self, token_L: Tensor) -> None:
        """Append one token to every live row."""


class Decoding(Protocol):
    """Keeps what decoding needs from one batch to the next."""

    model: LanguageModel
    """What is decoded."""

    @property
    def look_every(self) -> int:
        """Steps between two looks at which rows have ended."""

    def region(self) -> AbstractContextManager[None]:
        """Wraps everything from `begin` to the last `forward`; the weights do not change inside."""

    def begin(
        self, prompts: Sequence[Sequence[int]], *, group_size: int, steps: int, owner_K: Tensor | None = None
    ) -> Decoder:
        """Read the prompts; group_size rows for each, and room for `steps` tokens.

        Args:
            owner_K: where the model uses several adapters, the number of each prompt's.
        """


def choose_decoding(model: LanguageModel, kind: str = "auto") -> Decoding:
    """`dynamic`, `static`, `compiled` or `auto`: static on a GPU. A model that static buffers do not suit gets dynamic
    ones; one that cannot be compiled gets what `auto` gives."""
    on_gpu = model.device.type == "cuda"
    if not has_static_buffers(kind, on_gpu=on_gpu):
        return DynamicDecoding(model)
    obstacle = _obstacle(model)
    if not obstacle:
        static = StaticDecoding(model, CudaCapture(model.device) if on_gpu else None, compiled=kind == "compiled")
        obstacle = _disagreement(model, static)
        static.release()
        if not obstacle:
            return static
        if kind == "compiled":
            logger.warning("decode.not_compiled", model=model.name, reason=obstacle)
            return choose_decoding(model)
    logger.warning("decode.dynamic_instead", model=model.name, reason=obstacle)
    return DynamicDecoding(model)


def logits_while_writing(
    decoding: Decoding, prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]]
) -> list[Tensor]:
    """Returns the logits [L, V] of each next token while two completions are written, of which the first ends first;
    of several adapters all rows use the first one."""
    device, (short, long) = decoding.model.device, map(len, completions)
    with decoding.region():
        decoder = decoding.begin(prompts, group_size=1, steps=long, owner_K=_first_adapter(decoding.model))
        seen = [decoder.logits.clone()]
        for step in range(1, long):
            if step == short:
                decoder.keep(torch.tensor([1], device=device))
            live = completions if step < short else completions[1:]
            decoder.forward(torch.tensor([ids[step - 1] for ids in live], device=device))
            seen.append(decoder.logits.clone())
    return seen


def _first_adapter(model: LanguageModel) -> Tensor | None:
    """Returns the number of the first of several adapters for two prompts; None: there are not several."""
    several = isinstance(model.adapter, StackedAdapters)
    return torch.zeros(2, dtype=torch.long, device=model.device) if several else None


def _obstacle(model: LanguageModel) -> str:
    """Returns why the model's cache cannot be one buffer in which every token sees all before it; empty if it can."""
    layers = DynamicCache(config=model.module.config).layers
    others = {type(layer).__name__ for layer in layers if type(layer) is not DynamicLayer}
    return f"its cache has {', '.join(sorted(others))}" if others else ""


def _disagreement(model: LanguageModel, static: Decoding) -> str:
    """Returns how static decoding of two short prompts differs from the dynamic one; empty: they agree."""
    size = model.module.get_input_embeddings().num_embeddings
    first, second, third = (token % size for token in (7, 11, 13))
    try:
        ours, theirs = (
            logits_while_writing(way, [[first], [second, third]], [[third], [third, first, second]])
            for way in (static, DynamicDecoding(model))
        )
        gaps = [((one - other).abs().max() / other.abs().max()).item() for one, other in zip(ours, theirs, strict=True)]
        gaps += [_drawn_otherwise(static, [[first], [second, third]], Sampling(warmth)) for warmth in (1.0, 0.9)]
    except (RuntimeError, ValueError, TypeError, AttributeError, AssertionError, OSError) as error:
        # What a foreign cache or mask leads to, or a compiler that is missing or gives up.
        return f"{type(error).__name__}: {error}"
    wrong = [gap for gap in gaps if not gap <= _TOLERANCE[model.autocast_dtype]]  # NaN, too
    return f"logits differ by {wrong[0]:.3g} of the largest" if wrong else ""


def _drawn_otherwise(decoding: Decoding, prompts: Sequence[Sequence[int]], sampling: Sampling) -> float:
    """Returns how far the log-probs of what is drawn are from those of draw_tokens at the same logits."""
    uniform_L = torch.tensor([0.3, 0.7], dtype=torch.float64, device=decoding.model.device)
    with decoding.region():
        decoder = decoding.begin(prompts, group_size=1, steps=1, owner_K=_first_adapter(decoding.model))
        _, ours_L = decoder.draw(uniform_L, sampling)
        _, theirs_L = draw_tokens(decoder.logits, uniform_L, sampling)
        return ((ours_L - theirs_L).abs().max() / theirs_L.abs().max()).item()
