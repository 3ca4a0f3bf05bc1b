"""Nodes with mixtures of their own: what they ask, publish and learn from, and peers that change theirs."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from swarm.errors import ExperimentError
from swarm.records.files import read_peer
from swarm.types import RoundKey
from swarm.wire.codec import encode
from tests.layout import Layout
from tests.unit.node.factories import UNIVERSE, make_peer, make_rollouts, put, put_reward
from tests.unit.node.nodes import (
    make_coordinator,
    make_worker,
    play_to_the_end,
    rollouts_of,
    rows_of,
    run_all,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient_workers")]

ROUNDS = 4


async def test_specialists_ask_their_own_tasks_say_so_and_learn_from_each_other(layout: Layout) -> None:
    codes = await run_all(
        make_coordinator(layout, expected_workers=2, max_rounds=ROUNDS),
        make_worker(layout, "alice", mixture=("bf",), max_rounds=ROUNDS),
        make_worker(layout, "bob", mixture=("arc_1d=3+base_conversion",), max_rounds=ROUNDS),
    )
    assert codes == [0, 0, 0]
    for node, mixture in (("alice", {"bf": 1.0}), ("bob", {"arc_1d": 3.0, "base_conversion": 1.0})):
        registered = read_peer(layout.run, node)
        assert registered
        assert registered.mixture == mixture
        for round_ in range(ROUNDS):
            file = rollouts_of(layout, round_, node)
            assert file.mixture == mixture
            assert {group.task for group in file.groups.values()} <= mixture.keys()
        for row in rows_of(layout, node):
            assert row.task_rewards.keys() <= mixture.keys()
            assert not row.refused_files
        assert sum(row.external_groups for row in rows_of(layout, node)) > ROUNDS


def ghost(layout: Layout, mixtures: Sequence[str]) -> None:
    """A peer that asks one mixture in each round, and registers with the first."""
    of = [UNIVERSE.mixture_of({task: 1.0}) for task in mixtures]
    put(layout.peer_file("bob"), encode(make_peer("bob", last_seen=time.time(), mixture=of[0].weights)))
    for round_, mixture in enumerate(of):
        key = RoundKey(round_)
        put(layout.rollout_file(key, "bob"), encode(make_rollouts("bob", key, mixture=mixture)))
        put_reward(layout, key, "bob")


async def test_a_node_that_comes_back_with_another_mixture_is_told_that_its_peers_would_refuse_it(
    layout: Layout,
) -> None:
    asks_bf = make_worker(layout, "alice", mixture=("bf",), max_rounds=1, clock="own", external_groups=0)
    assert await run_all(asks_bf) == [0]
    with pytest.raises(ExperimentError, match=r"alice asked 'bf' in this experiment, and is to ask all tasks now"):
        await make_worker(layout, "alice").run()


async def test_a_peer_that_changes_its_mixture_between_rounds_is_refused_from_then_on(layout: Layout) -> None:
    ghost(layout, ["bf", "bf", "arc_1d", "bf"])
    await play_to_the_end(layout, range(ROUNDS), make_worker(layout, "alice", liveness_timeout=60.0))
    rows = rows_of(layout, "alice")
    assert [row.external_groups > 0 for row in rows] == [True, True, False, True]
    assert [row.refused_files for row in rows] == [{}, {}, {"other_mixture": 1}, {}]
