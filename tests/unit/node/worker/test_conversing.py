"""A node whose tasks converse: what is said in which turn, and that a death changes none of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import anyio
import msgspec
import pytest

from swarm.tasks.conversation import Conversations
from swarm.tasks.family import QuestionRequest
from swarm.tasks.scoring import GroupScore
from swarm.tasks.scoring_messages import Replied
from swarm.types import Completion, Dialogue, Origin, Question, Ready, RoundKey, Turn
from swarm.wire.codec import decode, encode
from swarm.wire.judge_messages import JudgeAnswer
from swarm.wire.messages import CompletionsFile, PeerFile, RolloutEntry
from tests.layout import Layout
from tests.unit.node.factories import FakePolicy, FakeTaskSource, fake_question, make_ghost, make_rollouts, put
from tests.unit.node.nodes import (
    completions_file,
    make_worker,
    play_to_the_end,
    rollouts_of,
    rows_of,
    running,
    set_clock,
    until,
)
from tests.unit.node.worker.test_features import make_question

pytestmark = pytest.mark.anyio

TURNS, ROUNDS = 3, 4
R0 = RoundKey(0)


def reply_to(texts: Sequence[str]) -> str | None:
    """A function of what was said: some conversations are over early."""
    return None if sum(texts[-1].encode()) % 4 == 0 else f"{len(texts)}: {texts[-1][8:12]}?"


class Conversing(FakeTaskSource):
    """Every task replies."""

    replied = 0

    async def make(self, requests: Sequence[QuestionRequest]) -> list[Question]:
        return [msgspec.structs.replace(question, turns=TURNS) for question in await super().make(requests)]

    def judged(self, origin: Origin, score: GroupScore) -> GroupScore:
        return msgspec.structs.replace(score, question=msgspec.structs.replace(score.question, turns=TURNS))

    async def reply(self, origin: Origin, conversations: Sequence[Sequence[str]]) -> Replied:
        self.replied += 1
        return Replied(tuple(map(reply_to, conversations)))


class Talking(FakePolicy):
    """Remembers what it was asked, and by which weights it answered; has room for so many turns."""

    def __init__(self, *more: Any, room: int = TURNS, **fields: Any) -> None:
        super().__init__(*more, **fields)
        self.room = room
        self.asked: list[tuple[int, str, Sequence[str | Dialogue]]] = []

    def generate(
        self, prompts: Sequence[str | Dialogue], *, group_size: int, seed: int, ready: Ready | None = None
    ) -> list[tuple[Completion, ...]]:
        self.asked.append((seed, self.weights, prompts))
        groups = super().generate(prompts, group_size=group_size, seed=seed, ready=ready)
        full = [isinstance(prompt, Dialogue) and len(prompt.turns) >= self.room for prompt in prompts]
        return [() if no_room else tuple(map(_with_tokens, group)) for no_room, group in zip(full, groups, strict=True)]


def _with_tokens(completion: Completion) -> Completion:
    return msgspec.structs.replace(completion, token_ids=(crc32(completion.text.encode()) % 2**31, 2))


def alice(layout: Layout, policy: FakePolicy, source: FakeTaskSource | None = None, **settings: Any) -> Any:
    usual = {"liveness_timeout": 60.0, "checkpoint_interval": 100, "external_groups": 0}
    return make_worker(layout, "alice", policy, source or Conversing(), **(usual | settings))


def said_in(entry: RolloutEntry) -> tuple[list[str], list[str]]:
    turns = entry.turns or []
    return [*(turn.response for turn in turns), entry.response], [turn.reply for turn in turns]


# ── pure ────────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_conversations_go_on_as_long_as_both_sides_have_something_to_say() -> None:
    once, thrice = Question("one?", None), Question("three?", None, turns=3)
    first = [(Completion("a", True),) * 2, tuple(Completion(text, True, (1,), (0.0,)) for text in "bcd")]
    talks = Conversations([once, thrice], first)
    assert talks.to_reply_to() == {1: [("b",), ("c",), ("d",)]}
    opening = [Turn(text, True, f"{text}?", (1,), (0.0,)) for text in "bcd"]
    dialogues = talks.hear({1: ["b?", None, "d?"]})
    assert dialogues == [Dialogue("three?", (opening[0],)), Dialogue("three?", (opening[2],))]
    talks.say([(Completion("B", False),), ()])
    assert talks.to_reply_to() == {1: [("b", "B")]}
    (dialogue,) = talks.hear({1: ["B?"]})
    assert dialogue.turns == (opening[0], Turn("B", False, "B?"))
    talks.say([(Completion("BB", True),)])
    assert talks.to_reply_to() == {}
    assert [[one.texts for one in group] for group in talks.groups] == [
        [("a",)] * 2,
        [("b", "B", "BB"), ("c",), ("d",)],
    ]


# ── the whole node ──────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("room", range(1, TURNS + 1))
async def test_whole_conversations_are_published_and_trained_on_as_far_as_the_model_has_room(
    layout: Layout, room: int
) -> None:
    policy = Talking(room=room)
    await play_to_the_end(layout, range(ROUNDS), alice(layout, policy))
    lengths = set[int]()
    for round_ in range(ROUNDS):
        for entries in rollouts_of(layout, round_, "alice").rollouts.values():
            for texts, replies in map(said_in, entries):
                assert replies == [reply_to(texts[:turn]) for turn in range(1, len(texts))]
                assert len(texts) == room or reply_to(texts) is None
                lengths.add(len(texts))
    assert lengths == {*range(1, room + 1)}
    trained = [one for groups in policy.trained for group in groups for one in group.completions]
    assert {len(one.texts) for one in trained} == lengths
    assert len({seed for seed, *_ in policy.asked}) == len(policy.asked), "each turn has a seed of its own"
    for row, groups in zip(rows_of(layout, "alice"), policy.trained, strict=True):
        said = [one for group in groups for one in group.completions]
        assert row.turns_mean == sum(len(one.texts) for one in said) / len(said)
        assert row.tokens_generated == 2 * sum(len(one.texts) for one in said)


async def test_a_task_of_one_turn_is_asked_as_ever(layout: Layout) -> None:
    policy, source = Talking(), FakeTaskSource()
    await play_to_the_end(layout, range(1), alice(layout, policy, source))
    assert len(policy.asked) == 1
    assert rows_of(layout, "alice")[0].turns_mean is msgspec.UNSET
    assert b'"turns' not in layout.rollout_file(R0, "alice").read_bytes()


class HeldScorer(Conversing):
    """Never comes to the end of a score."""

    async def score(self, *_: Any) -> GroupScore:
        await anyio.sleep_forever()
        raise AssertionError


async def test_what_was_said_and_not_published_is_taken_up_bit_for_bit(layout: Layout) -> None:
    async with running(alice(layout, Talking("other weights"), HeldScorer())):
        await set_clock(layout, 0)
        await until(completions_file(layout, 0).exists)
    sampled = decode(completions_file(layout, 0).read_bytes(), CompletionsFile, "")
    policy, source = Talking(), Conversing()
    await play_to_the_end(layout, range(1), alice(layout, policy, source))
    assert (policy.generated, source.replied) == (0, 0)
    trained = [[one.every_turn for one in group.completions] for group in policy.trained[0]]
    assert [[[turn.token_ids for turn in turns] for turns in group] for group in trained] == [
        [[tuple(turn.token_ids) for turn in one.every_turn] for one in group.completions] for group in sampled.groups
    ]
    assert any(len(turns) > 1 for group in trained for turns in group)


class Thinking(Conversing):
    """Replies once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = anyio.Event()
        self.asked_to = anyio.Event()

    async def reply(self, origin: Origin, conversations: Sequence[Sequence[str]]) -> Replied:
        if self.replied >= 4:  # two questions, two replies each: the first round
            self.asked_to.set()
            await self.may.wait()
        return await super().reply(origin, conversations)


def phase_of(layout: Layout, node: str) -> str:
    """As the node's last heartbeat says."""
    return decode(layout.peer_file(node).read_bytes(), PeerFile, "").phase


async def test_an_update_waits_for_the_conversations_that_were_begun_before_it(layout: Layout) -> None:
    policy, source = Talking(), Thinking()
    make_ghost(layout, "bob")
    put(layout.rollout_file(R0, "bob"), encode(make_rollouts("bob", R0)))
    async with running(alice(layout, policy, source, staleness=1, external_groups=2)):
        await set_clock(layout, 0)
        await source.asked_to.wait()
        await until(lambda: phase_of(layout, "alice") == "training")
        assert not policy.trained
        source.may.set()
        await until(lambda: rows_of(layout, "alice"))
    assert len(policy.trained) == 1
    by_first_turn = [weights for _, weights, prompts in policy.asked if isinstance(prompts[0], str)]
    later = [weights for _, weights, prompts in policy.asked if isinstance(prompts[0], Dialogue)]
    assert {*by_first_turn[:2], *later[:4]} == {"fresh"}


async def test_a_judge_is_answered_with_a_whole_conversation(layout: Layout) -> None:
    origins = [Origin("bf", "tiny", 2**31 - 1 - round_, 0, "fake") for round_ in range(ROUNDS)]
    for round_, origin in enumerate(origins):
        prompt = fake_question(origin).prompt
        question = make_question(round_, prompt=prompt, origin=origin)
        put(layout.judge_question_file(round_, "alice"), encode(question))
    await play_to_the_end(layout, range(ROUNDS), alice(layout, Talking()))
    answers = [
        decode(layout.judge_answer_file(round_, "alice").read_bytes(), JudgeAnswer, "") for round_ in range(ROUNDS)
    ]
    for answer in answers:
        texts = [*(turn.response for turn in answer.turns or ()), answer.response]
        assert [turn.reply for turn in answer.turns or ()] == [reply_to(texts[:n]) for n in range(1, len(texts))]
        assert len(texts) == TURNS or reply_to(texts) is None
    assert any(answer.turns for answer in answers)
