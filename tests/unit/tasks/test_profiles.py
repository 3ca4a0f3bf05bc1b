"""The profiles are protocol: data that every peer shares."""

from __future__ import annotations

import json

import pytest

from swarm.tasks.gym.profiles import PROFILES, SAPO_TASKS
from tests.unit.tasks.gym import make_question


def test_every_profile_covers_the_nine_tasks_of_the_paper() -> None:
    assert len(SAPO_TASKS) == 9
    assert {profile: tuple(tasks) for profile, tasks in PROFILES.items()} == {"paper": SAPO_TASKS, "tiny": SAPO_TASKS}


def test_profiles_survive_json_so_that_they_are_plain_data() -> None:
    assert json.loads(json.dumps(PROFILES)) == PROFILES


@pytest.mark.parametrize("task", SAPO_TASKS)
@pytest.mark.parametrize("profile", PROFILES)
def test_reasoning_gym_accepts_every_profile(profile: str, task: str) -> None:
    assert make_question(task, profile, seed=7).prompt


@pytest.mark.parametrize("task", SAPO_TASKS)
def test_tiny_questions_are_mostly_distinct(task: str) -> None:
    prompts = {make_question(task, "tiny", seed).prompt for seed in range(40)}
    assert len(prompts) >= 25
