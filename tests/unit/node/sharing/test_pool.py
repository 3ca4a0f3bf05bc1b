"""What is known of peers' groups, which of them are copies, and what they may take in memory."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.algo.drawing import NO_GROUP
from swarm.node.sharing.pool import GroupName, Pool, each_once, parse_names
from swarm.types import Completion, Origin, Question, RolloutGroup, RoundKey, ScoredGroup
from swarm.wire.codec import Claims

PEERS = ("abe", "bob", "carol")
R0 = RoundKey(0)


def scored(
    peer: str, slot: int, content: int, *, round_: int = 0, rewards: tuple[float, ...] = (0.0, 1.0)
) -> ScoredGroup:
    question = Question(f"question {content}?", Origin("bf", "tiny", content, 0, "0.1.25"))
    texts = (Completion(f"{content}", True), Completion("no", True))
    return ScoredGroup(RolloutGroup(peer, round_, 0, slot, question, texts), rewards, (True, True))


def at(round_: int, peer: str, slot: int) -> GroupName:
    return GroupName(RoundKey(round_), peer, slot)


CLAIMS = Claims(None, (None, None))


def pool_of(*files: list[ScoredGroup], most_bytes: int = 2**20) -> Pool:
    pool = Pool(most_bytes=most_bytes)
    for file in files:
        first = file[0].group
        pool.put(RoundKey(first.round, first.stage), first.peer_id, [(one.group, CLAIMS) for one in file])
    return pool


# ── copies ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_the_same_question_with_other_answers_is_no_copy() -> None:
    other = scored("bob", 0, 7)
    texts = (Completion("7", True), Completion("maybe", True))
    other = ScoredGroup(RolloutGroup("bob", 0, 0, 0, other.group.question, texts), other.rewards, other.answered)
    assert each_once([scored("abe", 0, 7), other]) == [scored("abe", 0, 7), other]


def test_groups_that_nobody_trains_on_are_not_compared() -> None:
    groups = [scored(peer, 0, 7, rewards=(0.0, 0.0)) for peer in PEERS]
    assert each_once(groups) == groups


@given(st.lists(st.tuples(st.sampled_from(PEERS), st.integers(0, 3)), max_size=8))
def test_of_the_same_groups_the_first_stays(made: list[tuple[str, int]]) -> None:
    groups = [scored(peer, slot, content) for slot, (peer, content) in enumerate(made)]
    first = {one.group.question.prompt: one for one in reversed(groups)}
    assert each_once(groups) == [one for one in groups if first[one.group.question.prompt] is one]


# ── what is known ───────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_slot_is_unknown_until_its_file_is_read_and_its_group_verified() -> None:
    one, other = scored("bob", 0, 7), scored("bob", 1, 8)
    pool = Pool(most_bytes=2**20)
    assert pool.found(at(0, "bob", 0)) is None
    pool.put(R0, "bob", [(one.group, CLAIMS), (other.group, CLAIMS)])
    assert pool.found(at(0, "bob", 0)) is None
    assert pool.found(at(0, "bob", 5)) is NO_GROUP, "the file has no such group"
    assert pool.unverified(R0, "bob", {1, 0, 5}) == [(one.group, CLAIMS), (other.group, CLAIMS)]
    pool.settle(at(0, "bob", 0), one)
    pool.settle(at(0, "bob", 1), None)
    assert pool.found(at(0, "bob", 0)) == one
    assert pool.found(at(0, "bob", 1)) is NO_GROUP, "it was refused"
    assert pool.unverified(R0, "bob", {0, 1}) == []


def test_a_file_that_is_emptied_holds_nothing_and_one_that_is_taken_out_may_come_again() -> None:
    one = scored("bob", 0, 7)
    pool = pool_of([one])
    pool.empty(R0, "bob")
    assert pool.found(at(0, "bob", 0)) is NO_GROUP
    pool.put(R0, "bob", [(one.group, CLAIMS)])
    assert pool.found(at(0, "bob", 0)) is NO_GROUP, "the first that came for it is what counts"
    pool.take_out(R0, "bob")
    assert not pool.has(R0, "bob")
    pool.put(R0, "bob", [(one.group, CLAIMS)])
    assert pool.unverified(R0, "bob", {0}) == [(one.group, CLAIMS)]


def test_of_what_nobody_can_learn_from_the_rewards_alone_stay() -> None:
    pool = pool_of([scored("bob", 0, 7)])
    pool.settle(at(0, "bob", 0), scored("bob", 0, 7, rewards=(0.0, 0.0)))
    found = pool.found(at(0, "bob", 0))
    assert isinstance(found, ScoredGroup)
    assert (found.rewards, found.group.completions, found.group.question.prompt) == ((0.0, 0.0), (), "")


def test_earlier_rounds_are_forgotten() -> None:
    pool = pool_of([scored("bob", 0, 7)], [scored("bob", 0, 7, round_=1)])
    pool.forget_before(RoundKey(1))
    assert (pool.has(R0, "bob"), pool.has(RoundKey(1), "bob")) == (False, True)
    pool.settle(at(0, "bob", 0), scored("bob", 0, 7))
    assert not pool.has(R0, "bob")


# ── what it may take in memory ──────────────────────────────────────────────────────────────────────────────────────
LIMIT = 2**16


def file_of(peer: str, characters: int, text: str = "x") -> list[tuple[RolloutGroup, Claims]]:
    texts = (Completion(f"{peer} {text * characters}", True), Completion("no", True))
    return [(msgspec.structs.replace(scored(peer, 0, 7).group, completions=texts), CLAIMS)]


def held(pool: Pool, peers: list[str]) -> list[str]:
    return [peer for peer in peers if pool.unverified(R0, peer, {0})]


@given(st.permutations([900, 5_000, 20_000, 30_000, 50_000, 70_000]))
def test_the_smallest_files_that_fit_stay_in_whatever_order_they_came(sizes: list[int]) -> None:
    pool, gone = Pool(most_bytes=LIMIT), []
    for size in sizes:
        gone += pool.put(RoundKey(0), f"peer-{size}", file_of(f"peer-{size}", size))
    assert sorted(held(pool, [f"peer-{size}" for size in sizes])) == [
        "peer-20000",
        "peer-30000",
        "peer-5000",
        "peer-900",
    ]
    assert sorted(gone) == [(RoundKey(0), "peer-50000"), (RoundKey(0), "peer-70000")]
    assert pool.put(RoundKey(0), "peer-50000", file_of("peer-50000", 1)) == []
    assert "peer-50000" not in held(pool, ["peer-50000"]), "the first that came for it is what counts"


def test_a_text_counts_as_many_bytes_as_it_takes_in_memory() -> None:
    pool = Pool(most_bytes=LIMIT)
    assert pool.put(RoundKey(0), "plain", file_of("plain", 20_000)) == []
    emoji = file_of("emoji", 20_000, "\N{GRINNING FACE}")
    assert pool.put(RoundKey(0), "emoji", emoji) == [(RoundKey(0), "emoji")]


def test_what_is_verified_and_of_no_use_makes_room() -> None:
    pool = Pool(most_bytes=LIMIT)
    pool.put(R0, "abe", file_of("abe", 50_000))
    pool.settle(at(0, "abe", 0), scored("abe", 0, 7, rewards=(0.0, 0.0)))
    assert pool.put(R0, "bob", file_of("bob", 50_000)) == []


@pytest.mark.parametrize("count", [64, 1024])
def test_many_short_completions_count_as_well(count: int) -> None:
    one = scored("abe", 0, 7, rewards=(0.0, 1.0) * (count // 2))
    texts = tuple(Completion("", True) for _ in range(count))
    many = [(msgspec.structs.replace(one.group, completions=texts), CLAIMS)]
    assert bool(Pool(most_bytes=LIMIT).put(RoundKey(0), "abe", many)) is (count == 1024)


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_what_is_no_name_is_left_out_of_what_a_row_says() -> None:
    strange = ["", "bob/3/0", "bob/3/0/1/2", "../3/0/1", "bob/-3/0/1", "bob/3/0/" + "9" * 5000, "bob/\u0663/0/1"]
    assert parse_names([*strange, "bob/3/0/1"]) == [GroupName(RoundKey(3), "bob", 1)]
