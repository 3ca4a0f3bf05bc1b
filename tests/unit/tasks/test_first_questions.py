"""A definition's first questions: whether they are made fast enough."""

from __future__ import annotations

import msgspec
import pytest

from swarm.errors import ConfigError
from swarm.tasks.gym import first_questions
from swarm.tasks.gym.entries import GymDefinition
from swarm.tasks.gym.first_questions import MORE_TRIALS, MOST_CPU_S, TRIALS, Outcome, check


def test_where_times_have_a_long_tail_more_questions_are_tried_and_a_slow_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = [[0.01] * (TRIALS - 1) + [0.5], [0.01] * (MORE_TRIALS - TRIALS - 1) + [MOST_CPU_S * 1.1]]

    def run_bounded(*_: object) -> list[bytes]:
        return [msgspec.msgpack.encode(Outcome(seconds, prompt=10)) for seconds in rounds.pop(0)]

    monkeypatch.setattr(first_questions, "run_bounded", run_bounded)
    with pytest.raises(ConfigError, match="processor time"):
        check(GymDefinition("sums", "chain_sum", {}))
    assert not rounds
