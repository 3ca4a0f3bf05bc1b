"""Encodes and decodes the JSON forms; every refusal has a name.

Peers are strangers: whatever a file holds, reading it either gives a checked struct or raises ProtocolError with a
countable reason: `malformed`, `wrong_version`, `misplaced`, `empty`, `oversized`, `ragged`, `no_origin`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from swarm import forms
from swarm.config.own_code import OwnCode
from swarm.errors import ProtocolError
from swarm.types import Completion, Question, RolloutGroup, RoundKey, ScoredGroup, Turn
from swarm.wire.messages import SCHEMA_VERSION, GroupInfo, PolicyInfo, RolloutEntry, RolloutFile, TurnEntry

MOST_GROUPS = 1024
MOST_COMPLETIONS = 1024
"""What one file may hold: scoring costs the reader, whatever a file's size in bytes."""
MOST_TOKENS = 2**15
"""Tokens of one completion, for its token_ids and logprobs to be used."""
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

Hint = tuple[tuple[int, ...] | None, tuple[float, ...] | None]
"""Token ids and log-probs, as far as they can be used."""
NO_HINT: Hint = (None, None)

Message = TypeVar("Message", bound=msgspec.Struct)


DEEPEST = 200
"""Levels of objects and lists within each other that are taken: what is decoded at the bottom of the stack has to be
encoded, and shown, from further up."""


def nests_too_deeply(value: object) -> bool:
    """Tells whether more than DEEPEST objects and lists of what was decoded stand within each other."""
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
    """Returns one JSON document on one line, ending in a newline."""
    return msgspec.json.encode(message, enc_hook=_plain) + b"\n"


def _plain(value: object) -> str:
    """Writes own code as plain text: in a place nobody knows whose word it was. Raises NotImplementedError: it has no
    form in JSON."""
    if isinstance(value, OwnCode):
        return str(value)
    raise NotImplementedError


def brackets(data: bytes) -> int:
    """Objects and lists of a file, at most."""
    return data.count(b"{") + data.count(b"[")


def decode(data: bytes, form: type[Message], where: str) -> Message:
    """Decode and check one file.

    Args:
        where: how messages name the file.

    Raises:
        ProtocolError: `oversized` for more than MOST_BRACKETS, `wrong_version` before anything else is looked at,
            else `malformed`.
    """
    if (opened := brackets(data)) > MOST_BRACKETS:
        raise ProtocolError("oversized", f"{where} has {opened} brackets, the limit is {MOST_BRACKETS}")
    try:
        version = forms.decode(data, _Version).schema_version
        if version == SCHEMA_VERSION:
            return forms.decode(data, form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("malformed", f"{where} is no {form.__name__}: {error}") from None
    raise ProtocolError("wrong_version", f"{where} has schema_version {version}, this node reads {SCHEMA_VERSION}")


def to_rollout_file(
    groups: Sequence[ScoredGroup],
    peer: str,
    key: RoundKey,
    timestamp: float,
    policy: PolicyInfo,
    *,
    with_logprobs: bool = False,
    earlier: Mapping[int, str] | None = None,
    mixture: Mapping[str, float] | None = None,
) -> RolloutFile:
    """Returns a node's own groups as the file that its peers read.

    Args:
        earlier: the other groups, which were published before: slot -> SHA-256.
        mixture: of tasks, that the node asks; None: that of everybody.
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
        earlier={str(slot): earlier[slot] for slot in sorted(earlier)} if earlier else UNSET,
        mixture=UNSET if mixture is None else dict(mixture),
    )


def _entries(scored: ScoredGroup, with_logprobs: bool) -> list[RolloutEntry]:
    prompt = scored.group.question.prompt
    return [
        RolloutEntry(
            prompt=prompt,
            response=completion.text,
            reward=reward,
            finished=completion.finished,
            turns=turn_entries(completion, with_logprobs=with_logprobs),
            **(_sampled(completion) if with_logprobs else {}),
        )
        for completion, reward in zip(scored.group.completions, scored.rewards, strict=True)
    ]


def turn_entries(completion: Completion, *, with_logprobs: bool = False) -> list[TurnEntry] | UnsetType:
    """Returns the turns before the last one, UNSET where there is none."""
    return [
        TurnEntry(
            response=turn.text,
            reply=turn.reply,
            finished=turn.finished,
            **(_sampled(turn) if with_logprobs else {}),
        )
        for turn in completion.earlier
    ] or UNSET


def _sampled(completion: Completion | Turn) -> dict[str, Any]:
    """Returns the token fields of an entry: none where a reader would not take them."""
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
    """Holds a publisher's claims about one of its groups, which are held against what the reader finds."""

    answer: str | None
    rewards: tuple[float | None, ...]
    """One per completion, None where it says nothing."""


def to_claims(file: RolloutFile) -> list[Claims]:
    """Returns the claims of the groups that to_groups gives for the same file, in the same order."""
    return [
        Claims(file.groups[slot].answer if slot in file.groups else None, tuple(e.reward for e in file.rollouts[slot]))
        for slot in sorted(file.rollouts, key=slot_of)
    ]


def to_groups(
    file: RolloutFile, peer: str, key: RoundKey, *, origin_needed: bool = True, with_tokens: bool = True
) -> list[RolloutGroup]:
    """Returns the groups of a peer's file, in slot order. Metadata, rewards and answers are left behind: readers make
    their own.

    Token ids and log-probs are the publisher's claim: in range, and as many of the one as of the other, but whether
    they are those of the text is for the trainer to find out. Broken ones are left behind without a word.

    Args:
        origin_needed: refuse a file with a group that does not say where its question comes from. False where nobody
            learns from it, as `swarm validate` in a run of another program.
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
    for slot in sorted(file.rollouts, key=slot_of):
        groups.append(_group(file, slot, origin_needed, tokens_left))
        tokens_left -= sum(map(_tokens, groups[-1].completions))
    return groups


def slot_of(text: str) -> int:
    """Returns the number of a group, of the key that it has in a file. Raises ProtocolError: `malformed`."""
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
        question=Question(prompts.pop(), info.origin),
        completions=tuple(_completions(entries, tokens_left)),
        model=file.policy.model[:80],
        tokenizer=(file.policy.tokenizer or "")[:80],
        licence=(file.policy.licence or "")[:80],
        consent=(file.policy.consent or "")[:80],
    )


def _completions(entries: list[RolloutEntry], tokens_left: int) -> Iterator[Completion]:
    for entry in entries:
        turns = (*(entry.turns or ()), entry)
        hints = _hints(turns) if tokens_left > 0 else [NO_HINT] * len(turns)
        earlier = [
            Turn(turn.response, turn.finished, turn.reply, *hint)
            for turn, hint in zip(entry.turns or (), hints, strict=False)
        ]
        yield (completion := Completion(entry.response, entry.finished, *hints[-1], tuple(earlier)))
        tokens_left -= _tokens(completion)


def earlier_turns(entries: Sequence[TurnEntry] | UnsetType) -> tuple[Turn, ...]:
    """Returns the turns before the last one, without token ids."""
    return tuple(Turn(entry.response, entry.finished, entry.reply) for entry in entries or ())


def _hints(turns: Sequence[RolloutEntry | TurnEntry]) -> list[Hint]:
    """Returns token ids and log-probs of all turns of a completion, or of none."""
    hints: list[Hint] = []
    for turn in turns:
        hints.append(_usable(turn.token_ids, turn.logprobs))
        if hints[-1] == NO_HINT or sum(len(ids or ()) for ids, *_ in hints) > MOST_TOKENS:
            return [NO_HINT] * len(turns)
    return hints


def _tokens(completion: Completion) -> int:
    return sum(len(turn.token_ids or ()) for turn in completion.every_turn)


class _SampledTokens(msgspec.Struct):
    """Checks token_ids and logprobs, so that a trainer may look at them."""

    token_ids: Annotated[tuple[Annotated[int, Meta(ge=0, lt=2**31)], ...], Meta(max_length=MOST_TOKENS)]
    logprobs: tuple[Annotated[float, Meta(ge=-sys.float_info.max, le=0)], ...]

    def __post_init__(self) -> None:
        if len(self.token_ids) != len(self.logprobs):
            raise ValueError("expected one log-prob per token")


_decode_tokens = forms.decoder(_SampledTokens).decode


def _usable(token_ids: Raw | UnsetType, logprobs: Raw | UnsetType) -> Hint:
    """Returns both lists if they are of one length and in range, else none: a hint that is broken is no hint."""
    if token_ids is UNSET or logprobs is UNSET or max(len(bytes(token_ids)), len(bytes(logprobs))) > _MOST_TOKEN_BYTES:
        return NO_HINT
    try:
        tokens = _decode_tokens(b'{"token_ids":%b,"logprobs":%b}' % (token_ids, logprobs))
    except msgspec.MsgspecError:
        return NO_HINT
    return tokens.token_ids, tokens.logprobs
