"""Copies are told from originals, and the order of arrival makes no difference."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.node.sharing.pool import Pool
from swarm.node.sharing.trained_groups import GroupName, name_of
from swarm.types import Completion, Origin, Question, RolloutGroup, RoundKey, ScoredGroup

PEERS = ("abe", "bob", "carol")


def scored(
    peer: str, slot: int, content: int, *, round_: int = 0, rewards: tuple[float, ...] = (0.0, 1.0)
) -> ScoredGroup:
    question = Question(f"question {content}?", Origin("bf", "tiny", content, 0, "0.1.25"))
    texts = (Completion(f"{content}", True), Completion("no", True))
    return ScoredGroup(RolloutGroup(peer, round_, 0, slot, question, texts), rewards, (True, True))


def at(round_: int, peer: str, slot: int) -> GroupName:
    return GroupName(RoundKey(round_), peer, slot)


def pool_of(*files: list[ScoredGroup], owners: frozenset[GroupName] = frozenset()) -> Pool:
    pool = Pool(lambda group: name_of(group) in owners, most_bytes=2**20)
    for file in files:
        first = file[0].group
        pool.put(RoundKey(first.round, first.stage), first.peer_id, file)
    return pool


def asked(pool: Pool, *rounds: int) -> tuple[list[GroupName], list[GroupName]]:
    groups, copies = pool.groups([(peer, RoundKey(round_)) for peer in PEERS for round_ in rounds or (0,)])
    return [name_of(group.group) for group in groups], list(map(name_of, copies))


def test_of_two_equal_groups_the_one_that_was_drawn_counts() -> None:
    pool = pool_of([scored("abe", 0, 7)], [scored("bob", 0, 7)], owners=frozenset({at(0, "bob", 0)}))
    assert asked(pool) == ([at(0, "bob", 0)], [at(0, "abe", 0)])


def test_where_none_was_drawn_the_lowest_place_counts() -> None:
    pool = pool_of([scored("bob", 0, 7), scored("bob", 1, 7)], [scored("carol", 0, 7)])
    assert asked(pool) == (
        [at(0, "bob", 0)],
        [at(0, "bob", 1), at(0, "carol", 0)],
    )


def test_equal_groups_that_were_both_drawn_are_chance_and_both_count() -> None:
    owners = frozenset({at(0, "abe", 0), at(0, "bob", 3)})
    pool = pool_of([scored("abe", 0, 7)], [scored("bob", 3, 7)], owners=owners)
    assert asked(pool) == ([at(0, "abe", 0), at(0, "bob", 3)], [])


def test_a_copy_of_an_older_round_is_found_where_both_are_asked_for() -> None:
    pool = pool_of([scored("abe", 0, 7, round_=0)], [scored("bob", 0, 7, round_=1)])
    assert asked(pool, 0, 1) == ([at(0, "abe", 0)], [at(1, "bob", 0)])
    assert asked(pool, 1) == ([at(1, "bob", 0)], [])


def test_the_same_question_with_other_answers_is_no_copy() -> None:
    other = scored("bob", 0, 7)
    texts = (Completion("7", True), Completion("maybe", True))
    other = ScoredGroup(RolloutGroup("bob", 0, 0, 0, other.group.question, texts), other.rewards, other.answered)
    assert asked(pool_of([scored("abe", 0, 7)], [other]))[1] == []


def test_uninformative_groups_are_compared_though_their_texts_are_gone() -> None:
    equal = {"rewards": (0.0, 0.0)}
    pool = pool_of([scored("abe", 0, 7, **equal)], [scored("bob", 0, 7, **equal)], [scored("carol", 0, 8, **equal)])
    assert asked(pool) == (
        [at(0, "abe", 0), at(0, "carol", 0)],
        [at(0, "bob", 0)],
    )


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[list[ScoredGroup]], list[list[ScoredGroup]], frozenset[GroupName]]:
    """Files of some peers and rounds that copy each other; and the same in another order, some more than once."""
    contents = st.lists(st.integers(0, 3), min_size=1, max_size=4)
    stages = draw(st.sets(st.tuples(st.sampled_from(PEERS), st.integers(0, 2)), min_size=1))
    files = [
        [scored(peer, slot, content, round_=round_) for slot, content in enumerate(draw(contents))]
        for peer, round_ in sorted(stages)
    ]
    places = [name_of(group.group) for file in files for group in file]
    owners = frozenset(draw(st.sets(st.sampled_from(places))))
    again = draw(st.lists(st.sampled_from(files), max_size=6))
    return files, draw(st.permutations([*files, *again])), owners


@given(arrivals(), st.permutations([(peer, RoundKey(round_)) for peer in PEERS for round_ in range(3)]), st.data())
def test_any_order_of_arrival_and_any_repetition_give_the_same_pool(
    case: tuple[list[list[ScoredGroup]], list[list[ScoredGroup]], frozenset[GroupName]],
    sources: list[tuple[str, RoundKey]],
    data: st.DataObject,
) -> None:
    files, shuffled, owners = case
    one, other = pool_of(*files, owners=owners), pool_of(*shuffled, owners=owners)
    if data.draw(st.booleans()):
        other.groups(sources[:2])  # to ask changes nothing
    originals, copies = one.groups(sources)
    assert other.groups([*reversed(sources), sources[0]]) == (originals, copies)
    assert sorted(name_of(s.group) for s in originals) == [name_of(s.group) for s in originals]
    assert len(originals) + len(copies) == sum(map(len, files)), "nothing is lost"
    for copy in copies:
        assert name_of(copy) not in owners
        assert any(s.group.question == copy.question for s in originals), "an original of it counts"


# ── what it may take in memory ──────────────────────────────────────────────────────────────────────────────────────
LIMIT = 2**16


def file_of(peer: str, characters: int, text: str = "x") -> list[ScoredGroup]:
    one = scored(peer, 0, 7)
    texts = (Completion(f"{peer} {text * characters}", True), Completion("no", True))
    return [msgspec.structs.replace(one, group=msgspec.structs.replace(one.group, completions=texts))]


def held(pool: Pool, peers: list[str]) -> list[str]:
    groups, _ = pool.groups([(peer, RoundKey(0)) for peer in peers])
    return [group.group.peer_id for group in groups]


@given(st.permutations([900, 5_000, 20_000, 30_000, 50_000, 70_000]))
def test_the_smallest_files_that_fit_stay_in_whatever_order_they_came(sizes: list[int]) -> None:
    pool, gone = Pool(lambda _: False, most_bytes=LIMIT), []
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
    pool = Pool(lambda _: False, most_bytes=LIMIT)
    assert pool.put(RoundKey(0), "plain", file_of("plain", 20_000)) == []
    emoji = file_of("emoji", 20_000, "\N{GRINNING FACE}")
    assert pool.put(RoundKey(0), "emoji", emoji) == [(RoundKey(0), "emoji")]


def test_rounds_that_are_forgotten_make_room() -> None:
    pool = Pool(lambda _: False, most_bytes=LIMIT)
    pool.put(RoundKey(0), "abe", file_of("abe", 50_000))
    pool.forget_before(RoundKey(1))
    assert pool.put(RoundKey(1), "bob", file_of("bob", 50_000)) == []


@pytest.mark.parametrize("count", [64, 1024])
def test_many_short_completions_count_as_well(count: int) -> None:
    one = scored("abe", 0, 7, rewards=(0.0, 1.0) * (count // 2))
    texts = tuple(Completion("", True) for _ in range(count))
    many = [msgspec.structs.replace(one, group=msgspec.structs.replace(one.group, completions=texts))]
    assert bool(Pool(lambda _: False, most_bytes=LIMIT).put(RoundKey(0), "abe", many)) is (count == 1024)
