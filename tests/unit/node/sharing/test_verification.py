"""This node's own verdict, and the publisher's claims held against it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from swarm.errors import ProtocolError
from swarm.node.sharing.verification import (
    GROUPS_AT_ONCE,
    HONEST_SHARE,
    MOST_KILLED,
    TEXTS_AT_ONCE,
    GroupVerdict,
    verify,
)
from swarm.tasks.scoring import GroupScore
from swarm.types import Origin, RolloutGroup, RoundKey
from swarm.wire.codec import Claims, to_claims, to_groups
from tests.unit.node.factories import FakeTaskSource, fake_rewards, make_rollouts

pytestmark = pytest.mark.anyio
R0 = RoundKey(0)


class Costly(FakeTaskSource):
    """Says what so many answers cost that are scored at once."""

    def __init__(self, cost: Callable[[int], dict[str, Any]]) -> None:
        super().__init__()
        self._cost = cost
        self.asked_at_once: list[int] = []

    def judged(self, origin: Origin, score: GroupScore) -> GroupScore:
        self.asked_at_once.append(len(score.rewards))
        return msgspec.structs.replace(score, **self._cost(len(score.rewards)))


def file_of(groups: int, size: int = 4) -> tuple[list[RolloutGroup], list[Claims]]:
    file = make_rollouts("bob", R0, groups=groups, size=size)
    return to_groups(file, "bob", R0), to_claims(file)


async def verdicts_of(
    source: FakeTaskSource, groups: list[RolloutGroup], claims: list[Claims], *, trusting: bool = True
) -> list[list[GroupVerdict]]:
    return [part async for part in verify(source, groups, claims, trusting=trusting)]


@pytest.mark.parametrize(("trusting", "sizes"), [(True, [8, 8, 4]), (False, [1, 2, 4, 8, 5])])
async def test_a_file_of_a_peer_without_a_record_begins_with_one_group(trusting: bool, sizes: list[int]) -> None:
    parts = await verdicts_of(FakeTaskSource(), *file_of(20), trusting=trusting)
    assert list(map(len, parts)) == sizes
    assert max(sizes) <= GROUPS_AT_ONCE
    assert [v.scored.group.slot for part in parts for v in part if v.scored] == list(range(20))


@pytest.mark.parametrize("size", [2, TEXTS_AT_ONCE, TEXTS_AT_ONCE + 1, 100])
async def test_groups_of_any_size_get_one_reward_per_completion(size: int) -> None:
    groups, claims = file_of(2, size)
    (part,) = await verdicts_of(FakeTaskSource(), groups, claims)
    for group, verdict in zip(groups, part, strict=True):
        assert verdict.scored is not None
        assert verdict.scored.rewards == fake_rewards([c.text for c in group.completions])
        assert verdict.false_claims == 0


async def test_of_a_huge_poisonous_group_no_more_is_tried_than_a_few() -> None:
    source = Costly(lambda texts: {"killed": texts})
    with pytest.raises(ProtocolError, match="scorer_abuse"):
        await verdicts_of(source, *file_of(3, 1000), trusting=False)
    assert sum(source.asked_at_once) == TEXTS_AT_ONCE
    assert TEXTS_AT_ONCE < 3 * MOST_KILLED


async def test_what_slow_answers_take_is_counted_over_all_groups_of_a_file() -> None:
    """Each group has an answer that takes most of its time, and comes to an end."""
    source = Costly(lambda _: {"slow": 0.87})
    with pytest.raises(ProtocolError, match="scorer_abuse"):
        await verdicts_of(source, *file_of(64), trusting=False)
    free = HONEST_SHARE * 4
    assert len(source.asked_at_once) == MOST_KILLED // (0.87 - free) + 1, "0.2 s of a group of four are free"


async def test_what_honest_answers_to_an_infinite_sum_take_is_never_too_much() -> None:
    """As it was measured: 0.035 s an answer."""
    parts = await verdicts_of(Costly(lambda texts: {"slow": 0.035 * texts}), *file_of(64, 64), trusting=False)
    assert sum(map(len, parts)) == 64


async def test_what_was_killed_before_a_group_was_refused_counts_against_its_file() -> None:
    def refuses_in_the_end(texts: int) -> dict[str, Any]:
        """A whole request after the one in which some answers had to be killed."""
        if texts < TEXTS_AT_ONCE:
            raise ProtocolError("reply_mismatch", "", killed=1)
        return {"killed": 2}

    source = Costly(refuses_in_the_end)
    with pytest.raises(ProtocolError, match="scorer_abuse: its answers cost as much as 9"):
        await verdicts_of(source, *file_of(64, TEXTS_AT_ONCE + 1), trusting=False)
    assert source.asked_at_once == [TEXTS_AT_ONCE, 1] * 3


@pytest.mark.parametrize(
    ("claimed", "false"),
    [((1.0, 0.0), 0), ((None, None), 0), ((1.0 + 9e-7, 0.0), 0), ((1.0 + 2e-6, 0.0), 1), ((0.0, 1.0), 2)],
)
async def test_claimed_rewards_are_held_against_the_own_ones(claimed: tuple[float | None, ...], false: int) -> None:
    groups, (claims,) = file_of(1, 40)
    texts = [next(c for c in groups[0].completions if fake_rewards([c.text]) == (own,)) for own in (1.0, 0.0)]
    group = RolloutGroup("bob", 0, 0, 0, groups[0].question, tuple(texts))
    ((verdict,),) = await verdicts_of(FakeTaskSource(), [group], [Claims(claims.answer, claimed)])
    assert verdict.false_claims == false
    assert verdict.scored is not None
    assert verdict.scored.rewards == (1.0, 0.0)


@pytest.mark.parametrize(("answer", "refused"), [(None, False), ("true", False), ("false", True), ("", True)])
async def test_a_published_answer_has_to_be_the_true_one_where_there_is_one(answer: str | None, refused: bool) -> None:
    file = make_rollouts("bob", R0, groups=1)
    if answer != "true":
        file.groups["0"].answer = answer
    ((verdict,),) = await verdicts_of(FakeTaskSource(), to_groups(file, "bob", R0), to_claims(file))
    assert (verdict.scored is None) == refused
    assert (verdict.refusal.reason if verdict.refusal else "") == ("false_answer" if refused else "")
