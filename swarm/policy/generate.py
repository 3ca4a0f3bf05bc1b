"""Samples completions: a loop of our own, for groups of completions to one prompt.

    prompts ──prefill once──▶ cache ──repeat G times──▶ [draw ▶ drop finished rows ▶ forward] while any is left

Every uniform number is drawn before the loop, one per row and step, so a row's tokens depend neither on when other rows
finish nor on what is written beside it, nor on the device. Sizes: K prompts, R = K x G rows, L live rows, T new tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from swarm.errors import ModelError
from swarm.policy.decode import Decoding
from swarm.policy.draw import Sampling, draw_tokens
from swarm.policy.dynamic_decode import DynamicDecoding
from swarm.policy.model import LanguageModel


@dataclass(frozen=True)
class Sample:
    """One completion as the model wrote it."""

    token_ids: tuple[int, ...]
    """End-of-text included where finished."""
    logprobs: tuple[float, ...]
    """At the temperature, before top-p, top-k and min-p: what the trainer computes as well."""
    finished: bool


def new_token_limits(prompts: Sequence[Sequence[int]], model: LanguageModel) -> list[int]:
    """How many tokens may follow each prompt: the model's max_new_tokens, or what is left of the context.

    Raises:
        ModelError: a prompt leaves no room for an answer.
    """
    for index, prompt in enumerate(prompts):
        if len(prompt) >= model.context:
            raise ModelError(
                f"prompt {index} has {len(prompt)} tokens, but {model.name!r} reads at most {model.context}, answer "
                "included. Use a model with a longer context, or an easier task profile."
            )
    return [min(model.max_new_tokens, model.context - len(prompt)) for prompt in prompts]


def draw_uniforms(prompts: int, group_size: int, steps: int, seed: int) -> Tensor:
    """The randomness of one call, float64 [K, G, T] in [0, 1), drawn on the CPU: the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(prompts, group_size, steps, generator=generator, dtype=torch.float64)


def sample_in_parts(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    *,
    uniform_K_G_T: Tensor,
    sampling: Sampling,
    max_rows: int,
    decoding: Decoding | None = None,
) -> list[list[Sample]]:
    """`sample`, at most max_rows rows at once; prompts are parted first, then groups.

    Prompts of similar length go together, so that little is padding; the longest come first, because memory that does
    not suffice should be noticed early, and what suffices for them serves the others too.
    """
    group_size = uniform_K_G_T.shape[1]
    width = max(1, max_rows // group_size)
    samples: list[list[Sample]] = [[] for _ in prompts]
    longest_first = sorted(range(len(prompts)), key=lambda k: -len(prompts[k]))
    for start in range(0, len(prompts), width):
        part = longest_first[start : start + width]
        for uniform_k_g_T in torch.split(uniform_K_G_T[part], max_rows, dim=1):
            written = sample(
                model, [prompts[k] for k in part], uniform_K_G_T=uniform_k_g_T, sampling=sampling, decoding=decoding
            )
            for k, group in zip(part, written, strict=True):
                samples[k] += group
    return samples


def sample(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    *,
    uniform_K_G_T: Tensor,
    sampling: Sampling,
    decoding: Decoding | None = None,
) -> list[list[Sample]]:
    """G completions for each of K prompts.

    Args:
        prompts: token ids, of different lengths.
        uniform_K_G_T: as draw_uniforms makes it, T at least the model's max_new_tokens.
        decoding: of this very model, by choose_decoding; None: dynamic.
    """
    decoding = decoding or DynamicDecoding(model)
    with decoding.region():
        group_size = uniform_K_G_T.shape[1]
        limit_R = torch.tensor(new_token_limits(prompts, model)).repeat_interleave(group_size)
        steps = int(limit_R.max())
        uniform_R_T = uniform_K_G_T.flatten(0, 1).to(model.device)
        transcript = _Transcript(limit_R.to(model.device), steps, model)
        decoder = decoding.begin(prompts, group_size=group_size, steps=steps)
        live_L = torch.arange(len(limit_R), device=model.device)
        for step in range(steps):
            token_L, logprob_L = draw_tokens(decoder.logits, uniform_R_T[live_L, step], sampling)
            transcript.append(live_L, step, token_L, logprob_L)
            if (step + 1) % decoding.look_every == 0 or step + 1 == steps:
                kept_l = transcript.unfinished(live_L)
                if len(kept_l) == 0:
                    break
                if len(kept_l) < len(live_L):
                    decoder.keep(kept_l)
                    live_L, token_L = live_L[kept_l], token_L[kept_l]
            decoder.forward(token_L)
        samples = transcript.samples()
        return [samples[start : start + group_size] for start in range(0, len(samples), group_size)]


class _Transcript:
    """What every row has written so far; stays on the device until all rows are done.

    A row may run on for some steps after its end, until somebody looks. What it writes then is no part of the sample.
    """

    def __init__(self, limit_R: Tensor, steps: int, model: LanguageModel) -> None:
        self._model, self._limit_R = model, limit_R
        self._eos = torch.tensor(sorted(model.eos_ids), device=model.device)
        self._token_R_T = torch.zeros(len(limit_R), steps, dtype=torch.long, device=model.device)
        self._logprob_R_T = torch.zeros(len(limit_R), steps, device=model.device)
        self._written = self._looked = 0

    def append(self, live_L: Tensor, step: int, token_L: Tensor, logprob_L: Tensor) -> None:
        """One token of each live row."""
        self._token_R_T[live_L, step] = token_L
        self._logprob_R_T[live_L, step] = logprob_L
        self._written = step + 1

    def unfinished(self, live_L: Tensor) -> Tensor:
        """Which of the live rows, unfinished when last looked at, are so still: indices into live_L."""
        news_L_t = self._token_R_T[live_L, self._looked : self._written]
        self._looked = self._written
        ended_L = self._is_end(news_L_t).any(dim=1) | (self._limit_R[live_L] <= self._written)
        return (~ended_L).nonzero().squeeze(1)

    def samples(self) -> list[Sample]:
        """Every row up to its end of text or its limit.

        Raises:
            ModelError: the model gave no probabilities.
        """
        if not bool(self._logprob_R_T.isfinite().all()):
            raise ModelError(
                f"model {self._model.name!r} gives probabilities that are not finite: its weights have diverged. "
                "Resume from an older checkpoint with a lower learning rate."
            )
        rows = zip(self._token_R_T.tolist(), self._logprob_R_T.tolist(), self._lengths().tolist(), strict=True)
        return [
            Sample(tuple(tokens[:length]), tuple(logprobs[:length]), tokens[length - 1] in self._model.eos_ids)
            for tokens, logprobs, length in rows
        ]

    def _lengths(self) -> Tensor:
        """[R]: tokens up to and with the first end of text, or up to the limit."""
        end_R_T = self._is_end(self._token_R_T)
        first_end_R = torch.where(end_R_T.any(dim=1), end_R_T.byte().argmax(dim=1), self._token_R_T.shape[1])
        return torch.minimum(first_end_R + 1, self._limit_R)

    def _is_end(self, token: Tensor) -> Tensor:
        # torch.isin may sort instead, and then waits for the GPU
        return (token[..., None] == self._eos).any(dim=-1)
