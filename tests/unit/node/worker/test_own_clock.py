"""Rounds without a coordinator: from the start, or since it died."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any, NoReturn, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from swarm.errors import ConfigError, StoreError
from swarm.node.base.experiment import read_experiment
from swarm.node.base.presence import PeersSeen
from swarm.node.process.daemon import run_node
from swarm.node.sharing.examination import FileNews
from swarm.node.worker.events import CoordinatorSeen, Event, PeersLive, PeersNews, Ready
from swarm.node.worker.worker import Worker
from swarm.types import RoundKey
from swarm.wire.codec import encode
from tests.layout import Layout
from tests.unit.node.checked_worker import checked_worker
from tests.unit.node.factories import make_rollouts, make_settings, put, put_state, put_traces, run_of, there
from tests.unit.node.nodes import beating, make_worker, rounds_of, rows_of, run_all, running, set_clock, until

pytestmark = pytest.mark.anyio

OWN: dict[str, Any] = {"clock": "own", "round_interval": 1.0}
PEERS = ("bob", "carol", "dave")
Told = TypeVar("Told", bound=Event)


# ── no coordinator at all ───────────────────────────────────────────────────────────────────────────────────────────
async def test_the_first_worker_says_what_the_experiment_is_and_a_different_one_is_warned(layout: Layout) -> None:
    assert await run_all(make_worker(layout, "alice", max_rounds=1, **OWN)) == [0]
    made = layout.experiment_file.read_bytes()
    experiment = there(read_experiment(run_of(layout)))
    assert (experiment.created_by, experiment.identity["clock"]) == ("alice", "own")
    with capture_logs() as logs:
        assert await run_all(make_worker(layout, "bob", max_rounds=1, seed=7, **OWN)) == [0]
    warned = [log["differences"] for log in logs if log["event"] == "experiment.other_settings"]
    assert warned == [["SEED was 42, now 7"]]
    assert layout.experiment_file.read_bytes() == made


async def test_a_worker_that_follows_a_coordinator_makes_no_experiment(layout: Layout) -> None:
    async with running(make_worker(layout, "alice")):
        await set_clock(layout, 0)
        await until(lambda: rounds_of(layout))
    assert not layout.experiment_file.exists()


async def test_a_worker_started_again_goes_on_syncs_what_it_finds_and_says_finished_when_nothing_is_left(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await run_all(make_worker(layout, "alice", max_rounds=2, **OWN)) == [0]
    assert await run_all(make_worker(layout, "alice", max_rounds=4, **OWN)) == [0]
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    with capture_logs() as logs:
        assert await run_all(make_worker(layout, "alice", max_rounds=4, **OWN)) == [0]
    assert rounds_of(layout) == [0, 1, 2, 3]
    assert [log["reason"] for log in logs if log["event"] == "node.finished"] == ["finished"]
    unsynced = {layout.metrics_file("alice"), layout.reward_file(RoundKey(3), "alice")}
    assert {*map(str, unsynced)} <= {*synced}, "a kill may have come before"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"role": "coordinator", "clock": "own"}, "SWARM_CLOCK"), ({"role": "worker", "standby": True}, "SWARM_STANDBY")],
)
def test_settings_that_contradict_the_role_are_refused_and_leave_nothing(
    tmp_path: Path, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        run_node(make_settings(tmp_path, node_id="alice", **wrong))
    assert not list(tmp_path.iterdir())


# ── a coordinator that dies ─────────────────────────────────────────────────────────────────────────────────────────
def tell_apart(worker: Worker, kind: type[Told]) -> list[Told]:
    """What a worker is told by its lookout, of one kind; grows as it is told."""
    told, tell = list[Told](), worker._lookout._tell

    def listen(event: Event) -> None:
        if isinstance(event, kind):
            told.append(event)
        tell(event)

    worker._lookout._tell = listen
    return told


async def test_a_worker_that_can_see_nobody_any_more_goes_on_by_itself(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is gone, or cannot be listed, shows no heartbeat: its coordinator may live, and cannot be seen."""
    worker = make_worker(layout, "alice", coordinator_patience=0.1, liveness_timeout=0.5)
    followed: list[bool] = []
    told = tell_apart(worker, CoordinatorSeen)
    put_traces(layout, 7)
    put_state(layout, round=7)

    def unlistable(*_: object, **__: object) -> NoReturn:
        followed.append(told[-1].alive)
        raise StoreError("cannot list peers: Input/output error")

    with capture_logs() as logs:
        async with running(worker) as codes:
            async with beating(layout, "coordinator", node_role="coordinator", round=7):
                await until(lambda: told and told[-1].alive)
            monkeypatch.setattr(PeersSeen, "read", unlistable)
            await until(lambda: codes)
    assert followed[0], "the last look that could see anything saw a coordinator"
    assert rounds_of(layout) == [7, 8, 9]
    assert rows_of(layout, "alice")[-1].clock == "own"
    told_of = [log["event"] for log in logs]
    assert told_of.count("peers.unlistable") == 1
    assert "coordinator.absent" not in told_of, "it may be there"


async def test_what_lies_in_the_round_of_a_dead_clock_holds_nobody_up(layout: Layout) -> None:
    """A slow peer publishes for the round that was open last, long after others have gone on without it."""
    for round_ in range(1, 20):
        put(layout.rollout_file(RoundKey(round_), "bob"), encode(make_rollouts("bob", RoundKey(round_))))
    put_state(layout, round=0, max_rounds=20)
    worker = make_worker(layout, "alice", coordinator_patience=0.1, liveness_timeout=0.5, max_rounds=20)
    async with running(worker) as codes:
        await until(lambda: rounds_of(layout)[-1:] >= [4])
        put(layout.rollout_file(RoundKey(0), "bob"), encode(make_rollouts("bob", RoundKey(0))))
        async with beating(layout, "bob"):
            await until(lambda: codes)
    assert rounds_of(layout) == list(range(20))
    rows = rows_of(layout, "alice")
    assert any(row.total_agents == 2 for row in rows)
    assert max(row.seconds_gather + row.seconds_publish for row in rows) < 5.0, "half of an interval is 15 seconds"


async def test_who_comes_back_to_a_dead_clock_and_a_first_round_that_is_cleaned_away_goes_on_by_itself(
    layout: Layout,
) -> None:
    """Nothing bears the clock's round out any more: its rewards are archived, and so is the first round."""
    put(layout.rollout_file(RoundKey(6), "bob"), encode(make_rollouts("bob", RoundKey(6))))
    put_state(layout, round=1)
    published = layout.rollout_file(RoundKey(0), "alice")
    worker = make_worker(layout, "alice", coordinator_patience=0.1, liveness_timeout=0.5)
    async with running(worker), beating(layout, "bob", round=6):
        await until(published.exists)


async def test_a_peer_that_publishes_is_told_of_whether_it_is_read_or_not(layout: Layout) -> None:
    worker = make_worker(layout, "alice")
    told = tell_apart(worker, PeersLive)
    async with running(worker):
        await set_clock(layout, 3)
        await until(lambda: rounds_of(layout) == [3])
        for peer, round_ in (("bob", 3), ("carol", 2), ("dave", 1), ("erin", 4)):
            put(layout.rollout_file(RoundKey(round_), peer), b"never read as anything")
        await until(lambda: {"bob", "carol"} <= told[-1].publishing)
    assert told[-1].publishing - {"alice"} == {"bob", "carol"}


# ── whatever the order ──────────────────────────────────────────────────────────────────────────────────────────────
def sources_after(arrivals: list[tuple[str, int]], mine: int, window: int) -> tuple[tuple[str, RoundKey], ...]:
    """What a node takes in one round, if these files arrive in this order before it gathers."""
    worker = checked_worker(own_clock=True, window=window, max_rounds=100)
    worker.handle(PeersLive(frozenset(PEERS), 0.0))
    worker.handle(Ready(RoundKey(mine)))
    for peer, round_ in arrivals:
        worker.handle(PeersNews(FileNews.THERE, RoundKey(round_), frozenset({peer}), 1.0))
    for _ in ("generated", "scored", "published"):
        worker.answer(worker.pending[0], 2.0)
    worker.handle(PeersLive(frozenset(), 3.0))
    return worker.draws[0].sources


@given(
    st.lists(st.tuples(st.sampled_from(PEERS), st.integers(0, 9)), unique=True),
    st.integers(1, 6),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_the_same_files_give_the_same_groups_in_whatever_order_they_arrive(
    arrivals: list[tuple[str, int]], mine: int, window: int, rng: Random
) -> None:
    reordered = rng.sample(arrivals, len(arrivals))
    sources = sources_after(arrivals, mine, window)
    assert sources == sources_after(reordered, mine, window)
    newest = {
        peer: max((of for by, of in arrivals if by == peer and abs(of - mine) <= window), default=None)
        for peer in PEERS
    }
    assert dict(sources) == {peer: RoundKey(of) for peer, of in newest.items() if of is not None}
