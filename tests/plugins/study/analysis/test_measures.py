"""What a run came to, against numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.plugins.study.analysis.by_model import rewards_by_model, weaker_over_stronger
from swarm.plugins.study.analysis.curves import RUN
from swarm.plugins.study.analysis.judged import pass_at_1
from swarm.plugins.study.analysis.measures import (
    agent_average,
    as_of_equal_sizes,
    oscillation,
    rounds_to_threshold,
    totals,
)
from swarm.plugins.study.budget import said_of_sizes, unequal
from swarm.plugins.study.measures import MEASURES, TESTED
from swarm.plugins.study.record import ConfigurationRecord, StudyRecord
from tests.plugins.study.analysis.frames_by_hand import make_curve, make_judged, make_metrics, make_record

curves = st.lists(st.integers(0, 100).map(lambda percent: percent / 100), min_size=1, max_size=40)


def test_totals_are_sums_over_nodes_and_rounds() -> None:
    (row,) = totals(make_metrics([[0.1, 0.3], [0.2, 0.6]])).to_dict("records")
    assert row["cumulative_reward"] == pytest.approx(1.2)
    assert (row["rounds"], row["nodes"]) == (2, 2)
    assert (row["bytes_published"], row["bytes_fetched"]) == (40, 80)
    assert (row["tokens_generated"], row["tokens_trained"], row["external_groups"]) == (400, 200, 16)
    assert row["wall_seconds"] == pytest.approx(8)
    assert math.isnan(row["mean_adaptive_J"])
    nothing = make_metrics([[0.1]]).iloc[:0]
    assert totals(nothing).empty
    assert oscillation(agent_average(nothing)).empty
    assert rounds_to_threshold(agent_average(nothing), [0.5]).empty


def test_start_and_end_are_means_over_the_nodes_of_the_first_and_the_last_rounds() -> None:
    rewards = [[0.0, 0.2], [0.2, 0.2], [0.3, 0.3]] + [[0.5, 0.5]] * 5 + [[0.7, 0.9]] * 5
    (row,) = totals(make_metrics(rewards)).to_dict("records")
    assert row["starting_reward"] == pytest.approx(0.1)
    assert row["starting_reward_3"] == pytest.approx((0.1 + 0.2 + 0.3) / 3)
    assert row["final_reward"] == pytest.approx((0.5 + 0.8) / 2)


def test_the_reward_given_tagged_counts_each_tagged_completion_once() -> None:
    """Of ten completions per node and round, 1, 8, 0 and 1 are tagged: 10 in all, which earned 1 + 2 + 0 + 0."""
    metrics = make_metrics([[0.1, 0.2], [0.0, 0.0]]).assign(answer_tag_rate=[0.1, 0.8, 0.0, 0.1])
    (row,) = totals(metrics).to_dict("records")
    assert row["cumulative_tagged"] == pytest.approx(1.0)
    assert row["reward_given_tagged"] == pytest.approx(3 / 10)
    curve = agent_average(metrics)
    assert curve["tagged"].tolist() == pytest.approx([0.45, 0.05])
    assert curve["given_tagged"].tolist() == pytest.approx([3 / 9, 0.0])


def test_without_a_tagged_completion_there_is_no_reward_given_tagged() -> None:
    silent = make_metrics([[0.0, 0.0], [0.1, 0.0]]).assign(answer_tag_rate=[0.0, 0.0, 0.2, 0.0])
    other = make_metrics([[0.0]], seed=2).assign(answer_tag_rate=0.0)
    both = pd.concat([silent, other], ignore_index=True)
    found = totals(both)
    assert found["reward_given_tagged"][0] == pytest.approx(0.5)
    assert math.isnan(found["reward_given_tagged"][1])
    given = agent_average(both)["given_tagged"]
    assert [math.isnan(value) for value in given] == [True, False, True]


def test_the_balanced_reward_given_tagged_does_not_depend_on_how_often_a_task_was_drawn() -> None:
    """An easy task at 0.8 and a hard one at 0.2: whether one, or the other, is drawn three times of four."""
    easy, hard = (
        {"task_rewards": {"easy": 0.4}, "task_tag_rates": {"easy": 0.5}},
        {"task_rewards": {"hard": 0.2}, "task_tag_rates": {"hard": 1.0}},
    )
    found = []
    for seed, drawn in enumerate(([easy, easy, easy, hard], [hard, hard, easy, hard])):
        metrics = make_metrics([[0.1]] * 4, seed=seed).assign(
            answer_tag_rate=[sum(d["task_tag_rates"].values()) for d in drawn]
        )
        metrics["task_rewards"] = [row["task_rewards"] for row in drawn]
        metrics["task_tag_rates"] = [row["task_tag_rates"] for row in drawn]
        found.append(metrics)
    rows = totals(pd.concat(found, ignore_index=True))
    assert rows["reward_given_tagged_balanced"].tolist() == pytest.approx([0.5, 0.5])
    silent = found[0].assign(task_tag_rates=[{"easy": 0.5}] * 3 + [{"hard": 0.0}])
    assert math.isnan(totals(silent)["reward_given_tagged_balanced"][0])
    assert math.isnan(totals(make_metrics([[0.1]]))["reward_given_tagged_balanced"][0])


def test_the_mean_split_of_an_adaptive_run_is_over_nodes_and_rounds() -> None:
    adaptive = make_metrics([[0.1, 0.1], [0.1, 0.1]]).assign(adaptive_J=pd.array([4, 5, 6, 7], dtype="Int64"))
    fixed = make_metrics([[0.1]], "4/4").assign(adaptive_J=pd.array([None], dtype="Int64"))
    found = totals(pd.concat([adaptive, fixed], ignore_index=True))["mean_adaptive_J"]
    assert found[0] == 5.5
    assert math.isnan(found[1])


def test_the_curve_has_the_mean_and_what_was_spent_so_far() -> None:
    curve = agent_average(make_metrics([[0.1, 0.3], [0.2, 0.6]]))
    assert curve["round"].tolist() == [0, 1]
    assert curve["mean"].tolist() == pytest.approx([0.2, 0.4])
    assert curve["tokens_per_node"].tolist() == [100, 200]
    assert curve["trained_per_node"].tolist() == [50, 100]
    assert curve["seconds"].tolist() == [4, 8]
    missed = agent_average(make_metrics([[0.1, 0.3], [0.2], [0.2, 0.2]]))
    assert missed["nodes"].tolist() == [2, 1, 2]
    assert missed["tokens_per_node"].tolist() == [100, 150, 250], "who misses a round generates nothing in it"


@pytest.mark.parametrize(
    ("means", "window", "drops"),
    [
        ([0.5, 1.0, 0.8, 0.6, 0.6, 0.6, 1.0, 1.0, 0.85], 1, 2),  # rounds of one fall are one
        ([1.0, 0.95, 0.9, 0.85, 0.8], 1, 0),  # a slow decline is none
        ([1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5], 3, 1),  # within the window it is one, though no round alone is
        ([1.0, 0.0, 0.2, 1.0, 1.0], 3, 0),  # nor is the noise before the first full window
    ],
)
def test_steep_drops_are_falls_and_not_their_rounds(means: list[float], window: int, drops: int) -> None:
    assert oscillation(make_curve(means), window=window).loc[0, "steep_drops"] == drops


@settings(max_examples=10)
@given(curves)
def test_oscillation_is_finite_and_none_for_a_rising_curve(means: list[float]) -> None:
    (row,) = oscillation(make_curve(means)).to_dict("records")
    assert 0 <= row["max_drawdown_share"] <= 1
    assert 0 <= row["max_drawdown"] <= max(means)
    (rising,) = oscillation(make_curve(sorted(means))).to_dict("records")
    assert (rising["steep_drops"], rising["max_drawdown"]) == (0, pytest.approx(0))


UNLIKE = pd.DataFrame(
    {
        "configuration": ["4/4", "central"],
        "cumulative_reward": [60.0, 10.0],
        "cumulative_tagged": [80.0, 12.0],
        "final_reward": [0.5, 0.7],
        "tokens_generated": [800, 800],
        "tokens_per_node": [100.0, 800.0],
    }
)


def sized_record(**central: Any) -> StudyRecord:
    splits = {"4/4": {"local_groups": 4, "external_groups": 4}, "central": {"local_groups": 32, "external_groups": 0}}
    configurations = [ConfigurationRecord(name=name, settings=settings) for name, settings in splits.items()]
    there = (configurations[0], msgspec.structs.replace(configurations[1], **central))
    return make_record(*there, rounds=2)


def test_one_node_beside_eight_counts_eightfold_and_shares_what_it_spent() -> None:
    found = as_of_equal_sizes(UNLIKE, sized_record(nodes=1)).set_index("configuration")
    assert found.loc["central"].tolist() == pytest.approx([80.0, 96.0, 0.7, 800.0, 100.0])
    assert found.loc["4/4"].tolist() == UNLIKE.set_index("configuration").loc["4/4"].tolist()


def test_studies_of_one_size_stay_as_they_are_and_say_nothing() -> None:
    for record in (sized_record(), sized_record(nodes=8)):
        assert as_of_equal_sizes(UNLIKE, record) is UNLIKE
        assert said_of_sizes(record) == ""
    assert said_of_sizes(sized_record(nodes=1)).startswith("Nodes of a swarm, where not 8: central 1.")


def test_budgets_of_swarms_of_unlike_sizes_are_those_of_all_their_nodes() -> None:
    said = unequal(sized_record(nodes=1), "central", "4/4")
    assert said == (
        "the whole swarm of central trains on 32 groups a round, the whole swarm of 4/4 on 64: 0.5 times as many"
    )


def test_every_measure_of_a_run_is_declared_under_its_name() -> None:
    metrics = make_metrics([[0.1, 0.3]] * 3)
    columns = [*totals(metrics), *oscillation(agent_average(metrics)).drop(columns=RUN)]
    assert [name for name in columns if name not in RUN] == [*MEASURES]
    assert set(TESTED) < set(MEASURES)


# ── held-out questions ──────────────────────────────────────────────────────────────────────────────────────────────
YES, NO = True, False


def test_pass_at_1_is_the_share_of_full_answers_in_each_window() -> None:
    found = pass_at_1(make_judged([[YES, NO], [NO, NO], [YES, YES]]), window=2)
    assert found["experiment"].tolist() == ["8/0-1"] * 2
    assert found["round"].tolist() == [0, 2]
    assert found["pass_at_1"].tolist() == [0.25, 1.0]
    assert found["reward"].tolist() == pytest.approx([(1 + 3 * 0.25) / 4, 1.0])
    assert found["questions"].tolist() == [4, 2]
    assert pass_at_1(make_judged([[YES]]).iloc[:0]).empty, "nothing was judged"


def test_pass_at_1_is_the_share_of_answers_times_the_share_of_these_that_are_right() -> None:
    judged = make_judged([[YES, NO], [NO, NO]]).assign(answered=[YES, YES, NO, NO])
    found = pass_at_1(judged, window=1)
    assert found["answered"].tolist() == [1.0, 0.0]
    assert found["given_answered"][0] == 0.5
    assert pd.isna(found["given_answered"][1])
    (together_,) = pass_at_1(judged, window=2).to_dict("records")
    assert (together_["pass_at_1"], together_["answered"], together_["given_answered"]) == (0.25, 0.5, 0.5)


# ── nodes of unlike models ──────────────────────────────────────────────────────────────────────────────────────────
def of_models(name: str, seed: int, rewards: list[list[float]], models: list[str]) -> pd.DataFrame:
    found = make_metrics(rewards, name, seed)
    nodes = sorted(found["node_id"].unique())
    return found.assign(model=found["node_id"].map(dict(zip(nodes, models, strict=True))))


def test_the_mean_is_over_the_nodes_of_a_model_and_the_sum_over_the_rounds() -> None:
    rows = of_models("alone", 1, [[0.1, 0.3, 0.5], [0.2, 0.4, 0.6]], ["weak", "strong", "strong"])
    weak, strong = rewards_by_model(rows).to_dict("records")
    assert (weak["model"], weak["nodes"], weak["node_reward"]) == ("weak", 1, pytest.approx(0.3))
    assert (strong["model"], strong["nodes"], strong["node_reward"]) == ("strong", 2, pytest.approx(0.9))


def test_the_weaker_model_is_that_of_the_first_node_whatever_it_earned() -> None:
    models = ["late", "early", "early"]
    rows = pd.concat(
        of_models(name, 1, [[0.1, 0.2, 0.2], [late, 0.2, 0.2]], models)
        for name, late in (("alone", 0.1), ("shared", 0.9))
    )
    found = weaker_over_stronger(rows).droplevel(["seed", "experiment"])
    assert found["alone"] == pytest.approx(0.2 / 0.4)
    assert found["shared"] == pytest.approx(1.0 / 0.4)
    of_runs = totals(rows).set_index("configuration")["weaker_over_stronger"]
    assert of_runs.to_dict() == pytest.approx(found.to_dict())


def test_swarms_of_one_model_and_a_stronger_one_that_earned_nothing_have_no_ratio() -> None:
    one = [of_models(name, 1, [[0.1, 0.3]], [model] * 2) for name, model in (("alone", "weak"), ("shared", "strong"))]
    assert rewards_by_model(pd.concat(one)).empty, "nor a row for each model"
    assert totals(pd.concat(one))["weaker_over_stronger"].isna().all()
    none = of_models("alone", 1, [[0.0, 0.0]], ["weak", "strong"])
    assert weaker_over_stronger(none).isna().all()
