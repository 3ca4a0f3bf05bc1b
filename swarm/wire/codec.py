"""Encodes and decodes the JSON forms; every refusal has a name.

Peers are strangers: whatever a file holds, reading it either gives a checked struct or raises ProtocolError with a
countable reason: `malformed`, `wrong_version`, `misplaced`, `empty`, `oversized`, `ragged`, `no_origin`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from swarm.errors import ProtocolError
from swarm.types import Completion, Question, RolloutGroup, RoundKey, ScoredGroup
from swarm.wire.messages import SCHEMA_VERSION, GroupInfo, PolicyInfo, RolloutEntry, RolloutFile

MOST_GROUPS = 1024
MOST_COMPLETIONS = 1024
"""What one file may hold: scoring costs the reader, whatever a file's size in bytes."""
MOST_TOKENS = 2**15
"""Of one completion, for its token_ids and logprobs to be used."""
_MOST_TOKEN_BYTES = 32 * MOST_TOKENS
"""No honest list of as many numbers is longer."""
MOST_TOKENS_OF_FILE = 2**18
"""Tokens of one file that are read, in the order of its groups: 512 completions of 512 tokens. What comes after is read
without."""
MOST_BRACKETS = 2**16
"""Objects and lists of one file, those that stand in its texts included; a thousand completions have some ten thousand.
Each costs the reader far more memory than the two or three bytes that it takes: unbounded, a file of 16 MB took a
second and 430 MB to refuse."""
LOGPROB_DECIMALS = 5
"""A weight is off by 5e-6 of itself at most, and a token takes some 15 bytes beside its text, not 26."""

Message = TypeVar("Message", bound=msgspec.Struct)


DEEPEST = 200
"""Levels of objects and lists within each other that are taken: what is decoded at the bottom of the stack has to be
encoded, and shown, from further up."""


def nests_too_deeply(value: object) -> bool:
    """Whether more than DEEPEST objects and lists of what was decoded stand within each other."""
    level = [value]
    for _ in range(DEEPEST):
        level = [part for whole in level for part in _parts(whole) if isinstance(part, dict | list | msgspec.Struct)]
        if not level:
            return False
    return True


def _parts(whole: object) -> Iterable[object]:
    if isinstance(whole, msgspec.Struct):
        return (getattr(whole, name) for name in whole.__struct_fields__)
    return whole.values() if isinstance(whole, dict) else whole if isinstance(whole, list) else ()


class _Version(msgspec.Struct):
    schema_version: int = SCHEMA_VERSION


def encode(message: msgspec.Struct) -> bytes:
    """One JSON document on one line, ending in a newline."""
    return msgspec.json.encode(message) + b"\n"


def decode(data: bytes, form: type[Message], where: str) -> Message:
    """Decode and check one file.

    Args:
        where: how messages name the file.

    Raises:
        ProtocolError: `oversized` for more than MOST_BRACKETS, `wrong_version` before anything else is looked at,
            else `malformed`.
    """
    if (brackets := data.count(b"{") + data.count(b"[")) > MOST_BRACKETS:
        raise ProtocolError("oversized", f"{where} has {brackets} brackets, the limit is {MOST_BRACKETS}")
    try:
        version = msgspec.json.decode(data, type=_Version).schema_version
        if version == SCHEMA_VERSION:
            return msgspec.json.decode(data, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("malformed", f"{where} is no {form.__name__}: {error}") from None
    raise ProtocolError("wrong_version", f"{where} has schema_version {version}, this node reads {SCHEMA_VERSION}")


def to_rollout_file(
    groups: list[ScoredGroup],
    peer: str,
    key: RoundKey,
    timestamp: float,
    policy: PolicyInfo,
    *,
    with_logprobs: bool = False,
) -> RolloutFile:
    """A node's own groups as the file that its peers read.

    Args:
        with_logprobs: beside each text its token ids and log-probs, rounded to LOGPROB_DECIMALS, and beside the
            policy's name what explains them. Nothing of it is written otherwise.
    """
    return RolloutFile(
        peer_id=peer,
        round=key.round,
        stage=key.stage,
        timestamp=timestamp,
        rollouts={str(scored.group.slot): _entries(scored, with_logprobs) for scored in groups},
        groups={str(scored.group.slot): _info(scored.group.question) for scored in groups},
        policy=policy if with_logprobs else msgspec.structs.replace(policy, tokenizer=UNSET, temperature=UNSET),
    )


def _entries(scored: ScoredGroup, with_logprobs: bool) -> list[RolloutEntry]:
    prompt = scored.group.question.prompt
    return [
        RolloutEntry(
            prompt=prompt,
            response=completion.text,
            reward=reward,
            finished=completion.finished,
            **(_sampled(completion) if with_logprobs else {}),
        )
        for completion, reward in zip(scored.group.completions, scored.rewards, strict=True)
    ]


def _sampled(completion: Completion) -> dict[str, Any]:
    """The token fields of an entry: none where a reader would not take them."""
    # A log-prob of almost 0 may come out above it. NaN stays NaN in this order, and so is not published.
    rounded = [min(round(value, LOGPROB_DECIMALS), 0.0) for value in completion.logprobs or ()]
    ids, logprobs = _usable(_raw(completion.token_ids), _raw(rounded))
    return {} if ids is None else {"token_ids": _raw(ids), "logprobs": _raw(logprobs)}


def _raw(value: object) -> Raw:
    return Raw(msgspec.json.encode(value))


def _info(question: Question) -> GroupInfo:
    return GroupInfo(
        task=question.task, answer=question.answer, metadata=_raw(question.metadata), origin=question.origin
    )


class Claims(msgspec.Struct, frozen=True):
    """What the publisher says of one of its groups: to be held against what the reader finds, and nothing else."""

    answer: str | None
    rewards: tuple[float | None, ...]
    """One per completion, None where it says nothing."""


def to_claims(file: RolloutFile) -> list[Claims]:
    """The claims of the groups that to_groups gives for the same file, in the same order."""
    return [
        Claims(file.groups[slot].answer if slot in file.groups else None, tuple(e.reward for e in file.rollouts[slot]))
        for slot in sorted(file.rollouts, key=_slot)
    ]


def to_groups(
    file: RolloutFile, peer: str, key: RoundKey, *, origin_needed: bool = True, with_tokens: bool = True
) -> list[RolloutGroup]:
    """The groups of a peer's file, in slot order. Metadata and reward are left behind, and the answer wherever an
    origin lets readers make their own.

    Token ids and log-probs are the publisher's claim: in range, and as many of the one as of the other, but whether
    they are those of the text is for the trainer to find out. Broken ones are left behind without a word.

    Args:
        origin_needed: refuse a file with a group that does not say where its question comes from.
        with_tokens: read token ids and log-probs; who does not weigh by them saves their time and memory.

    Raises:
        ProtocolError: `misplaced` (it speaks for another node or round than its path), `empty`, `oversized`,
            `ragged` (groups of different sizes, of fewer than two completions, or of more than one prompt),
            `no_origin`, `malformed`.
    """
    if (file.peer_id, file.round, file.stage) != (peer, *key):
        raise ProtocolError(
            "misplaced",
            f"it lies where node {peer} speaks for round {key.round} stage {key.stage}, "
            f"but says {file.peer_id!r}, round {file.round}, stage {file.stage}",
        )
    if not file.rollouts:
        raise ProtocolError("empty", "it holds no rollout group")
    if len(file.rollouts) > MOST_GROUPS or any(len(entries) > MOST_COMPLETIONS for entries in file.rollouts.values()):
        raise ProtocolError(
            "oversized", f"expected at most {MOST_GROUPS} groups of at most {MOST_COMPLETIONS} completions"
        )
    sizes = {len(entries) for entries in file.rollouts.values()}
    if len(sizes) > 1 or min(sizes) < 2:
        raise ProtocolError("ragged", f"expected groups of one size of at least 2 completions, got {sorted(sizes)}")
    tokens_left = MOST_TOKENS_OF_FILE if with_tokens else 0
    groups = []
    for slot in sorted(file.rollouts, key=_slot):
        groups.append(_group(file, slot, origin_needed, tokens_left))
        tokens_left -= sum(len(completion.token_ids or ()) for completion in groups[-1].completions)
    return groups


def _slot(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and str(int(text)) == text):
        raise ProtocolError("malformed", f"expected group keys '0', '1', ..., got {text[:40]!r}")
    return int(text)


def _group(file: RolloutFile, slot: str, origin_needed: bool, tokens_left: int) -> RolloutGroup:
    entries = file.rollouts[slot]
    prompts = {entry.prompt for entry in entries}
    if len(prompts) != 1:
        raise ProtocolError("ragged", f"group {slot} has {len(prompts)} prompts, expected one for all its completions")
    info = file.groups.get(slot) or GroupInfo(task="")
    if info.origin is None and origin_needed:
        raise ProtocolError("no_origin", f"group {slot} does not say where its question comes from")
    return RolloutGroup(
        peer_id=file.peer_id,
        round=file.round,
        stage=file.stage,
        slot=int(slot),
        question=Question(prompts.pop(), info.origin, answer=None if info.origin else info.answer),
        completions=tuple(_completions(entries, tokens_left)),
        model=file.policy.model[:80],
        tokenizer=(file.policy.tokenizer or "")[:80],
    )


def _completions(entries: list[RolloutEntry], tokens_left: int) -> Iterator[Completion]:
    for entry in entries:
        ids, logprobs = _usable(entry.token_ids, entry.logprobs) if tokens_left > 0 else (None, None)
        tokens_left -= len(ids or ())
        yield Completion(entry.response, entry.finished, ids, logprobs)


class _SampledTokens(msgspec.Struct):
    """What token_ids and logprobs have to be, so that a trainer may look at them."""

    token_ids: Annotated[tuple[Annotated[int, Meta(ge=0, lt=2**31)], ...], Meta(max_length=MOST_TOKENS)]
    logprobs: tuple[Annotated[float, Meta(ge=-sys.float_info.max, le=0)], ...]

    def __post_init__(self) -> None:
        if len(self.token_ids) != len(self.logprobs):
            raise ValueError("expected one log-prob per token")


_decode_tokens = msgspec.json.Decoder(_SampledTokens).decode


def _usable(
    token_ids: Raw | UnsetType, logprobs: Raw | UnsetType
) -> tuple[tuple[int, ...] | None, tuple[float, ...] | None]:
    """Both if they are lists of one length and in range, else neither: a hint that is broken is no hint."""
    if token_ids is UNSET or logprobs is UNSET or max(len(bytes(token_ids)), len(bytes(logprobs))) > _MOST_TOKEN_BYTES:
        return None, None
    try:
        tokens = _decode_tokens(b'{"token_ids":%b,"logprobs":%b}' % (token_ids, logprobs))
    except msgspec.MsgspecError:
        return None, None
    return tokens.token_ids, tokens.logprobs
