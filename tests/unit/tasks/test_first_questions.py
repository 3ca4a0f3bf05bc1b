"""A definition's first questions: whether they are made fast enough."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from swarm.errors import ConfigError
from swarm.tasks.bounded import Emit, Limits
from swarm.tasks.gym import first_questions
from swarm.tasks.gym.entries import GymDefinition
from swarm.tasks.gym.first_questions import MOST_CPU_S, Outcome, check

DEFINITION = GymDefinition("sums", "chain_sum", {})


def trials_take(patch: pytest.MonkeyPatch, *rounds: list[float]) -> None:
    """Let one bounded child after the other find these processor times."""
    left = list(rounds)

    def run_bounded(job: Callable[[Emit], None], limits: Limits) -> list[bytes]:
        return [msgspec.msgpack.encode(Outcome(seconds, prompt=10)) for seconds in left.pop(0)]

    patch.setattr(first_questions, "run_bounded", run_bounded)


def test_a_question_that_was_slow_once_beside_other_work_is_no_reason_to_refuse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = [0.01] * 11 + [MOST_CPU_S * 1.4]
    trials_take(monkeypatch, first, [MOST_CPU_S * 1.2], [0.02], [0.01] * 100)
    check(DEFINITION)


def test_a_question_that_is_slow_each_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    trials_take(monkeypatch, [0.01] * 11 + [MOST_CPU_S * 1.4], [MOST_CPU_S * 1.2], [MOST_CPU_S * 1.3])
    with pytest.raises(ConfigError, match="processor time"):
        check(DEFINITION)
