"""Questions are a function of their origin, and scores are reasoning-gym's."""

from __future__ import annotations

import decimal

import pytest

from swarm.errors import ProtocolError
from swarm.tasks.gym.profiles import PROFILES, SAPO_TASKS
from swarm.types import Origin
from tests.unit.tasks.gym import FAMILIES, GYM_VERSION, make_question, reference


def origin(**changes: object) -> Origin:
    fields = {"task": "bf", "profile": "tiny", "seed": 3, "index": 0, "version": GYM_VERSION} | changes
    return Origin(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("task", SAPO_TASKS)
@pytest.mark.parametrize("profile", PROFILES)
def test_regenerating_an_origin_gives_the_same_question(profile: str, task: str) -> None:
    question = make_question(task, profile, seed=2**31 - 1, index=3)
    assert question.origin == Origin(task, profile, 2**31 - 1, 3, GYM_VERSION)
    assert FAMILIES.regenerate(question.origin) == question


def test_index_and_seed_choose_the_question() -> None:
    prompts = {make_question("arc_1d", "tiny", seed, index).prompt for seed in (1, 1000) for index in (0, 5)}
    assert len(prompts) == 4


@pytest.mark.parametrize("task", SAPO_TASKS)
def test_the_reference_answer_earns_full_reward_at_the_tiny_profile_and_nonsense_nearly_nothing(task: str) -> None:
    questions = [make_question(task, "tiny", seed) for seed in range(8)]
    rewards = [FAMILIES.score(question, reference(question)) for question in questions]
    assert max(FAMILIES.score(question, "certainly not") for question in questions) <= 0.05
    full = 4 if task == "propositional_logic" else 8  # its example may be a bare variable, worth a quarter
    assert rewards.count(1.0) >= full


def test_propositional_logic_has_no_single_answer() -> None:
    assert make_question("propositional_logic", "tiny", 1).answer is None


def test_generating_and_scoring_print_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    for task in SAPO_TASKS:
        FAMILIES.score(make_question(task, "paper", 4), "1")
    assert capfd.readouterr() == ("", "")


def test_generating_leaves_the_decimal_precision_alone() -> None:
    before = decimal.getcontext().prec
    make_question("decimal_arithmetic", "tiny", 1)
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
