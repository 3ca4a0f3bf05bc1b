"""Peers are drawn before they are looked at, and what comes of it is SAPO's sample of all informative groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations, permutations
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.algo.advantages import is_informative
from swarm.algo.drawing import FEWEST, NO_GROUP, Drawing, DrawnSample, NoGroup, Ranks, random_ranks
from swarm.types import ScoredGroup
from tests.unit.algo.factories import INFORMATIVE, UNINFORMATIVE, make_scored

Pool = Mapping[tuple[str, int], ScoredGroup]
SLOTS = 3
GOLDEN = [3726127191096224769, 14525065742118130826]
"""What the first version drew: nodes of one run have to go on drawing the same."""


def pool_of(kinds: Mapping[str, str]) -> Pool:
    """Peer -> a letter for each of its groups: `i` with an advantage, `u` without."""
    rewards = {"i": INFORMATIVE, "u": UNINFORMATIVE}
    return {
        (peer, slot): make_scored(peer, slot, rewards=rewards[kind])
        for peer, letters in kinds.items()
        for slot, kind in enumerate(letters)
    }


class Looking:
    """Gives what a pool holds, once it was asked for."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.seen: set[tuple[str, int]] = set()

    def result(self, peer: str, slot: int) -> ScoredGroup | NoGroup | None:
        return self.pool.get((peer, slot), NO_GROUP) if (peer, slot) in self.seen else None

    def through(self, drawing: Drawing[str]) -> DrawnSample:
        while wave := drawing.wanted(self.result):
            self.seen.update(wave)
        return drawing.sample(self.result)


def in_order(peers: Sequence[str], order: Sequence[int]) -> Ranks[str]:
    """Ranks that put the slots of these peers, counted one after the other, into this order."""
    slots = len(order) // len(peers)
    return lambda peer: [order.index(slots * peers.index(peer) + slot) for slot in range(slots)]


def seeded(seed: int, slots: int = SLOTS) -> Ranks[str]:
    ranks = random_ranks(seed, "test")
    return lambda peer: ranks(peer, slots)


places = st.tuples(st.sampled_from("abcdefgh"), st.integers(0, SLOTS - 1))
kinds = st.dictionaries(st.sampled_from("abcdefgh"), st.text("iu", max_size=SLOTS), max_size=8)


def draw(pool: Pool, count: int | None, seed: int, looking: Looking | None = None) -> DrawnSample:
    return (looking or Looking(pool)).through(Drawing({peer for peer, _ in pool}, seeded(seed), count))


# ── its distribution ────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("letters", [("iu", "i", "u"), ("ii", "ui"), ("iiu", "i"), ("uu", "i", "ii")])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_over_all_orders_every_set_of_j_informative_groups_comes_equally_often(
    letters: tuple[str, ...], count: int
) -> None:
    """Exactly: each order of the slots is as likely as any other, and all of them are gone through."""
    pool = pool_of(dict(zip("abc", letters, strict=False)))
    peers, slots = sorted({peer for peer, _ in pool}), max(map(len, letters))
    informative = sorted(place for place, scored in pool.items() if is_informative(scored.rewards))
    seen: Counter[frozenset[tuple[str, int]]] = Counter()
    for order in permutations(range(len(peers) * slots)):
        sample = Looking(pool).through(Drawing(peers, in_order(peers, order), count))
        seen[frozenset((s.group.peer_id, s.group.slot) for s in sample.informative[:count])] += 1
    sets = [frozenset(chosen) for chosen in combinations(informative, min(count, len(informative)))]
    assert set(seen) == set(sets)
    assert len(set(seen.values())) == 1


@pytest.mark.parametrize("letters", [("iu", "ii", "u"), ("ii", "ui"), ("iii", "u")])
def test_over_all_orders_what_is_said_of_the_pool_is_true_on_average(letters: tuple[str, ...]) -> None:
    """Exactly, before rounding; where there are more than r informative groups, so that nothing is counted out."""
    pool, slots = pool_of(dict(zip("abc", letters, strict=False))), max(map(len, letters))
    peers = sorted({peer for peer, _ in pool})
    informative, groups = list[Fraction](), list[Fraction]()
    for order in permutations(range(len(peers) * slots)):
        sample = Looking(pool).through(Drawing(peers, in_order(peers, order), 1))
        share = Fraction(sample.of, sample.slots - (len(sample.groups) - len(sample.judged)))
        informative.append(share * sum(is_informative(s.rewards) for s in sample.judged))
        groups.append(share * len(sample.judged))
    assert sum(informative) == len(informative) * "".join(letters).count("i")
    assert sum(groups) == len(groups) * len(pool)


@pytest.mark.parametrize(("letters", "judged"), [("ii", 2), ("iiu", 1)])
def test_a_pool_that_was_looked_through_is_judged_by_all_of_its_groups(letters: str, judged: int) -> None:
    order = in_order("a", range(len(letters)))
    sample = Looking(pool_of({"a": letters})).through(Drawing("a", order, 1))
    assert (len(sample.groups), len(sample.judged), sample.enough) == (2, judged, True)


def test_any_order_of_slots_is_as_likely() -> None:
    """Of one peer, and of several."""
    for places in ([("anna", 0), ("anna", 1), ("anna", 9), ("anna", 8)], [("a", 0), ("b", 0), ("c", 0), ("d", 3)]):
        seen: Counter[tuple[int, ...]] = Counter()
        for round_ in range(12_000):
            ranks = random_ranks(42, "external", "me", round_)
            found = [ranks(peer, 10)[slot] for peer, slot in places]
            seen[tuple(sorted(range(4), key=found.__getitem__))] += 1
        assert len(seen) == 24
        assert sum((count - 500) ** 2 / 500 for count in seen.values()) < 41.6  # 99 % quantile, 23 degrees of freedom


def test_ranks_differ_between_seeds_nodes_and_rounds_and_are_the_same_everywhere() -> None:
    made = [(42, "me", 0), (43, "me", 0), (42, "you", 0), (42, "me", 1)]
    found = [random_ranks(seed, "external", node, round_)("anna", 20) for seed, node, round_ in made]
    assert len(set(map(tuple, found))) == 4
    assert found[0][:2] == random_ranks(42, "external", "me", 0)("anna", 2) == GOLDEN


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.integers(0, 4), max_size=SLOTS)), st.integers(1, 5))
def test_slots_come_by_rank_then_name_then_number_however_few_are_walked_at_first(
    ranks: dict[str, list[int]], count: int
) -> None:
    order = sorted((rank, peer, slot) for peer, of_slots in ranks.items() for slot, rank in enumerate(of_slots))
    slots = [(peer, slot) for _, peer, slot in order]
    drawing = Drawing(ranks, ranks.__getitem__, count)
    few = drawing.wanted(lambda *_: None, slow=())
    assert few == slots[: max(count, FEWEST)]
    assert drawing.wanted(lambda *_: None, slow=slots) == slots
    assert drawing.wanted(lambda *_: None) == few
    assert drawing.sample(lambda *_: NO_GROUP).of == len(slots)


@given(kinds, st.integers(1, 8), st.integers(), st.sets(st.sampled_from("abcdefgh")))
def test_who_brings_nothing_of_use_changes_nothing(
    letters: dict[str, str], count: int, seed: int, bad: set[str]
) -> None:
    """Whose files are refused, and who publishes nothing: the same groups are trained on as without them."""
    good = pool_of({peer: kinds for peer, kinds in letters.items() if peer not in bad})
    drawing = Drawing(sorted({*letters, *bad}), seeded(seed), count)
    assert Looking(good).through(drawing).informative == draw(good, count, seed).informative


# ── what it costs ───────────────────────────────────────────────────────────────────────────────────────────────────
def test_of_a_thousand_peers_no_more_are_looked_at_than_of_ten() -> None:
    def looked_at(peers: int) -> float:
        pool = pool_of({f"{number:04}": "iui" for number in range(peers)})
        lookings = [Looking(pool) for _ in range(20)]
        for seed, looking in enumerate(lookings):
            draw(pool, 4, seed, looking)
        return fmean(len({peer for peer, _ in looking.seen}) for looking in lookings)

    assert looked_at(1_000) <= 2 * looked_at(10) < 2 * 10


@given(kinds, st.integers(1, 8), st.integers())
def test_nothing_is_looked_at_that_could_not_have_been_needed(letters: dict[str, str], count: int, seed: int) -> None:
    """One wave is asked for while what it finds may be missing: once enough is found, nothing more is."""
    pool = pool_of(letters)
    looking, drawing = Looking(pool), Drawing(sorted(letters), seeded(seed), count)
    while wave := drawing.wanted(looking.result):
        found = sum(is_informative(scored.rewards) for place in looking.seen if (scored := pool.get(place)))
        assert found < max(count, FEWEST)
        assert not looking.seen & set(wave)
        looking.seen.update(wave)
    assert len(looking.seen) == drawing.sample(looking.result).slots


def test_more_is_looked_at_meanwhile_where_some_is_slow() -> None:
    pool = pool_of(dict.fromkeys("abcdef", "i"))
    looking, drawing = Looking(pool), Drawing("abcdef", seeded(3, 1), 3)
    first = drawing.wanted(looking.result)
    looking.seen.update(first[1:])
    assert drawing.wanted(looking.result) == first[:1]
    more = drawing.wanted(looking.result, first)
    assert more[0] == first[0]
    assert len(more) == 2
    looking.seen.update(more[1:])
    assert drawing.wanted(looking.result, more) == first[:1]
    assert len(drawing.sample(looking.result).informative) == 3


# ── what comes of it ────────────────────────────────────────────────────────────────────────────────────────────────
@given(kinds, st.integers(1, 8), st.integers())
def test_enough_is_found_where_there_is_enough_and_else_all_of_it(
    letters: dict[str, str], count: int, seed: int
) -> None:
    sample = draw(pool_of(letters), count, seed)
    there = sum(of_peer.count("i") for of_peer in letters.values())
    assert sample.complete
    assert len(sample.informative) == min(there, max(count, FEWEST))
    assert sample.enough == (there >= max(count, FEWEST))
    assert sample.pool_groups >= len(sample.groups)
    assert sample.pool_informative >= len(sample.informative)
    if sample.slots == sample.of:
        assert (sample.pool_groups, sample.pool_informative) == (sum(map(len, letters.values())), there)


@given(kinds, st.integers(1, 8), st.integers(), st.sets(places))
def test_what_was_known_before_makes_no_difference(
    letters: dict[str, str], count: int, seed: int, known: set[tuple[str, int]]
) -> None:
    fresh, looking = Looking(pool_of(letters)), Looking(pool_of(letters))
    looking.seen = known
    one, other = (found.through(Drawing(sorted(letters), seeded(seed), count)) for found in (fresh, looking))
    assert one == other


def test_what_is_unknown_at_the_end_is_passed_over() -> None:
    pool = pool_of({"a": "ii", "b": "ii"})
    looking, drawing = Looking(pool), Drawing(["a", "b"], seeded(0, 2), 3)
    looking.seen = {("b", 0), ("b", 1)}
    sample = drawing.sample(looking.result)
    assert {scored.group.peer_id for scored in sample.groups} == {"b"}
    assert (sample.slots, sample.of, sample.enough, sample.complete) == (2, 4, False, False)
    assert (sample.pool_groups, sample.pool_informative) == (4, 4)


def test_where_groups_are_copied_the_draw_goes_on_until_enough_are_originals() -> None:
    pool = pool_of(dict.fromkeys("abcdef", "ii"))

    def of_one_peer_once(groups: list[ScoredGroup]) -> list[ScoredGroup]:
        return list({scored.group.peer_id: scored for scored in reversed(groups)}.values())[::-1]

    sample = Looking(pool).through(Drawing("abcdef", seeded(1, 2), 4, of_one_peer_once))
    assert len({scored.group.peer_id for scored in sample.groups}) == len(sample.groups) == 4


@given(
    st.dictionaries(st.sampled_from("abcd"), st.text("iu", min_size=SLOTS, max_size=SLOTS), min_size=1),
    st.integers(1, 5),
    st.integers(),
)
def test_a_draw_goes_on_until_enough_is_found_of_peers_that_give_no_more_than_their_share(
    letters: Mapping[str, str], count: int, seed: int
) -> None:
    pool = pool_of(letters)
    sample = Looking(pool).through(Drawing(sorted(letters), seeded(seed), count, most_of_peer=1))
    found = len({scored.group.peer_id for scored in sample.informative})
    there = sum("i" in of_peer for of_peer in letters.values())
    assert found == min(max(count, FEWEST), there)
    assert sample.enough == (there >= max(count, FEWEST))
    order = Looking(pool).through(Drawing(sorted(letters), seeded(seed), None)).groups
    assert sample.groups == order[: len(sample.groups)]
