"""The profiles are protocol: data that every peer shares."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from swarm.tasks.gym import make_question
from swarm.tasks.profiles import PROFILES, SAPO_TASKS


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


def test_importing_questions_loads_no_heavy_package() -> None:
    heavy = "{'reasoning_gym', 'numpy', 'torch'}"
    code = f"import sys, swarm.tasks.gym as gym; gym.gym_version(); print({heavy} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.strip() == "set()"
