"""Tokenizes training groups: rows of token ids, of which stack.py makes tensors.

    TrainGroup ──encode_groups──▶ Encoded (rows of token ids) ──(stack)──▶ micro-batches

End-of-text is part of the loss: own completions carry the sampled one, finished external ones get the model's, cut ones
have none. A conversation is one row: what the environment said in it is read as context, like a prompt, and is no token
of the completion for anything that counts, weighs or learns.

answer_tokens finds which tokens of a text are those of its answer.

    token ids ─decode─▶ text ─▶ the last closed <answer>...</answer> ─▶ tokens that hold a part of it; end-of-text

Where the pair lies among the tokens is found by decoding beginnings of the text, so that it is known of any tokenizer,
those without character offsets included, and of token ids that no encoding would give.

claim_holds checks a stranger's token ids and log-probs: used only if they say nothing but the text that was judged.

What cannot be known: whether the log-probs are true, and at which temperature they were taken. A peer that samples at
another one is weighed as if it had another policy; the cap bounds what any lie can do.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from swarm.instruction import OURS, Asking, answer_span
from swarm.policy.model import LanguageModel
from swarm.policy.prompt import Spoken, decode_completion, encode_prompt, encode_turn, join_turns
from swarm.types import Completion, TrainGroup, Turn

EXTERNAL_LENGTHS = 4
"""A stranger's completion may be so many times as long as the own longest: a row is the least that memory must hold."""


@dataclass(frozen=True, eq=False)
class BatchRow:
    """One completion that carries a gradient."""

    group: int
    """Which group it belongs to: rows of one group share one forward pass of the prompt."""
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    """All that follows the prompt: of a conversation what the environment said, too."""
    written: Sequence[int]
    """Places in token_ids of what a model wrote, ascending: of these alone there is a loss."""
    advantage: float
    own: bool
    behaviour_logprobs: tuple[float, ...] | None
    """Log-probs of what is written, as the policy that wrote it saw it; None of a stranger's text, unless its claim is
    asked for and holds."""
    learned: Sequence[bool] | None = None
    """Marks which of what is written may be learned from; None: all of it."""

    @property
    def written_ids(self) -> list[int]:
        """Returns the ids of the tokens that a model wrote."""
        return [self.token_ids[place] for place in self.written]


@dataclass(frozen=True)
class Encoded:
    """Groups of an update as token ids."""

    groups: int
    rows: list[BatchRow]
    tokens: int
    """Completion tokens of all groups, those without a gradient included: the loss is divided by this."""
    completions: int
    """Completions of all groups, likewise: some losses are divided by this."""
    groups_too_long: int
    squares: float = 0.0
    """Sum of the squared advantages of these completions."""

    def joined(self, later: Encoded) -> Encoded:
        """Returns both as one."""
        return Encoded(
            groups=self.groups + later.groups,
            rows=[*self.rows, *later.rows],
            tokens=self.tokens + later.tokens,
            completions=self.completions + later.completions,
            groups_too_long=self.groups_too_long + later.groups_too_long,
            squares=self.squares + later.squares,
        )


def encode_groups(
    groups: Sequence[TrainGroup],
    model: LanguageModel,
    *,
    all_rows: bool,
    use_claims: bool,
    answers_only: bool = False,
    first: int = 0,
    asking: Asking = OURS,
) -> Encoded:
    """Tokenize the groups; leave out those too long for the context or beside the own ones, and rows without gradient.

    Beside the own ones, a turn of a conversation may be as long as a completion.

    Args:
        all_rows: keep rows with advantage 0 too, because a KL term gives them a gradient.
        use_claims: take a stranger's own token ids, with their log-probs, where they can be believed.
        answers_only: of external completions nothing but the answers and ends of text is learned from.
        first: number of the first group.
        asking: how this node puts questions, its peers' too.
    """
    rows: list[BatchRow] = []
    tokens = written = too_long = 0
    squares = 0.0
    for index, group in enumerate(groups, first):
        prompt_ids = tuple(encode_prompt(model.tokenizer, group.prompt, asking))
        marked = answers_only and group.external
        completions = [_as_read(one, group, model, use_claims, asking, marked) for one in group.completions]
        longest = max((len(one.spoken.token_ids) for one in completions), default=0)
        longest_turn = max((one.longest_turn for one in completions), default=0)
        if len(prompt_ids) + longest > model.context or longest_turn > EXTERNAL_LENGTHS * model.max_new_tokens:
            too_long += 1
            continue
        tokens += sum(len(one.spoken.written) for one in completions)
        written += len(completions)
        squares += math.fsum(advantage**2 for advantage in group.advantages)
        for (spoken, _, logprobs, learned), advantage in zip(completions, group.advantages, strict=True):
            if spoken.written and (all_rows or advantage != 0):
                rows.append(BatchRow(index, prompt_ids, *spoken, advantage, not group.external, logprobs, learned))
    return Encoded(len(groups), rows, tokens, written, too_long, squares)


class _Read(NamedTuple):
    """A completion as this model reads it."""

    spoken: Spoken
    longest_turn: int
    """Tokens of what was written at once."""
    logprobs: tuple[float, ...] | None
    """Log-probs of what is written, where they are known."""
    learned: list[bool] | None
    """Marks as in BatchRow."""


def _as_read(
    completion: Completion, group: TrainGroup, model: LanguageModel, use_claims: bool, asking: Asking, marked: bool
) -> _Read:
    """Returns all turns by their sampled ids, or all by their texts.

    Own completions keep their sampled ids: decoding and encoding again is not the identity. Own ones that were read
    back from their file after a crash say whose tokenizer it was, and are checked.

    Args:
        marked: say which tokens are of the answers.
    """
    turns: tuple[Turn | Completion, ...] = (*completion.earlier, completion)
    fresh = not group.external and not group.tokenizer and all(turn.token_ids is not None for turn in turns)
    sampled = fresh or ((use_claims or not group.external) and all(claim_holds(turn, group, model) for turn in turns))
    ids = [turn.token_ids or () for turn in turns] if sampled else [encode_turn(model, turn) for turn in turns]
    spoken = join_turns(model, ids, [turn.reply for turn in completion.earlier], asking)
    known = sampled and all(turn.logprobs is not None for turn in turns)
    logprobs = tuple(chain.from_iterable(turn.logprobs or () for turn in turns)) if known else None
    learned = [of_answer for turn in ids for of_answer in answer_tokens(turn, model)] if marked else None
    return _Read(spoken, max(map(len, ids)), logprobs, learned)


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


def claim_holds(completion: Completion | Turn, group: TrainGroup, model: LanguageModel) -> bool:
    """Tells whether the ids are this model's for exactly the text of one turn, and each has a log-prob.

    Special tokens would be invisible in the text, so there must be none but the end-of-text of a finished completion;
    an own one, read back after a crash, may have been finished by a stop string instead.
    """
    ids, logprobs = completion.token_ids, completion.logprobs
    if not ids or logprobs is None or len(logprobs) != len(ids) or group.tokenizer != model.tokenizer_digest:
        return False
    tokenizer = model.tokenizer
    ended = ids[-1] in model.eos_ids
    text_ids = ids[:-1] if ended else ids
    hidden_ids = model.eos_ids.union(tokenizer.all_special_ids)
    return (
        all(0 <= token < len(tokenizer) for token in ids)
        and (ended == completion.finished or (completion.finished and not group.external))
        and hidden_ids.isdisjoint(text_ids)
        and all(math.isfinite(value) and value <= 0 for value in logprobs)
        and decode_completion(tokenizer, list(text_ids)) == completion.text
    )
