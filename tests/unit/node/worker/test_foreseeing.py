"""A node says once in its log what its first round tells of the others."""

from __future__ import annotations

from typing import Any

import anyio
from structlog.testing import capture_logs

from swarm.config import Settings
from swarm.node.worker.features import Foreseeing
from swarm.wire.metrics import MetricsRow
from tests.unit.records.test_hints import row


def said(*rows: MetricsRow, **settings: Any) -> list[Any]:
    foreseeing = Foreseeing(Settings(max_rounds=41, model=("gpt2",), **settings))
    with capture_logs() as logs:
        for one in rows:
            anyio.run(foreseeing.after_row, one, one.round)
    return [log for log in logs if log["event"] == "rounds.foreseen"]


def test_it_is_said_once_after_the_first_round_with_groups() -> None:
    (log,) = said(row(0, local_groups=0), row(1, seconds_round=2.0), row(2))
    assert (log["rounds_left"], log["take"], log["signal"]) == (39, "78s", "2/4")
    assert log["reward_low"] < log["reward"] == 0.25 < log["reward_high"]
    assert "advice" not in log


def test_advice_is_given_of_round_0_alone() -> None:
    """A node that goes on, or joins late, meets one round of many."""
    dull: dict[str, Any] = {"zero_advantage_local": 1.0, "my_reward": 0.0}
    (first,) = said(row(0, **dull))
    (later,) = said(row(7, **dull))
    assert "swarm probe --model gpt2" in first["advice"]
    assert "advice" not in later


def test_a_round_counts_with_its_last_stage_and_the_last_round_foresees_nothing() -> None:
    stages = [row(0, stage=stage, my_reward=stage / 2) for stage in (0, 1)]
    (log,) = said(*stages, max_stages=2)
    assert log["reward"] == 0.5
    assert said(row(40)) == []
