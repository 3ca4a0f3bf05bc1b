"""Tries a model out once it is loaded: it has to compute here what transformers computes, or it is refused.

    two prompts of unlike length ─┬▶ transformers' own pass: side by side, unpadded, no cache ─▶ log-probs ─┐
                                  ├▶ padded, into a cache ─▶ sampling: a row ends on the way ──▶ log-probs ─┼▶ verdict
                                  └▶ training, packed ─────────────────────────────────────────▶ log-probs ─┘

A model that trains otherwise when its rows are packed has them padded instead, and is tried again.

In fp32 they are equal up to the order of additions. Weights that are held in less are allowed their own noise: how far
transformers' own pass moves when a row stands alone, and what their dtype rounds off. A start waits for all of it, so
the sequences are as short as can be.
Sizes: B sequences of T tokens, M tokens behind the prompts, V vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle, islice
from typing import NamedTuple

import torch
from torch import Tensor

from swarm.errors import ModelError
from swarm.harmless import printable
from swarm.logs import get_logger
from swarm.policy.batch import BatchRow
from swarm.policy.compiled import CompiledTraining
from swarm.policy.decode import logits_while_writing
from swarm.policy.forward import DynamicDecoding, completion_logprobs
from swarm.policy.model import LanguageModel
from swarm.policy.prompt import encode_completion
from swarm.policy.stack import stack_rows

logger = get_logger(__name__)

_TEXT = "One plus one is two, and the quick brown fox jumps over the lazy dog."
_Lengths = tuple[tuple[int, int], tuple[int, int]]
"""Tokens of each prompt, and of what follows each. The first sequence without its last token is as long as the second,
and its completion ends first."""
_IN_FP32: _Lengths = ((4, 2), (2, 3))
_IN_LESS: _Lengths = ((7, 4), (3, 5))
"""A mean over more tokens: rounding may send one of them to another expert."""
_EQUAL = 1e-3
"""Largest gap in fp32. Of 187 architectures those that are equal have 3e-6 at most, the others 0.29 at least."""
_ROUNDING = {torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Mean gap that rounding explains, some six steps of the dtype."""
_NOISES = 3.0
"""Bound: as many times the noise that is measured."""
_MOST = 0.3
"""What no rounding explains: a wrong mask or position is off by about as much as tokens differ from each other."""
_LONGEST = 200
_SAME_GRADIENT = {None: 1e-3, torch.bfloat16: 0.2, torch.float16: 0.05}
"""Norm of two gradients' difference over that of one. A compiler rounds elsewhere; in bf16 that made 0.09."""
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


def tried_out(model: LanguageModel, *, trains: bool = True) -> LanguageModel:
    """Returns the model as it can be used: with packed rows, or else with padded ones. Raises as refuse_unlike."""
    try:
        refuse_unlike(model, trains=trains)
    except ModelError as error:
        if not (trains and model.packs):
            raise
        padding = replace(model, packs=False)
        refuse_unlike(padding)
        logger.info("model.not_packed", model=model.name, reason=str(error))
        return padding
    return model


def tried_compiled(model: LanguageModel, *, temperature: float = 1.0, recomputes: bool = False) -> LanguageModel:
    """Returns the model with what is compiled, if that gives the gradient that it has without.

    Args:
        temperature: of the log-probs that are trained: a compiler takes it for a constant.
        recomputes: activations are checkpointed.
    """
    began = time.perf_counter()
    try:
        compiled = replace(model, compiled=CompiledTraining(model.module, with_layers=not recomputes))
        gap = _gradient_gap(model, compiled, temperature)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - the boundary of a compiler, which may raise anything
        told = printable(str(error)).strip()
        problem = f"{type(error).__name__}: {told:.{_LONGEST}}"
    else:
        if gap <= _SAME_GRADIENT[model.autocast_dtype]:
            logger.info("model.compiled", model=model.name, seconds=round(time.perf_counter() - began, 1))
            return compiled
        problem = f"gradients differ by {gap:.2g} of theirs"
    finally:
        _forget(model)
    logger.warning("model.not_compiled", model=model.name, reason=problem)
    return model


def _gradient_gap(model: LanguageModel, compiled: LanguageModel, temperature: float) -> float:
    """Returns how far the gradient of two rows of unlike length is from the plain one, as a share of that."""
    plain = _gradient(model, temperature)
    _forget(model)
    found = _gradient(compiled, temperature)
    differences = [one - other for one, other in zip(found, plain, strict=True)]
    norm, off = (torch.nn.utils.get_total_norm(gradients) for gradients in (plain, differences))
    return (off / norm).item()


def _gradient(model: LanguageModel, temperature: float) -> list[Tensor]:
    """Returns it with the vocabulary in blocks, of which the last one is smaller, as they are in training."""
    width = max(2, (model.module.get_input_embeddings().num_embeddings + 1) // 3)
    rows = [
        BatchRow(group, tuple(range(3, 7 + group)), ids, range(len(ids)), 1.0, True, None)
        for group, ids in enumerate(((8, 9, 10), (12, 11, 10, 9, 8)))
    ]
    with model.adapted(), model.as_compiled():
        batch = stack_rows(rows, model)
        torch.autograd.backward(completion_logprobs(model, batch, temperature=temperature, width=width).sum())
    return [parameter.grad for parameter in model.trained.values() if parameter.grad is not None]


def _forget(model: LanguageModel) -> None:
    for parameter in model.trained.values():
        parameter.grad = None


def refuse_unlike(model: LanguageModel, *, trains: bool = True) -> None:
    """Refuse a model that does not compute here what transformers computes, before anything is learned from it.

    Args:
        trains: False: it only samples.

    Raises:
        ModelError: its log-probs are others, or it cannot be run at all.
    """
    exact = _in_fp32(model)
    coarse = exact.autocast_dtype is not None
    prompts, completions = _tokens(model, _IN_LESS if coarse else _IN_FP32)
    with _bounded(model, "transformers' own pass over a few tokens fails"):
        expected_M, spread, noise = _expected(exact, prompts, completions)
    with _bounded(model, "it fails where prompts are padded and kept in a cache"):
        found = {"while it samples": _sampling(exact, prompts, completions)}
    if trains:
        with _bounded(model, "it fails where it is trained"):
            found["where it is trained"] = _training(exact, prompts, completions)
    gaps = {way: _gap(logprob_M, expected_M, spread) for way, logprob_M in found.items()}
    rounding = _ROUNDING[exact.autocast_dtype] if exact.autocast_dtype else 0.0
    if problem := verdict(gaps, noise=noise if coarse else None, rounding=rounding):
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
    return model if held != {torch.float32} else replace(model, autocast_dtype=None)


def _tokens(model: LanguageModel, lengths: _Lengths) -> tuple[list[list[int]], list[list[int]]]:
    """Prompts, and what follows each: a text's tokens, without those that mean more than text."""
    rows = model.module.get_input_embeddings().num_embeddings
    meaning = {*model.eos_ids, model.pad_id, *model.tokenizer.all_special_ids}
    text = [token for token in encode_completion(model.tokenizer, _TEXT) if token < rows and token not in meaning]
    endless = cycle(text or [token % rows for token in range(3, 20)])
    prompts, completions = ([[*islice(endless, length)] for length in part] for part in lengths)
    return prompts, completions


@torch.no_grad()
def _expected(
    model: LanguageModel, prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]]
) -> tuple[Tensor, float, float]:
    """Returns what transformers makes of the sequences side by side: log-probs [M] of the tokens behind the prompts,
    what tokens differ by, and its noise: the mean gap where the first sequence stands alone.

    What tokens differ by is the standard deviation of a position's log-probs over the vocabulary, in the mean of all.
    """
    whole = [[*prompt, *rest] for prompt, rest in zip(prompts, completions, strict=True)]
    length = max(map(len, whole)) - 1  # the last token predicts nothing; the other sequence is as long as that
    sequences = [sequence[:length] for sequence in whole]
    beside_B_T_V = _plain(model, sequences)
    spread = beside_B_T_V.std(dim=2).mean().item()
    behind = [
        _chosen(beside_T_V[len(prompt) - 1 :], ids)
        for beside_T_V, prompt, ids in zip(beside_B_T_V, prompts, completions, strict=True)
    ]
    if model.autocast_dtype is None:
        return torch.cat(behind), spread, 0.0
    following = sequences[0][1:]
    alone = _chosen(_plain(model, sequences[:1])[0], following)
    noise = _gap(_chosen(beside_B_T_V[0], following), alone, spread).mean
    return torch.cat(behind), spread, noise


def _plain(model: LanguageModel, sequences: Sequence[Sequence[int]]) -> Tensor:
    """Returns log-probs [B, T, V] of each next token of B sequences of one length, as transformers has them."""
    with model.autocast():
        output = model.module(input_ids=torch.tensor(sequences, device=model.device), use_cache=False)
    logprob_B_T_V: Tensor = output.logits.float().log_softmax(dim=2)
    return logprob_B_T_V


def _chosen(logprob_T_V: Tensor, ids: Sequence[int]) -> Tensor:
    """Returns the log-probs of these tokens, one after the other from the first position on."""
    column = torch.tensor(ids, device=logprob_T_V.device)[:, None]
    return logprob_T_V[: len(ids)].gather(1, column).squeeze(1)


def _gap(found_M: Tensor, expected_M: Tensor, spread: float) -> Gap:
    off_M = (found_M.float() - expected_M).abs()
    largest = off_M.max().item()
    return Gap(largest / max(spread, 1e-6), off_M.mean().item() / max(spread, 1e-6), largest)


@torch.no_grad()
def _training(model: LanguageModel, prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]]) -> Tensor:
    """Returns log-probs [M] as they are in training."""
    rows = [
        BatchRow(group, tuple(prompt), tuple(rest), range(len(rest)), 1.0, True, None)
        for group, (prompt, rest) in enumerate(zip(prompts, completions, strict=True))
    ]
    return completion_logprobs(model, stack_rows(rows, model), temperature=1.0)


@torch.no_grad()
def _sampling(model: LanguageModel, prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]]) -> Tensor:
    """Returns log-probs [M] as they are while completions are written, these instead of what would be drawn."""
    logits = logits_while_writing(DynamicDecoding(model), prompts, completions)
    written = [
        logits[step].log_softmax(dim=1)[row if step < len(completions[0]) else 0, token]
        for row, ids in enumerate(completions)
        for step, token in enumerate(ids)
    ]
    return torch.stack(written)
