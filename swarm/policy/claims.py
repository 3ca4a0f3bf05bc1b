"""Checks a stranger's token ids and log-probs: used only if they say nothing else than the text that was judged.

What cannot be known: whether the log-probs are true, and at which temperature they were taken. A peer that samples at
another one is weighed as if it had another policy; the cap bounds what any lie can do.
"""

from __future__ import annotations

import math

from swarm.policy.model import LanguageModel
from swarm.policy.prompt import decode_completion
from swarm.policy.reasoning import closing_ids
from swarm.types import Completion, TrainGroup, Turn


def claim_holds(completion: Completion | Turn, group: TrainGroup, model: LanguageModel) -> bool:
    """Tells whether the ids are this model's for exactly the text of one turn, and each has a log-prob.

    Special tokens would be invisible in the text, so there must be none but the end-of-text of a finished completion;
    an own one, read back after a crash, may have been finished by a stop string instead. What is said to be forced is a
    whole closing, for nothing is learnt of it; of an own one it is in range.
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
        and _forced_holds(completion.forced, ids, model, external=group.external)
        and decode_completion(tokenizer, list(text_ids)) == completion.text
    )


def _forced_holds(
    forced: tuple[int, int] | None, ids: tuple[int, ...], model: LanguageModel, *, external: bool
) -> bool:
    if forced is None:
        return True
    start, many = forced
    if external:
        return ids[start : start + many] in closing_ids(model.tokenizer)
    return 0 <= start < start + many <= len(ids)
