"""No group is trained on twice."""

from __future__ import annotations

from swarm.node.sharing.pool import GroupName, TrainedGroups, name_of, parse_names
from swarm.types import RoundKey, ScoredGroup
from swarm.wire.codec import to_groups
from swarm.wire.messages import MetricsRow
from tests.unit.node.factories import make_rollouts


def pool_of(peer: str, *rounds: int) -> list[ScoredGroup]:
    files = [(make_rollouts(peer, RoundKey(round_)), RoundKey(round_)) for round_ in rounds]
    groups = [group for file, key in files for group in to_groups(file, peer, key)]
    return [ScoredGroup(group, (1.0, 0.0), (True, True)) for group in groups]


def row_with(*trained_on: str) -> MetricsRow:
    return MetricsRow(
        timestamp=1.0,
        round=4,
        stage=0,
        node_id="alice",
        experiment="exp",
        my_reward=0.5,
        total_agents=1,
        trained_on=list(trained_on),
    )


def test_a_group_that_was_trained_on_is_remembered() -> None:
    trained, pool = TrainedGroups(), pool_of("bob", 3)
    trained.add(pool[:1])
    assert trained.names == {GroupName(RoundKey(3), "bob", 0)}, "no other slot, peer or round"


def test_the_metrics_rows_tell_it_to_a_node_that_was_started_again() -> None:
    trained, pool = TrainedGroups(), pool_of("bob", 3)
    trained.recall([row_with(*(str(name_of(scored.group)) for scored in pool), "no such name", "bob/x/0/0")])
    assert trained.names == {name_of(scored.group) for scored in pool}


def test_what_cannot_come_again_is_forgotten() -> None:
    trained, pool = TrainedGroups(), pool_of("bob", 3, 4)
    trained.add(pool)
    trained.forget_before(4)
    assert {name.key.round for name in trained.names} == {4}


def test_names_are_those_of_the_metrics_column() -> None:
    assert str(name_of(pool_of("bob", 3)[1].group)) == "bob/3/0/1"


def test_what_is_no_name_is_left_out_of_what_a_row_says() -> None:
    strange = ["", "bob/3/0", "bob/3/0/1/2", "../3/0/1", "bob/-3/0/1", "bob/3/0/" + "9" * 5000, "bob/\u0663/0/1"]
    assert parse_names([*strange, "bob/3/0/1"]) == [GroupName(RoundKey(3), "bob", 1)]
