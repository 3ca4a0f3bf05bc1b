"""Finds which tokens of a text are those of its answer.

    token ids ─decode─▶ text ─▶ the last closed <answer>...</answer> ─▶ tokens that hold a part of it; end-of-text

Where the pair lies among the tokens is found by decoding beginnings of the text, so that it is known of any tokenizer,
those without character offsets included, and of token ids that no encoding would give.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from swarm.instruction import answer_span
from swarm.policy.model import LanguageModel
from swarm.policy.prompt import decode_completion


def answer_tokens(token_ids: Sequence[int], model: LanguageModel) -> list[bool]:
    """Says for each token of one turn whether it belongs to the answer; none does where no pair of tags is closed."""
    ids = list(token_ids)
    span = answer_span(decode_completion(model.tokenizer, ids))
    if span is None:
        return [False] * len(ids)

    def characters(tokens: int) -> int:
        return len(decode_completion(model.tokenizer, ids[:tokens]))

    lengths = range(len(ids) + 1)
    first, behind = bisect_right(lengths, span[0], key=characters) - 1, bisect_left(lengths, span[1], key=characters)
    ended = ids[-1] in model.eos_ids
    return [first <= place < behind or (ended and place == len(ids) - 1) for place in range(len(ids))]
