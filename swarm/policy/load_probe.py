"""Tries a model out once it is loaded: it has to compute here what transformers computes, or it is refused.

    two prompts of unlike length ─┬▶ transformers' own pass: each alone, unpadded, no cache ──▶ log-probs ─┐
                                  ├▶ sampling: padded, cached, a row ends on the way ─────────▶ log-probs ─┼▶ verdict
                                  ├▶ training, prompts shared through a cache ────────────────▶ log-probs ─┤
                                  └▶ training, each row by itself, padded ────────────────────▶ log-probs ─┘

In fp32 they are equal up to the order of additions. Weights that are held in less are allowed their own noise: how far
transformers' own pass moves when a row stands beside another one of its length, and what their dtype rounds off.
Sizes: M tokens behind the prompts, T tokens of one sequence, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle, islice
from typing import NamedTuple

import torch
from torch import Tensor

from swarm.errors import ModelError
from swarm.harmless import printable
from swarm.policy.batch import BatchRow, stack_rows
from swarm.policy.dynamic_decode import DynamicDecoding
from swarm.policy.forward import completion_logprobs
from swarm.policy.model import LanguageModel
from swarm.policy.prompt import encode_completion
from swarm.policy.quantised import is_quantised

_TEXT = "One plus one is two, and the quick brown fox jumps over the lazy dog."
_PROMPTS, _COMPLETIONS = (3, 7), (3, 5)
"""Tokens of each sequence. The shorter completion ends first."""
_EQUAL = 1e-3
"""Largest gap in fp32. Of 187 architectures those that are equal have 3e-6 at most, the others 0.35 at least."""
_ROUNDING = {torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Mean gap that rounding explains, some six steps of the dtype. In 8 and 4 bits as in bf16."""
_NOISES = 3.0
"""Bound: as many times the noise that is measured."""
_MOST = 0.3
"""What no rounding explains: a wrong mask or position is off by about as much as tokens differ from each other."""
_LONGEST = 200
_REMEDY = (
    "Use a decoder whose every layer is attention, such as Qwen2.5, Llama 3, Gemma 2, SmolLM2 or GPT-2; docs/models.md "
    "lists the architectures that work."
)


class Gap(NamedTuple):
    """Says how far some log-probs are from others, as a share of what tokens differ by: 1 is as far as chance."""

    largest: float
    mean: float
    nats: float
    """The largest one, in nats."""


def verdict(gaps: Mapping[str, Gap], *, noise: float | None, rounding: float) -> str:
    """Returns why a model does not compute here what it computes by itself; empty if it does.

    Args:
        gaps: by what was computed.
        noise: mean gap of transformers' own pass beside another row; None: all is in fp32, where every token counts.
            In less, one token may be sent to another expert, so that their mean counts.
        rounding: mean gap that the dtype explains.
    """
    for way, gap in gaps.items():
        found = gap.largest if noise is None else gap.mean
        allowed = _EQUAL if noise is None else min(_MOST, max(rounding, _NOISES * noise))
        if not found <= allowed:  # NaN, too
            return (
                f"{way}, log-probs are up to {gap.nats:.2g} nats from those of transformers' own pass over the same "
                f"tokens, {found:.2g} of what tokens differ by, where at most {allowed:.2g} is rounding"
            )
    return ""


def refuse_unlike(model: LanguageModel) -> None:
    """Refuse a model that does not compute here what transformers computes, before anything is learned from it.

    Raises:
        ModelError: its log-probs are others, or it cannot be run at all.
    """
    exact = _in_fp32(model)
    prompts, completions = _tokens(model)
    with _bounded(model, "transformers' own pass over a few tokens fails"):
        plain = [_plain(exact, [*prompt, *rest]) for prompt, rest in zip(prompts, completions, strict=True)]
        noise = None if exact.autocast_dtype is None and not is_quantised(model.module) else _noise(exact, plain)
    with _bounded(model, "it fails where prompts are padded and kept in a cache"):
        found = {
            "while it samples": _sampling(exact, prompts, completions),
            "where its prompts are read once for all completions": _training(exact, prompts, completions, shared=True),
            "where it is trained": _training(exact, prompts, completions, shared=False),
        }
    expected_M, spread = _expected(plain, completions)
    gaps = {way: _gap(logprob_M, expected_M, spread) for way, logprob_M in found.items()}
    if problem := verdict(gaps, noise=noise, rounding=_rounding(exact)):
        raise ModelError(_said(model, problem))


@contextmanager
def _bounded(model: LanguageModel, what: str) -> Iterator[None]:
    """The boundary: whatever a foreign cache, mask or argument makes of transformers' code refuses the model."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        told = printable(str(error)).strip().rstrip(".") or "no more is said"
        raise ModelError(_said(model, f"{what} ({type(error).__name__}: {told:.{_LONGEST}})")) from error


def _said(model: LanguageModel, problem: str) -> str:
    kind = type(model.module).__name__
    return f"model {model.name!r}: {kind} cannot be used here: {problem}. {_REMEDY}"


def _in_fp32(model: LanguageModel) -> LanguageModel:
    """Returns the model as exactly as its weights allow: where they are fp32, without autocast."""
    held = {parameter.dtype for parameter in model.module.parameters() if parameter.is_floating_point()}
    flash = "flash" in str(model.module.config._attn_implementation)  # which takes nothing but half precision
    return model if flash or held != {torch.float32} else replace(model, autocast_dtype=None)


def _rounding(model: LanguageModel) -> float:
    coarse = torch.bfloat16 if is_quantised(model.module) else model.autocast_dtype
    return _ROUNDING[coarse] if coarse else 0.0


def _tokens(model: LanguageModel) -> tuple[list[list[int]], list[list[int]]]:
    """Prompts, and what follows each: a text's tokens, without those that mean more than text."""
    rows = model.module.get_input_embeddings().num_embeddings
    meaning = {*model.eos_ids, model.pad_id, *model.tokenizer.all_special_ids}
    text = [token for token in encode_completion(model.tokenizer, _TEXT) if token < rows and token not in meaning]
    endless = cycle(text or [token % rows for token in range(3, 20)])
    first, second = _PROMPTS
    prompts = [[*islice(endless, first)], [*islice(endless, second)]]
    return prompts, [[*islice(endless, length)] for length in _COMPLETIONS]


@torch.no_grad()
def _plain(model: LanguageModel, *sequences: Sequence[int]) -> Tensor:
    """Returns log-probs [T, V] of each next token of the first of some sequences of one length, as transformers has
    them."""
    with model.autocast():
        output = model.module(input_ids=torch.tensor(sequences, device=model.device), use_cache=False)
    logprob_T_V: Tensor = output.logits[0].float().log_softmax(dim=1)
    return logprob_T_V


def _noise(model: LanguageModel, plain: Sequence[Tensor]) -> float:
    """Measures how far the longer sequence's log-probs move beside another row: nothing is padded, and nothing is
    cached."""
    first, second = ([*prompt, *rest] for prompt, rest in zip(*_tokens(model), strict=True))
    beside = _plain(model, second, [*islice(cycle(first), len(second))])
    chosen = torch.tensor(second[1:], device=model.device)[:, None]
    together, alone = (logprob_T_V[:-1].gather(1, chosen).squeeze(1) for logprob_T_V in (beside, plain[1]))
    return _gap(together, alone, _spread(plain)).mean


def _expected(plain: Sequence[Tensor], completions: Sequence[Sequence[int]]) -> tuple[Tensor, float]:
    """Returns log-probs [M] of the tokens behind the prompts, and what tokens differ by."""
    parts = []
    for logprob_T_V, ids in zip(plain, completions, strict=True):
        chosen = torch.tensor(ids, device=logprob_T_V.device)[:, None]
        parts.append(logprob_T_V[-len(ids) - 1 : -1].gather(1, chosen).squeeze(1))
    return torch.cat(parts), _spread(plain)


def _spread(plain: Sequence[Tensor]) -> float:
    """Standard deviation of a position's log-probs, over the vocabulary; the mean of all positions."""
    return torch.cat([logprob_T_V.std(dim=1) for logprob_T_V in plain]).mean().item()


def _gap(found_M: Tensor, expected_M: Tensor, spread: float) -> Gap:
    off_M = (found_M.float() - expected_M).abs()
    largest = off_M.max().item()
    return Gap(largest / max(spread, 1e-6), off_M.mean().item() / max(spread, 1e-6), largest)


def _sampling(model: LanguageModel, prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]]) -> Tensor:
    """Returns log-probs [M] as they are while completions are written, these instead of what would be drawn."""
    written: list[list[Tensor]] = [[] for _ in prompts]
    decoding = DynamicDecoding(model)
    with decoding.region():
        decoder = decoding.begin(prompts, group_size=1, steps=max(map(len, completions)))
        live = [*range(len(prompts))]
        for step in range(max(map(len, completions))):
            logprob_L_V = decoder.logits.log_softmax(dim=1)
            for place, row in enumerate(live):
                written[row].append(logprob_L_V[place, completions[row][step]])
            token_L = torch.tensor([completions[row][step] for row in live], device=model.device)
            kept = [place for place, row in enumerate(live) if len(completions[row]) > step + 1]
            if not kept:
                break
            if len(kept) < len(live):
                decoder.keep(torch.tensor(kept, device=model.device))
                live, token_L = [live[place] for place in kept], token_L[kept]
            decoder.forward(token_L)
    return torch.stack([logprob for row in written for logprob in row])


@torch.no_grad()
def _training(
    model: LanguageModel, prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]], *, shared: bool
) -> Tensor:
    """Returns log-probs [M] as an update has them."""
    rows = [
        BatchRow(group, tuple(prompt), tuple(rest), range(len(rest)), 1.0, True, None)
        for group, (prompt, rest) in enumerate(zip(prompts, completions, strict=True))
    ]
    return completion_logprobs(model, stack_rows(rows, model), temperature=1.0, share_prompts=shared)
