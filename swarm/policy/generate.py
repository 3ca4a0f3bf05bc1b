"""Samples completions: a loop of our own, for groups of completions to one prompt.

    prompts ──prefill once──▶ cache ──repeat G times──▶ [draw ▶ drop finished rows ▶ forward] while any is left

Every uniform number is drawn before the loop, one per row and step, so a row's tokens depend neither on when other rows
finish nor on what is written beside it, nor on the device. Sizes: K prompts, R = K x G rows, L live rows, T new tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from swarm.policy.decode import Decoding
from swarm.policy.device import moved
from swarm.policy.draw import Sampling
from swarm.policy.model import LanguageModel
from swarm.policy.prompt import decode_completion

_SLACK = 8
"""Tokens more than a stop string has bytes: the first ones of a window may decode to other characters."""


class StopStrings:
    """Looks for the end of completions at which some strings end them, which stay in the text."""

    def __init__(self, tokenizer: Any, stop: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._window = max(len(text.encode()) for text in stop) + _SLACK

    def end(self, token_ids: Sequence[int], looked: int) -> int | None:
        """Returns how many of these tokens there are up to and with the first stop string; None where there is none.

        Args:
            looked: so many of them hold none.
        """
        start = max(0, looked - self._window)
        if not self._stops(token_ids[start:]):
            return None
        return next(n for n in range(looked + 1, len(token_ids) + 1) if self._stops(token_ids[start:n]))

    def _stops(self, token_ids: Sequence[int]) -> bool:
        text = decode_completion(self._tokenizer, list(token_ids))
        return any(stop in text for stop in self._stop)


@dataclass(frozen=True)
class GeneratedSample:
    """One completion as the model wrote it."""

    token_ids: tuple[int, ...]
    """End-of-text included where finished."""
    logprobs: tuple[float, ...]
    """At the temperature, before top-p, top-k and min-p: what the trainer computes as well. NaN of a model that has
    diverged."""
    finished: bool
    """By an end of text or a stop string, not by the limit."""
    stopped: bool = False
    """By a stop string: there is no end of text."""


Ended = Callable[[int, list[GeneratedSample]], None]
"""Is given the number of a prompt, and its G completions, once they are written and others may not be."""


def draw_uniforms(prompts: int, group_size: int, steps: int, seed: int) -> Tensor:
    """Returns the randomness of one call, float64 [K, G, T] in [0, 1), drawn on the CPU: the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(prompts, group_size, steps, generator=generator, dtype=torch.float64)


def sample_in_parts(
    decoding: Decoding,
    prompts: Sequence[Sequence[int]],
    *,
    uniform_K_G_T: Tensor,
    sampling: Sampling,
    max_rows: int,
    ended: Ended | None = None,
    stops: StopStrings | None = None,
    owner_K: Tensor | None = None,
) -> list[list[GeneratedSample]]:
    """`sample`, at most max_rows rows at once; prompts are parted first, then groups.

    Prompts of similar length go together, so that little is padding; the longest come first, because memory that does
    not suffice should be noticed early, and what suffices for them serves the others too.
    """
    group_size = uniform_K_G_T.shape[1]
    width = max(1, max_rows // group_size)
    samples: list[list[GeneratedSample]] = [[] for _ in prompts]
    longest_first = sorted(range(len(prompts)), key=lambda k: -len(prompts[k]))
    for start in range(0, len(prompts), width):
        part = longest_first[start : start + width]

        def told(k: int, rows: list[GeneratedSample], part: Sequence[int] = part) -> None:
            """Tells of a group that was parted once it is complete."""
            group = samples[part[k]] + rows
            if ended and len(group) == group_size:
                ended(part[k], group)

        for uniform_k_g_T in torch.split(uniform_K_G_T[part], max_rows, dim=1):
            written = sample(
                decoding,
                [prompts[k] for k in part],
                uniform_K_G_T=uniform_k_g_T,
                sampling=sampling,
                ended=told if ended else None,
                stops=stops,
                owner_K=None if owner_K is None else owner_K[part],
            )
            for k, group in zip(part, written, strict=True):
                samples[k] += group
    return samples


def sample(
    decoding: Decoding,
    prompts: Sequence[Sequence[int]],
    *,
    uniform_K_G_T: Tensor,
    sampling: Sampling,
    ended: Ended | None = None,
    stops: StopStrings | None = None,
    owner_K: Tensor | None = None,
) -> list[list[GeneratedSample]]:
    """G completions for each of K prompts.

    Args:
        decoding: of the model that writes.
        prompts: token ids, of different lengths, each shorter than the model's context.
        uniform_K_G_T: as draw_uniforms makes it, T at least the model's max_new_tokens.
        ended: told of each group; what is computed is the same with it and without.
        stops: what else ends a completion; up to there its tokens are the same with them and without.
        owner_K: where the model uses several adapters, the number of each prompt's.
    """
    model = decoding.model
    with decoding.region():
        group_size = uniform_K_G_T.shape[1]
        limits = [min(model.max_new_tokens, model.context - len(prompt)) for prompt in prompts]
        limit_R = torch.tensor(limits).repeat_interleave(group_size)
        steps = int(limit_R.max())
        limit_R = moved(limit_R, model.device)
        uniform_R_T = moved(uniform_K_G_T.flatten(0, 1), model.device)
        transcript = _Transcript(limit_R, steps, model, stops)
        decoder = decoding.begin(prompts, group_size=group_size, steps=steps, owner_K=owner_K)
        live_L = torch.arange(len(limit_R), device=model.device)
        untold = set(range(len(prompts))) if ended else set[int]()
        for step in range(steps):
            token_L, logprob_L = decoder.draw(uniform_R_T[live_L, step], sampling)
            transcript.append(live_L, step, token_L, logprob_L)
            if (step + 1) % decoding.look_every == 0 or step + 1 == steps:
                kept_l = transcript.unfinished(live_L)
                if ended and (over := untold - set((live_L[kept_l] // group_size).tolist())):
                    untold -= over
                    for k in sorted(over):
                        ended(k, transcript.samples(slice(k * group_size, (k + 1) * group_size)))
                if len(kept_l) == 0:
                    break
                if len(kept_l) < len(live_L):
                    decoder.keep(kept_l)
                    live_L, token_L = live_L[kept_l], token_L[kept_l]
            decoder.forward(token_L)
        samples = transcript.samples()
        return [samples[start : start + group_size] for start in range(0, len(samples), group_size)]


class _Transcript:
    """Keeps what every row has written so far, on the device until all rows are done.

    A row may run on for some steps after its end, until somebody looks. What it writes then is no part of the sample.
    """

    def __init__(self, limit_R: Tensor, steps: int, model: LanguageModel, stops: StopStrings | None) -> None:
        self._model, self._limit_R, self._stops = model, limit_R, stops
        self._stopped = dict[int, int]()  # row -> its tokens up to and with a stop string
        self._eos = torch.tensor(sorted(model.eos_ids), device=model.device)
        self._token_R_T = torch.zeros(len(limit_R), steps, dtype=torch.long, device=model.device)
        self._logprob_R_T = torch.zeros(len(limit_R), steps, device=model.device)
        self._written = self._looked = 0

    def append(self, live_L: Tensor, step: int, token_L: Tensor, logprob_L: Tensor) -> None:
        """Takes one token of each live row."""
        self._token_R_T[live_L, step] = token_L
        self._logprob_R_T[live_L, step] = logprob_L
        self._written = step + 1

    def unfinished(self, live_L: Tensor) -> Tensor:
        """Returns which of the live rows, unfinished when last looked at, are so still: indices into live_L."""
        if self._stops:
            self._look_for_stops(live_L, self._stops)
        news_L_t = self._token_R_T[live_L, self._looked : self._written]
        self._looked = self._written
        ended_L = self._is_end(news_L_t).any(dim=1) | (self._limit_R[live_L] <= self._written)
        return (~ended_L).nonzero().squeeze(1)

    def _look_for_stops(self, live_L: Tensor, stops: StopStrings) -> None:
        """A row that holds a stop string has its limit there."""
        for row, tokens in zip(live_L.tolist(), self._token_R_T[live_L, : self._written].tolist(), strict=True):
            if (end := stops.end(tokens, self._looked)) is not None:
                self._stopped[row] = end
                self._limit_R[row] = torch.clamp(self._limit_R[row], max=end)

    def samples(self, rows: slice = slice(None)) -> list[GeneratedSample]:
        """Returns these rows, all of which have ended, up to their end of text or limit."""
        token_r_T, logprob_r_T = self._token_R_T[rows], self._logprob_R_T[rows]
        lengths = self._lengths(token_r_T, self._limit_R[rows]).tolist()
        return [
            self._sample(row, tokens[:length], logprobs[:length])
            for row, (tokens, logprobs, length) in enumerate(
                zip(token_r_T.tolist(), logprob_r_T.tolist(), lengths, strict=True), rows.start or 0
            )
        ]

    def _sample(self, row: int, tokens: list[int], logprobs: list[float]) -> GeneratedSample:
        ended = tokens[-1] in self._model.eos_ids
        stopped = not ended and self._stopped.get(row) == len(tokens)
        return GeneratedSample(tuple(tokens), tuple(logprobs), ended or stopped, stopped)

    def _lengths(self, token_r_T: Tensor, limit_r: Tensor) -> Tensor:
        """[r]: tokens up to and with the first end of text, or up to the limit."""
        end_r_T = self._is_end(token_r_T)
        first_end_r = torch.where(end_r_T.any(dim=1), end_r_T.byte().argmax(dim=1), token_r_T.shape[1])
        return torch.minimum(first_end_r + 1, limit_r)

    def _is_end(self, token: Tensor) -> Tensor:
        # torch.isin may sort instead, and then waits for the GPU
        return (token[..., None] == self._eos).any(dim=-1)
