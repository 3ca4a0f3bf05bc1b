"""Which completions does the model write? A sampling loop of our own, for groups of completions to one prompt.

    prompts ──prefill once──▶ cache ──repeat G times──▶ [sample ▶ drop finished rows ▶ forward] while any is left

Every uniform number is drawn before the loop, one per row and step, so a row's tokens depend neither on when other rows
finish nor on the device. Sizes: K prompts, R = K x G rows, L live rows, T new tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import DynamicCache

from swarm.errors import ModelError
from swarm.policy.batch import PaddedPrompts, pad_prompts
from swarm.policy.forward import select_rows
from swarm.policy.model import LanguageModel


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn; see GrpoConfig for the meaning."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0


@dataclass(frozen=True)
class Sample:
    """One completion as the model wrote it."""

    token_ids: tuple[int, ...]
    """End-of-text included where finished."""
    logprobs: tuple[float, ...]
    """At the temperature, before top-p and top-k: what the trainer computes as well."""
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
) -> list[list[Sample]]:
    """`sample`, at most max_rows rows at once; prompts are parted first, then groups."""
    group_size = uniform_K_G_T.shape[1]
    width = max(1, max_rows // group_size)
    samples: list[list[Sample]] = []
    for start in range(0, len(prompts), width):
        part, uniform_k_G_T = prompts[start : start + width], uniform_K_G_T[start : start + width]
        pieces = [
            sample(model, part, uniform_K_G_T=piece, sampling=sampling)
            for piece in torch.split(uniform_k_G_T, max_rows, dim=1)
        ]
        samples += [[one for piece in pieces for one in piece[k]] for k in range(len(part))]
    return samples


def sample(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    *,
    uniform_K_G_T: Tensor,
    sampling: Sampling,
) -> list[list[Sample]]:
    """G completions for each of K prompts.

    Args:
        prompts: token ids, of different lengths.
        uniform_K_G_T: as draw_uniforms makes it, T at least the model's max_new_tokens.
    """
    with torch.inference_mode(), model.autocast():  # one region around all steps casts the weights once
        return _sample(model, prompts, uniform_K_G_T, sampling)


def _sample(
    model: LanguageModel, prompts: Sequence[Sequence[int]], uniform_K_G_T: Tensor, sampling: Sampling
) -> list[list[Sample]]:
    group_size = uniform_K_G_T.shape[1]
    limit_R = torch.tensor(new_token_limits(prompts, model), device=model.device).repeat_interleave(group_size)
    uniform_R_T = uniform_K_G_T.flatten(0, 1).to(model.device)
    eos = torch.tensor(sorted(model.eos_ids), device=model.device)
    steps = int(limit_R.max())
    transcript = _Transcript(len(limit_R), steps, model.device)
    decoder = _Decoder(model, pad_prompts(prompts, model), group_size, steps)
    live_L = torch.arange(len(limit_R), device=model.device)
    for step in range(steps):
        token_L, logprob_L = draw_tokens(decoder.logits_L_V, uniform_R_T[live_L, step], sampling)
        transcript.append(live_L, step, token_L, logprob_L)
        kept_l = (~torch.isin(token_L, eos) & (step + 1 < limit_R[live_L])).nonzero().squeeze(1)
        if len(kept_l) == 0:
            break
        if len(kept_l) < len(live_L):
            decoder.keep(kept_l)
            live_L, token_L = live_L[kept_l], token_L[kept_l]
        decoder.forward(token_L)
    samples = transcript.samples(model)
    return [samples[start : start + group_size] for start in range(0, len(samples), group_size)]


def draw_tokens(logits_L_V: Tensor, uniform_L: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Sampled ids [L] by inverting the cumulative distribution at uniform_L, and their log-probs [L]."""
    logprob_L_V = (logits_L_V / sampling.temperature).log_softmax(dim=1)
    weight_L_V = truncate(logprob_L_V.exp(), sampling)
    cumulative_L_V = weight_L_V.double().cumsum(dim=1)
    total_L_1 = cumulative_L_V[:, -1:]
    # Rounding could lift u x total to total itself, behind the last token that has any weight.
    below_total_L_1 = torch.nextafter(total_L_1, torch.zeros_like(total_L_1))
    point_L_1 = torch.minimum(uniform_L[:, None] * total_L_1, below_total_L_1)
    token_L_1 = torch.searchsorted(cumulative_L_V, point_L_1, right=True)
    token_L_1 = token_L_1.clamp(max=logits_L_V.shape[1] - 1)  # of NaN logits, which the caller finds by their log-prob
    return token_L_1.squeeze(1), logprob_L_V.gather(1, token_L_1).squeeze(1)


def truncate(prob_L_V: Tensor, sampling: Sampling) -> Tensor:
    """Probabilities with all but the top-k, then all but the top-p nucleus, set to 0; not normalised again."""
    if sampling.top_k:
        kept = prob_L_V.topk(min(sampling.top_k, prob_L_V.shape[1]), dim=1)
        prob_L_V = torch.zeros_like(prob_L_V).scatter(1, kept.indices, kept.values)
    if sampling.top_p < 1:
        sorted_L_V, order_L_V = prob_L_V.sort(dim=1, descending=True)
        before_L_V = sorted_L_V.cumsum(dim=1) - sorted_L_V
        nucleus = before_L_V < sampling.top_p * sorted_L_V.sum(dim=1, keepdim=True)
        prob_L_V = torch.zeros_like(prob_L_V).scatter(1, order_L_V, sorted_L_V * nucleus)
    return prob_L_V


class _Decoder:
    """The model's state while it writes: cache, mask and position of every live row, and logits of the next token."""

    def __init__(self, model: LanguageModel, prompts: PaddedPrompts, group_size: int, steps: int) -> None:
        self._model = model
        self._cache = DynamicCache()
        hidden_K_P_D = model.hidden(prompts.ids, mask=prompts.mask, positions_B_T=prompts.positions, cache=self._cache)
        self.logits_L_V = model.logits(hidden_K_P_D[:, -1]).repeat_interleave(group_size, dim=0)
        row_R = torch.arange(len(prompts.ids), device=model.device).repeat_interleave(group_size)
        select_rows(self._cache, row_R)
        self._position_L = prompts.lengths[row_R]
        self._seen = prompts.ids.shape[1]
        padded = not bool(prompts.mask.all())
        ones_R_T = prompts.mask.new_ones(len(row_R), steps)
        self._mask_L_S = torch.cat([prompts.mask[row_R], ones_R_T], dim=1) if padded else None

    def keep(self, kept_l: Tensor) -> None:
        """Go on with these of the live rows."""
        select_rows(self._cache, kept_l)
        self._position_L = self._position_L[kept_l]
        if self._mask_L_S is not None:
            self._mask_L_S = self._mask_L_S[kept_l]

    def forward(self, token_L: Tensor) -> None:
        """Append one token to every live row."""
        self._seen += 1
        mask = None if self._mask_L_S is None else self._mask_L_S[:, : self._seen]
        positions_L_1 = self._position_L[:, None]
        hidden_L_1_D = self._model.hidden(token_L[:, None], mask=mask, positions_B_T=positions_L_1, cache=self._cache)
        self.logits_L_V = self._model.logits(hidden_L_1_D[:, 0])
        self._position_L = self._position_L + 1


class _Transcript:
    """What every row has written so far; stays on the device until all rows are done."""

    def __init__(self, rows: int, steps: int, device: torch.device) -> None:
        self._token_R_T = torch.zeros(rows, steps, dtype=torch.long, device=device)
        self._logprob_R_T = torch.zeros(rows, steps, device=device)
        self._length_R = torch.zeros(rows, dtype=torch.long, device=device)

    def append(self, live_L: Tensor, step: int, token_L: Tensor, logprob_L: Tensor) -> None:
        self._token_R_T[live_L, step] = token_L
        self._logprob_R_T[live_L, step] = logprob_L
        self._length_R[live_L] = step + 1

    def samples(self, model: LanguageModel) -> list[Sample]:
        if not bool(self._logprob_R_T.isfinite().all()):
            raise ModelError(
                f"model {model.name!r} gives probabilities that are not finite: its weights have diverged. "
                "Resume from an older checkpoint with a lower learning rate."
            )
        rows = zip(self._token_R_T.tolist(), self._logprob_R_T.tolist(), self._length_R.tolist(), strict=True)
        return [
            Sample(tuple(tokens[:length]), tuple(logprobs[:length]), tokens[length - 1] in model.eos_ids)
            for tokens, logprobs, length in rows
        ]
