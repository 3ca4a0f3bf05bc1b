"""A node says once in its own log what makes it useless."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from swarm.node.base.experiment import claim_experiment
from swarm.node.worker.features import HintLog
from swarm.records.hints import FEW
from tests.layout import Layout
from tests.unit.node.nodes import make_context
from tests.unit.records.test_hints import row
from tests.unit.views.factories import append, set_clock

pytestmark = pytest.mark.anyio


async def said(hints: HintLog, rounds: int, **changes: object) -> list[str]:
    with capture_logs() as logs:
        for number in range(rounds):
            await hints.after_row(row(number, **changes), number)
    return [log["code"] for log in logs if log["event"] == "hint" and log["log_level"] == "warning"]


async def test_a_hint_is_said_once(tmp_path: Path) -> None:
    hints = HintLog(make_context(Layout(tmp_path, "exp"), "anna"))
    assert await said(hints, 5 * FEW, late=True) == ["short-rounds"]


async def test_who_hears_nothing_of_a_slow_peer_says_which(layout: Layout) -> None:
    set_clock(layout, 12, max_rounds=99, round_interval=60.0)
    ben = row(0, node_id="ben", seconds_generate=278.0, seconds_round=280.0)
    append(layout.metrics_file("ben"), msgspec.json.encode(ben))
    hints = HintLog(make_context(layout, "anna"))
    with capture_logs() as logs:
        for number in range(2 * FEW):
            await hints.after_row(row(number, pool_groups=0, external_groups=0), number)
    (said_once,) = [log for log in logs if log["event"] == "hint"]
    assert "ben needs 278 s, a round lasts 60 s" in said_once["evidence"]


async def test_who_trains_alone_in_an_experiment_that_shares_hears_of_it(layout: Layout) -> None:
    claim_experiment(make_context(layout, "clock", role="coordinator", external_groups=6, local_groups=2))
    alone = HintLog(make_context(layout, "anna", external_groups=0))
    assert await said(alone, 2 * FEW, external_wanted=0, external_groups=0, pool_groups=0) == ["trains-alone"]
