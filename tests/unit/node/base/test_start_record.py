"""What a node was started with stands in its logs, every start of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from swarm.errors import StoreError
from swarm.node.base.experiment import record_start
from swarm.records.starts import last_start, last_starts
from swarm.wire import keys
from swarm.wire.messages import MadeWith
from tests.layout import Layout
from tests.unit.node.factories import run_of
from tests.unit.node.nodes import make_context, make_coordinator, make_worker, run_all

pytestmark = pytest.mark.anyio


async def test_a_start_holds_every_setting_but_no_secret(layout: Layout) -> None:
    await record_start(make_context(layout, "alice", learning_rate=0.5, hub_token="secret"), rounds_done=7)
    start = last_start(run_of(layout), "alice")
    assert start is not None
    assert (start.node_id, start.role, start.rounds_done) == ("alice", "worker", 7)
    assert (start.settings["learning_rate"], start.settings["seed"]) == (0.5, 42)
    assert b"secret" not in (layout.root / keys.starts("alice")).read_bytes()


async def test_a_start_holds_what_it_was_made_with(layout: Layout) -> None:
    ctx = make_context(layout, "alice")
    made = MadeWith(command="swarm node", sources={"seed": "SEED"}, code="3b", models={"m": "6c"}, machine={"cores": 2})
    object.__setattr__(ctx, "made_with", lambda: made)
    await record_start(ctx)
    start = last_start(run_of(layout), "alice")
    assert start is not None
    assert (start.command, start.sources, start.code) == ("swarm node", {"seed": "SEED"}, "3b")
    assert (start.models, start.machine) == ({"m": "6c"}, {"cores": 2})


async def test_a_later_start_with_other_settings_says_which(layout: Layout) -> None:
    await record_start(make_context(layout, "alice", learning_rate=0.5))
    with capture_logs() as said:
        await record_start(make_context(layout, "alice", learning_rate=0.5))
        await record_start(make_context(layout, "alice", learning_rate=0.25, log_level="debug"))
    assert [(line["event"], line["since_last_start"]) for line in said] == [
        ("settings.changed", ["SWARM_LEARNING_RATE was 0.5, now 0.25"])
    ]
    lines = (layout.root / keys.starts("alice")).read_bytes().splitlines()
    assert len(lines) == 3, "each start is kept"


async def test_a_place_that_refuses_the_record_ends_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = make_context(Layout(tmp_path, "exp"), "alice")

    def refuses(*_: object, **__: object) -> None:
        raise StoreError("full")

    monkeypatch.setattr(type(ctx.run.store), "append_records", refuses)
    with capture_logs() as said:
        await record_start(ctx)
    assert [line["event"] for line in said] == ["start.not_recorded"]


async def test_workers_and_coordinators_record_their_starts(layout: Layout) -> None:
    await run_all(make_coordinator(layout, "clock", max_rounds=1), make_worker(layout, "alice", max_rounds=1))
    assert [(start.node_id, start.role) for start in last_starts(run_of(layout))] == [
        ("alice", "worker"),
        ("clock", "coordinator"),
    ]
