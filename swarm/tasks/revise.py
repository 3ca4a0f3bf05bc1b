"""Stages after a round's first one: the same question, asked again with answers that it was given in the stage before.

    stage s - 1: the own group ─┐
                 peers' groups ─┴▶ context: their names and digests, in the question's origin
                                        │ shown_answers: which texts, by the question's seed
    template of stage s ────────────────┴▶ revised: the prompt of stage s

Everything is a function of origin and context groups, so that who has them makes the same prompt. What a group was
worth is not shown. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

import msgspec

from swarm.algo.seeds import derive_random
from swarm.config.revising import ANSWERS, QUESTION, Revising
from swarm.errors import ProtocolError
from swarm.tasks.answer import CLOSE_TAG, OPEN_TAG, before_answer, extract_answer
from swarm.types import Origin, Question, RolloutGroup, RoundKey

_NAME = re.compile(r"([A-Za-z0-9_-][A-Za-z0-9_.-]{0,63})/([0-9]{1,9})/([0-9]{1,9})/([0-9]{1,6})/([0-9a-f]{32})")
_MARK = re.compile(r"(?<=[<\[])(?=[^\s\d])")
"""Where a special token of some tokenizer may begin, such as `<|im_end|>`, `</s>`, `[INST]`."""


class ContextName(NamedTuple):
    """One group of the stage before, in an origin: `peer/round/stage/slot/digest`."""

    peer: str
    key: RoundKey
    slot: int
    digest: str
    """Digest of its question's origin and its texts: 32 hexadecimal digits."""

    def __str__(self) -> str:
        return f"{self.peer}/{self.key.round}/{self.key.stage}/{self.slot}/{self.digest}"


def context_name(group: RolloutGroup) -> ContextName:
    return ContextName(group.peer_id, RoundKey(group.round, group.stage), group.slot, _digest(group))


def context_names(origin: Origin) -> list[ContextName]:
    """Returns the groups that an origin names. Raises ProtocolError (`bad_origin`): it names something else."""
    matches = [_NAME.fullmatch(text) for text in origin.context]
    if not all(matches):
        raise ProtocolError("bad_origin", "an origin's context has a name that is not peer/round/stage/slot/digest")
    return [ContextName(m[1], RoundKey(int(m[2]), int(m[3])), int(m[4]), m[5]) for m in matches if m]


def check_context(group: RolloutGroup, rules: Revising) -> None:
    """Tells whether a group's question names groups as its stage has them: of its own round and slot and of the stage
    before, one of each peer, and no more than are shown. Raises ProtocolError (`bad_origin`)."""
    names = context_names(group.question.known_origin())
    before = RoundKey(group.round, group.stage - 1)
    if any((name.key, name.slot) != (before, group.slot) for name in names):
        raise ProtocolError("bad_origin", f"the context of group {group.slot} is not of the stage before and its slot")
    if len({name.peer for name in names}) < len(names) or len(names) > 1 + rules.peers:
        raise ProtocolError(
            "bad_origin",
            f"the context of group {group.slot} names {len(names)} groups, expected at most {1 + rules.peers}, each of "
            "another peer",
        )


def without_context(origin: Origin) -> Origin:
    """Returns the question's origin in the first stage."""
    return msgspec.structs.replace(origin, context=()) if origin.context else origin


def revised(question: Question, context: Sequence[RolloutGroup], stage: int, rules: Revising) -> Question:
    """Returns the question of a stage from 1 on; without any context it is that of the first stage.

    Args:
        question: as the first stage asks it.
        context: groups to it, in the order in which their names stand in the origin.
    """
    if not context:
        return question
    origin = question.known_origin()
    answers = shown_answers(origin, context, stage, rules)
    listed = "\n".join(f"{number}. {answer}" for number, answer in enumerate(answers, 1))
    before, _, after = rules.template(stage).partition(QUESTION)
    prompt = before.replace(ANSWERS, listed) + question.prompt + after.replace(ANSWERS, listed)
    named = msgspec.structs.replace(origin, context=tuple(str(context_name(group)) for group in context))
    return msgspec.structs.replace(question, prompt=prompt, origin=named)


def shown_answers(origin: Origin, context: Sequence[RolloutGroup], stage: int, rules: Revising) -> list[str]:
    """Returns the texts that a prompt shows: of each group in turn one, in an order that follows from the question's
    seed."""
    by_group: list[list[str]] = []
    for group in context:
        texts = sorted({shown(completion.text, rules.characters) for completion in group.completions} - {""})
        derive_random(origin.seed, "answers shown", stage, group.peer_id, group.slot).shuffle(texts)
        by_group.append(texts)
    in_turn = (text for turn in zip_longest(*by_group) for text in turn if text is not None)
    return list(dict.fromkeys(in_turn))[: rules.answers]


def shown(text: str, characters: int) -> str:
    """Returns a completion as a prompt shows it: its end, with the answer last; no token of any tokenizer's own, no
    tag."""
    answer = extract_answer(text)
    thoughts = text if answer is None else before_answer(text)
    thoughts = thoughts.replace(OPEN_TAG, "").replace(CLOSE_TAG, "").strip()
    parts = (thoughts, "" if answer is None else f"Answer: {answer}")
    return _MARK.sub(" ", "\n".join(filter(None, parts))[-characters:].strip())


def longest_shown(group: RolloutGroup, rules: Revising) -> int:
    """Returns bytes of the longest text that a prompt may show of a group: no tokenizer makes more tokens of it."""
    return max(len(shown(one.text, rules.characters).encode()) for one in group.completions)


def order_of_peers(seed: int, purpose: Iterable[str | int], peers: Iterable[str]) -> list[str]:
    """Returns in which order peers' groups are looked for: another one for each node, round, stage and slot."""
    named = list(purpose)
    return sorted(peers, key=lambda peer: (derive_random(seed, "context", *named, peer).random(), peer))


def _digest(group: RolloutGroup) -> str:
    said = (group.question.origin, [(completion.texts, completion.finished) for completion in group.completions])
    return hashlib.blake2b(msgspec.json.encode(said), digest_size=16).hexdigest()
