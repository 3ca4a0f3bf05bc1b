"""Questions are a function of their origin, and scores are reasoning-gym's."""

from __future__ import annotations

import decimal

import pytest
import yaml

from swarm.errors import ProtocolError
from swarm.tasks.gym.profiles import PROFILES, SAPO_TASKS
from swarm.types import Origin
from tests.unit.tasks.gym import FAMILIES, GYM_VERSION, make_question


def origin(**changes: object) -> Origin:
    fields = {"task": "bf", "profile": "tiny", "seed": 3, "index": 0, "version": GYM_VERSION} | changes
    return Origin(**fields)  # type: ignore[arg-type]


def test_index_and_seed_choose_the_question() -> None:
    prompts = {make_question("arc_1d", "tiny", seed, index).prompt for seed in (1, 1000) for index in (0, 5)}
    assert len(prompts) == 4


def test_generating_and_scoring_print_nothing_and_leave_the_decimal_precision(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = decimal.getcontext().prec
    for task in SAPO_TASKS:
        FAMILIES.score(make_question(task, "paper", 4), "1")
    assert capfd.readouterr() == ("", "")
    assert decimal.getcontext().prec == before


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task": "os.system"}, "unknown_task"),
        ({"profile": "huge"}, "unknown_task"),
        ({"seed": -1}, "bad_origin"),
        ({"seed": 2**31}, "bad_origin"),
        ({"index": -1}, "bad_origin"),
        ({"index": 2**20}, "bad_origin"),
        ({"seed": True}, "bad_origin"),
        ({"version": "0.0.1"}, "gym_version"),
    ],
)
def test_origins_that_cannot_be_regenerated_are_refused_with_a_reason(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        FAMILIES.regenerate(origin(**changes))
    assert refused.value.reason == reason
    assert "got" in refused.value.detail or "install the same version" in refused.value.detail


# ── the profiles are protocol: data that every peer shares ────────────────────────────────────────────────────────────
def test_every_profile_covers_the_nine_tasks_of_the_paper() -> None:
    assert len(SAPO_TASKS) == 9
    assert {tuple(tasks) for tasks in PROFILES.values()} == {SAPO_TASKS}


@pytest.mark.parametrize("task", SAPO_TASKS)
@pytest.mark.parametrize("profile", ["tiny", "tiny-2"])
def test_tiny_questions_are_mostly_distinct(profile: str, task: str) -> None:
    prompts = {make_question(task, profile, seed).prompt for seed in range(40)}
    assert len(prompts) >= 25


DATASETS_YAML: dict[str, dict[str, object]] = yaml.safe_load("""
arc_1d: {min_size: 10, max_size: 30, num_train: 3}
basic_arithmetic:
  {min_terms: 2, max_terms: 6, min_digits: 1, max_digits: 4, operators: ["+", "-", "*", "/"],
   allow_parentheses: true, allow_negation: true, format_style: natural, whitespace: single}
base_conversion: {min_base: 2, max_base: 16, min_value: 0, max_value: 1000}
bf: {difficulty: 1}
binary_matrix: {min_n: 3, max_n: 10, p_zero: 0.25}
calendar_arithmetic:
  {year: 2023, offset_upper_bound: 100, leap_year_range: 200,
   tasks: [count_days, weekday_of_date, is_leap_year, recurring_event_day]}
decimal_arithmetic:
  {min_terms: 2, max_terms: 6, min_num_decimal_places: 1, max_num_decimal_places: 3, precision: 5}
fraction_simplification:
  {min_value: 1, max_value: 100, min_factor: 2, max_factor: 100, styles: [plain, latex_frac, latex_dfrac]}
propositional_logic:
  {min_vars: 2, max_vars: 4, min_statements: 2, max_statements: 4, min_complexity: 1, max_complexity: 3}
""")
"""The numbers of rl-swarm's file of datasets, seeds and sizes left out."""


@pytest.mark.parametrize("task", SAPO_TASKS)
def test_the_profile_rl_swarm_asks_what_the_file_of_rl_swarm_says(task: str) -> None:
    from reasoning_gym.factory import DATASETS

    config = DATASETS[task][1](**PROFILES["rl-swarm"][task])
    asked = {name: getattr(config, name) for name in DATASETS_YAML[task]}
    assert {name: list(v) if isinstance(v, tuple) else v for name, v in asked.items()} == DATASETS_YAML[task]
