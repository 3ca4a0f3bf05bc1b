"""Which rollout groups are shown, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.records.groups import LONGEST_TEXT, Learner, WantedGroups, advantages_of, read_groups
from swarm.records.janitor import Janitor, Rules
from swarm.types import RoundKey
from swarm.wire.messages import GroupInfo, PolicyInfo, RolloutEntry
from swarm.wire.turns import TurnEntry
from tests.layout import Layout
from tests.objects import KINDS, bounded, put
from tests.unit.views.factories import add_row, append, make_experiment, make_rollouts, run_of, write


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return make_experiment(tmp_path)


def groups_of(layout: Layout, most: int = 100, **wanted: object) -> list[str]:
    return [group.name for group in read_groups(run_of(layout), WantedGroups(**wanted), most).groups]  # type: ignore[arg-type]


def test_groups_are_chosen_by_round_stage_node_and_task(layout: Layout) -> None:
    write(layout.rollout_file(RoundKey(1, 1), "bob"), make_rollouts("bob", RoundKey(1, 1)))
    of_bob = groups_of(layout, rounds=frozenset({0, 1}), nodes=frozenset({"bob"}))
    assert of_bob == ["bob/0/0/0", "bob/1/0/0", "bob/1/1/0"]
    assert groups_of(layout, rounds=frozenset({1}), stages=frozenset({1})) == ["bob/1/1/0"]
    assert groups_of(layout, tasks=("basic*",)) == ["alice/2/0/0", "bob/2/0/0"]
    assert groups_of(layout, tasks=("chess",)) == []


def test_of_more_than_are_asked_for_the_rest_is_counted(tmp_path: Path) -> None:
    found = read_groups(run_of(make_experiment(tmp_path)), WantedGroups(), 1)
    assert ([group.node for group in found.groups], found.more, found.rounds) == (["alice"], 1, (0, 2))


def test_the_latest_round_with_groups_of_the_node_is_looked_for(layout: Layout) -> None:
    layout.rollout_file(RoundKey(2), "bob").unlink()
    assert groups_of(layout, nodes=frozenset({"bob"})) == ["bob/1/0/0"]


def test_a_group_says_what_was_asked_answered_and_claimed(layout: Layout) -> None:
    policy = PolicyInfo(model="tiny-qwen2", rounds_trained=2, licence="CC0-1.0")
    write(layout.rollout_file(RoundKey(2), "alice"), make_rollouts("alice", RoundKey(2), policy=policy))
    group = read_groups(run_of(layout), WantedGroups(nodes=frozenset({"alice"})), 1).groups[0]
    assert (group.question, group.answer, group.task) == ("1 + 1?", "2", "basic_arithmetic")
    assert (group.model, group.rounds_trained, group.licence) == ("tiny-qwen2", 2, "CC0-1.0")
    assert [(c.response, c.claimed_reward, c.advantage) for c in group.completions] == [
        ("<answer>2</answer>", 1.0, 1.0),
        ("3", 0.0, -1.0),
    ]


def test_a_conversation_has_its_earlier_turns(layout: Layout) -> None:
    said = RolloutEntry(prompt="q", response="last", turns=[TurnEntry(response="first", reply="no")])
    file = make_rollouts("alice", RoundKey(2), rollouts={"0": [said, said]})
    write(layout.rollout_file(RoundKey(2), "alice"), file)
    (group,) = read_groups(run_of(layout), WantedGroups(nodes=frozenset({"alice"})), 1).groups
    assert [(turn.response, turn.reply) for turn in group.completions[0].turns] == [("first", "no")]


def test_who_trained_on_a_group_is_what_rows_say(layout: Layout) -> None:
    for number, named in ((2, ["alice/2/0/0", "alice/2/0/00"]), (3, ["alice/2/0/0"]), (3, ["alice/2/0/0"])):
        add_row(layout, "bob", number, trained_on=named)
    append(layout.metrics_file("bob"), b'no row "alice/2/0/0"')
    alice, bob = read_groups(run_of(layout), WantedGroups(), 9).groups
    assert alice.trained_on == (Learner("bob", 2), Learner("bob", 3))
    assert bob.trained_on == ()


def test_archived_rollouts_are_found(layout: Layout) -> None:
    rules = Rules(archive=True, most_files=10, most_bytes=10**6)
    Janitor(layout.run, "alice", rules, lambda: 0.0).clean(3, ("alice", "bob"))
    assert not layout.rollout_file(RoundKey(2), "alice").exists()
    assert groups_of(layout) == ["alice/2/0/0", "bob/2/0/0"]
    assert groups_of(layout, rounds=frozenset({0})) == ["alice/0/0/0", "bob/0/0/0"]


def test_a_round_that_the_clock_has_not_reached_is_not_the_latest(layout: Layout) -> None:
    write(layout.rollout_file(RoundKey(999_999), "eve"), make_rollouts("eve", RoundKey(999_999)))
    assert groups_of(layout) == ["alice/2/0/0", "bob/2/0/0"]


def test_a_file_that_speaks_for_another_node_is_refused_and_named(layout: Layout) -> None:
    write(layout.rollout_file(RoundKey(2), "eve"), make_rollouts("bob", RoundKey(2)))
    found = read_groups(run_of(layout), WantedGroups(), 9)
    assert [group.node for group in found.groups] == ["alice", "bob"]
    assert "bob" in found.refused["rollouts/round_2/stage_0/eve.json"]


@pytest.mark.parametrize("kind", KINDS)
def test_odd_objects_hide_nobodys_groups(kind: str, tmp_path: Path) -> None:
    layout, outside = make_experiment(tmp_path / "place"), tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    put(kind, layout.rollout_file(RoundKey(2), "alice"), outside)
    put(kind, layout.metrics_file("alice"), outside)
    with bounded():
        assert groups_of(layout) == ["bob/2/0/0"]


def test_texts_of_any_length_are_cut_and_claims_beyond_the_full_reward_are_none(layout: Layout) -> None:
    long = "x" * (LONGEST_TEXT + 7)
    entries = [RolloutEntry(prompt=long, response=text, reward=r) for text, r in ((long, 1e300), ("", 1.0))]
    groups = {"0": GroupInfo(task="t" * 1000, answer=long)}
    file = make_rollouts("alice", RoundKey(2), rollouts={"0": entries, "junk": entries}, groups=groups)
    write(layout.rollout_file(RoundKey(2), "alice"), file)
    (group,) = read_groups(run_of(layout), WantedGroups(nodes=frozenset({"alice"})), 9).groups
    assert (len(group.question), group.cut, len(group.task)) == (LONGEST_TEXT, 7, 80)
    first, second = group.completions
    assert (len(first.response), first.cut, first.claimed_reward, first.advantage) == (LONGEST_TEXT, 7, None, None)
    assert (second.claimed_reward, second.advantage) == (1.0, None)


def test_advantages_are_by_the_runs_own_scaling(tmp_path: Path) -> None:
    assert advantages_of([1.0, 0.0], "none") == [0.5, -0.5]
    assert advantages_of([1.0, 0.0], "my.module:scaling"[:0]) == [None, None]
    assert advantages_of([1.0, None], "std") == [None, None]
    assert advantages_of([1.0, 1.0], "std") == [0.0, 0.0]
    layout = make_experiment(tmp_path)
    layout.root.joinpath("experiment.json").write_bytes(
        b'{"experiment_name":"exp","created_at":1,"created_by":"clock","identity":{"advantage_scaling":"none"}}'
    )
    assert read_groups(run_of(layout), WantedGroups(), 1).groups[0].completions[0].advantage == 0.5
