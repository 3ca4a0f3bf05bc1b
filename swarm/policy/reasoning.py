"""Ends reasoning that has used up its budget: a closing is put in the place of what the model would have written.

    budget tokens, and neither </think> nor <answer> ──▶ the closing's ids, one a step ──▶ the model goes on sampling

All rows of a batch begin together and so come to the budget at one step: there they are looked at, once. The closing is
context and no choice of the model's: nothing is learnt of it (`written_places`). Sizes: R rows, L live rows, C tokens
of the longest closing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from swarm.instruction import TAG
from swarm.policy.prompt import shown_prompt

_THOUGHT, _THOUGHT_ENDS = "<think>", "</think>"
_TAIL = 16
"""Tokens of a prompt's end in which an opened thought is looked for; `<think>` and a line break have at most 8."""


def closing_ids(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns token ids of what is forced: where no thought is open, and where one is."""
    plain, of_thought = (
        tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
        for text in (f"\n{TAG}", f"{_THOUGHT_ENDS}\n\n{TAG}")
    )
    return plain, of_thought


def written_places(length: int, forced: tuple[int, int] | None) -> Sequence[int]:
    """Returns places of those tokens of a turn that the model chose."""
    if forced is None:
        return range(length)
    start, many = forced
    return [*range(start), *range(start + many, length)]


class ReasoningBudget:
    """Says how many tokens of a turn may go by without an end of reasoning, and what is forced then."""

    def __init__(self, tokenizer: Any, tokens: int) -> None:
        self.tokens = tokens
        self._tokenizer = tokenizer
        self._plain, self._of_thought = closing_ids(tokenizer)
        self.longest = max(len(self._plain), len(self._of_thought))

    def closing(self, prompt: Sequence[int], written: Sequence[int]) -> tuple[int, ...]:
        """Returns the ids that are forced behind these tokens of a turn; empty where its reasoning is over or its
        answer has begun."""
        text = shown_prompt(self._tokenizer, list(written))
        if _THOUGHT_ENDS in text or TAG in text:
            return ()
        return self._of_thought if _THOUGHT in text or self._opens_thought(prompt) else self._plain

    def _opens_thought(self, prompt: Sequence[int]) -> bool:
        return shown_prompt(self._tokenizer, list(prompt[-_TAIL:])).rstrip().endswith(_THOUGHT)


class ForcedTokens:
    """Holds which tokens the rows of one batch have to write."""

    def __init__(self, budget: ReasoningBudget, prompt_of_row: Sequence[Sequence[int]], limit_R: Tensor) -> None:
        self._budget, self._prompts, self._limits = budget, prompt_of_row, limit_R.tolist()
        self._id_R_C = torch.full((len(limit_R), budget.longest), -1, device=limit_R.device)
        self._lengths = dict[int, int]()

    def imposed(
        self, live_L: Tensor, step: int, token_L: Tensor, logprob_L: Tensor, token_R_T: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns the token of each live row and its log-prob: what was drawn, or what is forced, which has log-prob 0.

        Args:
            token_R_T: what the rows have written before this step.
        """
        place = step - self._budget.tokens
        if place == 0:
            self._look(live_L.tolist(), token_R_T[live_L, :step].tolist())
        if not self._lengths or not 0 <= place < self._budget.longest:
            return token_L, logprob_L
        forced_L = self._id_R_C[live_L, place]
        return torch.where(forced_L < 0, token_L, forced_L), logprob_L.masked_fill(forced_L >= 0, 0.0)

    def span(self, row: int, length: int) -> tuple[int, int] | None:
        """Returns where in a row that ends after `length` tokens the closing begins, and how many of them it has."""
        start = self._budget.tokens
        many = min(self._lengths.get(row, 0), length - start)
        return (start, many) if many > 0 else None

    def _look(self, rows: Sequence[int], written: Sequence[Sequence[int]]) -> None:
        """A row with no room for the closing and an answer is left alone."""
        for row, tokens in zip(rows, written, strict=True):
            ids = self._budget.closing(self._prompts[row], tokens)
            if ids and self._budget.tokens + len(ids) < self._limits[row]:
                self._lengths[row] = len(ids)
                self._id_R_C[row, : len(ids)] = torch.tensor(ids, device=self._id_R_C.device)
