"""The profiles are protocol: data that every peer shares."""

from __future__ import annotations

import pytest

from swarm.tasks.gym.profiles import PROFILES, SAPO_TASKS
from tests.unit.tasks.gym import make_question


def test_every_profile_covers_the_nine_tasks_of_the_paper() -> None:
    assert len(SAPO_TASKS) == 9
    assert {tuple(tasks) for tasks in PROFILES.values()} == {SAPO_TASKS}


@pytest.mark.parametrize("task", SAPO_TASKS)
@pytest.mark.parametrize("profile", ["tiny", "tiny-2"])
def test_tiny_questions_are_mostly_distinct(profile: str, task: str) -> None:
    prompts = {make_question(task, profile, seed).prompt for seed in range(40)}
    assert len(prompts) >= 25


DATASETS_YAML: dict[str, dict[str, object]] = {
    "arc_1d": {"min_size": 10, "max_size": 30, "num_train": 3},
    "basic_arithmetic": {
        "min_terms": 2,
        "max_terms": 6,
        "min_digits": 1,
        "max_digits": 4,
        "operators": ["+", "-", "*", "/"],
        "allow_parentheses": True,
        "allow_negation": True,
        "format_style": "natural",
        "whitespace": "single",
    },
    "base_conversion": {"min_base": 2, "max_base": 16, "min_value": 0, "max_value": 1000},
    "bf": {"difficulty": 1},
    "binary_matrix": {"min_n": 3, "max_n": 10, "p_zero": 0.25},
    "calendar_arithmetic": {
        "year": 2023,
        "offset_upper_bound": 100,
        "leap_year_range": 200,
        "tasks": ["count_days", "weekday_of_date", "is_leap_year", "recurring_event_day"],
    },
    "decimal_arithmetic": {
        "min_terms": 2,
        "max_terms": 6,
        "min_num_decimal_places": 1,
        "max_num_decimal_places": 3,
        "precision": 5,
    },
    "fraction_simplification": {
        "min_value": 1,
        "max_value": 100,
        "min_factor": 2,
        "max_factor": 100,
        "styles": ["plain", "latex_frac", "latex_dfrac"],
    },
    "propositional_logic": {
        "min_vars": 2,
        "max_vars": 4,
        "min_statements": 2,
        "max_statements": 4,
        "min_complexity": 1,
        "max_complexity": 3,
    },
}
"""The numbers of rl-swarm's file of datasets, seeds and sizes left out."""


@pytest.mark.parametrize("task", SAPO_TASKS)
def test_the_profile_rl_swarm_asks_what_the_file_of_rl_swarm_says(task: str) -> None:
    from reasoning_gym.factory import DATASETS

    config = DATASETS[task][1](**PROFILES["rl-swarm"][task])
    asked = {name: getattr(config, name) for name in DATASETS_YAML[task]}
    assert {name: list(v) if isinstance(v, tuple) else v for name, v in asked.items()} == DATASETS_YAML[task]


def test_the_profile_rl_swarm_differs_from_reasoning_gyms_own_in_four_tasks() -> None:
    assert sum(bool(changed) for changed in PROFILES["rl-swarm"].values()) == 4
