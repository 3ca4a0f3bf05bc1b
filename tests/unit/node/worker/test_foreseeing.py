"""A node says once in its log what its first round tells of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
from structlog.testing import capture_logs

from swarm.algo.adaptive_rule import Split
from swarm.node.worker.features import Foreseeing
from swarm.node.worker.steps import Own, OwnHalf, Sampled
from swarm.types import RoundKey
from tests.layout import Layout
from tests.unit.algo.factories import make_scored
from tests.unit.node.nodes import make_context
from tests.unit.views.factories import set_clock


def half(rewards: list[float], **fields: Any) -> OwnHalf:
    """Own groups of four answers that took 8 s to write, 1 s to score, and 6 s of the update so far."""
    groups = [make_scored("anna", slot, rewards=tuple(rewards)) for slot in range(2)]
    own = Own(Sampled(RoundKey(0), [scored.group for scored in groups], 0), groups)
    seconds = {"generate": 8.0, "score": 1.0, "train": 6.0}
    return OwnHalf(RoundKey(0), Split(2, 4, 4.0), own=own, seconds=seconds, **{"is_new": True} | fields)


def foreseen(*halves: OwnHalf, interval: float, tmp_path: Path) -> list[Any]:
    layout = Layout(tmp_path, "exp")
    set_clock(layout, 0, max_rounds=9, round_interval=interval)
    foreseeing = Foreseeing(make_context(layout, "anna"))
    with capture_logs() as logs:
        for one in halves:
            anyio.run(foreseeing.after_own_half, one)
    return [log for log in logs if log["event"] == "round.forecast"]


def test_what_a_round_takes_is_said_once_of_the_first_answers_that_were_written_now(tmp_path: Path) -> None:
    new = half([1.0, 0.0, 0.0, 0.0])
    (log,) = foreseen(half([1.0], is_new=False), new, new, interval=60.0, tmp_path=tmp_path)
    assert (log["log_level"], log["answering"], log["learning"]) == ("info", 9.0, 18.0), "6 s for 2 groups of 6"
    assert (log["answers"], log["earned"]) == (8, 2)
    assert log["forecast"].startswith("a round takes about 27 s on this machine")


def test_a_round_that_is_longer_than_the_clocks_is_a_warning(tmp_path: Path) -> None:
    (log,) = foreseen(half([1.0, 0.0]), interval=20.0, tmp_path=tmp_path)
    assert log["log_level"] == "warning"
    assert "--round-interval 54" in log["forecast"]


def test_an_update_of_equal_rewards_measures_nothing(tmp_path: Path) -> None:
    (log,) = foreseen(half([0.0, 0.0]), interval=60.0, tmp_path=tmp_path)
    assert (log["learning"], log["earned"]) == (None, 0)
    assert "none of 4 answers earned a reward" in log["rewards"]
