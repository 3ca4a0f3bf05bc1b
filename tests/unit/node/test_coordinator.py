"""The coordinator at work: one process, one real folder, workers that exist only as files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from swarm.errors import DuplicateNodeError, ExperimentError, ProtocolError
from swarm.folder.liveness import STOPPED
from swarm.folder.records import read_peer, read_state
from swarm.protocol.codec import encode
from swarm.protocol.layout import Layout
from swarm.types import RoundKey
from tests.unit.node.factories import make_ghost, make_state, put
from tests.unit.node.nodes import make_coordinator, run_all, running, until

pytestmark = pytest.mark.anyio

STAYS: dict[str, Any] = {"liveness_timeout": 60.0}
"""Ghosts look alive all the time."""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, "exp")


def opened(logs: list[Any]) -> list[int]:
    return [log["round"] for log in logs if log["event"] == "round.opened"]


def round_now(layout: Layout) -> int:
    """The open round, -1 where nobody can tell."""
    try:
        state = read_state(layout)
    except ProtocolError:
        return -1
    return state.round if state else -1


async def test_rounds_advance_as_fast_as_the_workers_submit(layout: Layout) -> None:
    make_ghost(layout, "bob", rounds=4)
    put(layout.state_file, encode(make_state(round=0)))
    with capture_logs() as logs:
        assert await run_all(make_coordinator(layout, max_rounds=4, round_interval=60.0, **STAYS)) == [0]
    assert opened(logs) == [0, 1, 2, 3]
    state = read_state(layout)
    assert state is not None
    assert (state.round, state.finished, state.max_rounds, state.updated_by) == (4, True, 4, "clock")
    assert state.updated_at >= state.created_at > 0


async def test_rounds_advance_at_the_interval_and_tell_who_was_missing(layout: Layout) -> None:
    make_ghost(layout, "bob")
    with capture_logs() as logs:
        assert await run_all(make_coordinator(layout, max_rounds=3, round_interval=0.1, **STAYS)) == [0]
    assert opened(logs) == [0, 1, 2]
    moves = [log for log in logs if log["event"] in ("round.opened", "round.last_closed")][1:]
    assert {(log["reason"], *log["missing"]) for log in moves} == {("interval", "bob")}


@pytest.mark.parametrize("content", [None, b"", b'{"round": 3, "sta'])
async def test_a_coordinator_never_restarts_at_round_0_for_want_of_a_state_file(
    layout: Layout, content: bytes | None
) -> None:
    make_ghost(layout, "bob", rounds=4)
    if content is not None:
        put(layout.state_file, content)
    with capture_logs() as logs:
        async with running(make_coordinator(layout, **STAYS)):
            await until(lambda: round_now(layout) == 4)
    assert opened(logs) == [3, 4]
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["state.unreadable"] * (
        content is not None
    )


async def test_a_coordinator_goes_on_where_the_state_file_says(layout: Layout) -> None:
    make_ghost(layout, "bob", rounds=9)
    put(layout.state_file, encode(make_state(round=7, created_at=5.0)))
    with capture_logs() as logs:
        assert await run_all(make_coordinator(layout, max_rounds=9, **STAYS)) == [0]
    assert opened(logs) == [7, 8]
    state = read_state(layout)
    assert state is not None
    assert state.created_at == 5.0, "the experiment is as old as it was"


async def test_a_finished_experiment_ends_at_once_and_goes_on_with_more_rounds(layout: Layout) -> None:
    make_ghost(layout, "bob", rounds=3)
    assert await run_all(make_coordinator(layout, max_rounds=2, **STAYS)) == [0]
    with capture_logs() as logs:
        assert await run_all(make_coordinator(layout, max_rounds=2, **STAYS)) == [0]
        assert opened(logs) == []
        assert await run_all(make_coordinator(layout, max_rounds=3, **STAYS)) == [0]
    assert opened(logs) == [2]


@pytest.mark.parametrize("name", ["clock", "another-clock"])
async def test_a_second_coordinator_is_refused_whatever_its_name(layout: Layout, name: str) -> None:
    async with running(make_coordinator(layout)):
        await until(lambda: (peer := read_peer(layout, "clock")) and peer.status == "active")
        with pytest.raises(DuplicateNodeError):
            await make_coordinator(layout, name).run()
        peer = read_peer(layout, "clock")
        assert peer is not None
        assert peer.status == "active"
    left = read_peer(layout, "clock")
    assert left is not None
    assert left.status == STOPPED


async def test_other_settings_are_refused_before_anything_is_changed(layout: Layout) -> None:
    make_ghost(layout, "bob", rounds=2)
    await run_all(make_coordinator(layout, max_rounds=2, **STAYS))
    before = layout.experiment_file.read_bytes(), layout.state_file.read_bytes()
    with pytest.raises(ExperimentError, match="SEED was 42, now 7"):
        await make_coordinator(layout, seed=7, max_rounds=9, **STAYS).run()
    assert (layout.experiment_file.read_bytes(), layout.state_file.read_bytes()) == before
    peer = read_peer(layout, "clock")
    assert peer is not None
    assert peer.status == STOPPED


async def test_the_expected_workers_are_waited_for(layout: Layout) -> None:
    make_ghost(layout, "bob", rounds=1)
    async with running(make_coordinator(layout, expected_workers=2, round_interval=60.0, **STAYS)):
        await until(lambda: (peer := read_peer(layout, "clock")) and peer.status == "active" and peer.beat > 3)
        assert not layout.state_file.exists()
        make_ghost(layout, "carol")
        await until(layout.state_file.exists)
        assert round_now(layout) == 0
        put(layout.reward_file(RoundKey(0), "carol"), b"{}")
        await until(lambda: round_now(layout) == 1)


def test_a_coordinator_loads_no_model_library() -> None:
    code = "import sys, swarm.node.coordinator; print({'torch', 'transformers', 'reasoning_gym'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
