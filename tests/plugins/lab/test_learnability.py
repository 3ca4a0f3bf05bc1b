"""Peers' groups drawn by what the own policy can learn from them; peers that come late."""

from __future__ import annotations

from collections import Counter
from random import Random

from swarm.algo.registry import sampler
from swarm.algo.sampling import OwnRewards, knowing, sample_external, whole_pool
from swarm.config.own_code import OwnCode
from swarm.plugins.lab.learnability import learnability
from tests.unit.algo.factories import UNINFORMATIVE, make_rule, make_scored, make_seen

TASKS = ("known", "half", "unknown", "never-asked")
REWARDS = {"known": 1.0, "half": 0.5, "unknown": 0.0}
POOL = [make_scored("anna", slot, task=task) for slot, task in enumerate(TASKS)]


def drawn_first(rewards: dict[str, float], times: int = 4000) -> Counter[str]:
    """How often the group of a task is the one that is drawn."""
    rng = Random(1)
    return Counter(learnability(POOL, 1, rng, rewards)[0].group.question.task for _ in range(times))


def test_a_group_is_drawn_as_often_as_its_task_has_left_to_learn_squared() -> None:
    often = drawn_first(REWARDS)
    assert often["known"] < 20
    assert 3.3 < often["unknown"] / often["half"] < 4.8
    assert 0.9 < often["never-asked"] / often["unknown"] < 1.1


def test_what_is_known_is_drawn_where_nothing_else_is_there_and_rewards_beyond_1_are_as_1() -> None:
    pool = [*POOL[:1], make_scored("bob", 0, task="unknown", rewards=UNINFORMATIVE)]
    chooses = knowing(learnability, OwnRewards())
    assert [one.group.question.task for one in sample_external(pool, 2, Random(0), chooses)] == ["known"]
    assert drawn_first({"known": 3.0, "half": -1.0}, 400)["known"] < 10


def test_it_is_named_as_a_function_of_ones_own_and_told_what_the_own_questions_earned() -> None:
    named, own = sampler(OwnCode("swarm.plugins.lab.learnability:learnability")), OwnRewards()
    assert named is not None
    for reward in (0.0, *[1.0] * 60):
        own.observe({"known": reward, "half": 0.5})
    own.observe({})
    assert own.means["known"] > 0.99
    assert own.means["half"] == 0.5
    tasks = Counter(knowing(named, own)(POOL, 1, Random(n))[0].group.question.task for n in range(400))
    assert tasks["known"] < 10 < tasks["half"] < tasks["unknown"]
    assert knowing(whole_pool, own) is whole_pool


def test_late_peers_are_heard_from_round_50_on() -> None:
    rule = make_rule(OwnCode("swarm.plugins.lab.control_rules:Late"), total=24, initial_j=8)
    splits = []
    for round_ in range(52):
        splits.append(rule.wanted(Random(0)))
        rule = rule.observe(make_seen(round_))
    assert splits == [0.0] * 50 + [8.0] * 2
