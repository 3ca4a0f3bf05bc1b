"""The coordinator at work: one process, one real folder, workers that exist only as files."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from swarm.config import Settings
from swarm.errors import DuplicateNodeError, ExperimentError, ProtocolError, StoreError
from swarm.node.base import looking
from swarm.node.base.clock_belief import believed_state
from swarm.node.base.presence import Presence
from swarm.node.coordinator.clock_keeper import Observer, Standing
from swarm.node.coordinator.coordinator_machine import CoordinatorLook
from swarm.node.process.system import SYSTEM_CLOCK
from swarm.records.files import read_experiment, read_peer, read_state
from swarm.records.finished import NO_REWARDS
from swarm.records.liveness import ACTIVE, STANDBY, STOPPED, Liveness
from swarm.store.base import Page
from swarm.store.folder.store import FolderStore
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import encode
from tests.adversaries import coordination
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.node.factories import make_ghost, make_peer, put, put_reward, put_state, run_of, there
from tests.unit.node.nodes import (
    beating,
    make_context,
    make_coordinator,
    run_all,
    running,
    status_of,
    until,
    unwritable,
)

pytestmark = pytest.mark.anyio

STAYS: dict[str, Any] = {"liveness_timeout": 60.0}
"""Ghosts look alive all the time."""


QUICK: dict[str, Any] = {"liveness_timeout": 0.5}


def beat_of(layout: Layout, node: str) -> int:
    peer = read_peer(layout.run, node)
    return peer.beat if peer else 0


def events_of(logs: list[Any]) -> list[str]:
    return [log["event"] for log in logs]


def opened(logs: list[Any]) -> list[int]:
    return [log["round"] for log in logs if log["event"] == "round.opened"]


def round_now(layout: Layout) -> int:
    """The open round, -1 where nobody can tell."""
    try:
        state = read_state(layout.run)
    except ProtocolError:
        return -1
    return state.round if state else -1


async def submit_rounds(layout: Layout, rounds: range, node: str = "bob") -> None:
    """Be a worker: a reward for each round as soon as it is seen to be open, or over."""
    for round_ in rounds:
        await until(lambda: round_now(layout) >= round_)  # noqa: B023 - awaited within the turn
        put_reward(layout, RoundKey(round_), node)


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
    warned = [log["event"] for log in logs if log["log_level"] == "warning"]
    assert warned == ["state.unreadable"] * (content is not None)


async def test_a_coordinator_goes_on_where_the_state_file_says(layout: Layout) -> None:
    make_ghost(layout, "bob", rounds=7)
    put_state(layout, round=7, created_at=5.0)
    with capture_logs() as logs:
        async with running(make_coordinator(layout, max_rounds=9, **STAYS)) as codes:
            await submit_rounds(layout, range(7, 9))
            await until(lambda: codes)
    assert opened(logs) == [7, 8]
    state = there(read_state(layout.run))
    assert state.created_at == 5.0, "the experiment is as old as it was"


async def test_a_finished_experiment_ends_at_once_and_goes_on_with_more_rounds(layout: Layout) -> None:
    make_ghost(layout, "bob", rounds=3)
    assert await run_all(make_coordinator(layout, max_rounds=2, **STAYS)) == [0]
    with capture_logs() as logs:
        assert await run_all(make_coordinator(layout, max_rounds=2, **STAYS)) == [0]
        assert opened(logs) == []
        assert await run_all(make_coordinator(layout, max_rounds=3, **STAYS)) == [0]
    assert opened(logs) == [2]


async def test_workers_are_told_of_the_end_where_fewer_rounds_are_asked_for_than_were_done(layout: Layout) -> None:
    make_ghost(layout, "bob", rounds=6)
    put_state(layout, round=6, max_rounds=40)
    assert await run_all(make_coordinator(layout, max_rounds=4, **STAYS)) == [0]
    state, problem = believed_state(run_of(layout))
    assert state, problem
    assert (state.round, state.finished) == (6, True)


async def test_a_coordinator_of_other_settings_is_refused_before_anything_is_changed(layout: Layout) -> None:
    """Under a worker's name, too, whose registration stays as it is."""
    make_ghost(layout, "bob", rounds=2)
    await run_all(make_coordinator(layout, max_rounds=2, **STAYS))
    files = (layout.experiment_file, layout.state_file, layout.peer_file("bob"))
    before = [file.read_bytes() for file in files]
    for name in ("clock", "bob"):
        with pytest.raises(ExperimentError, match="SEED was 42, now 7"):
            await make_coordinator(layout, name, seed=7, max_rounds=9, **STAYS).run()
    assert [file.read_bytes() for file in files] == before
    assert status_of(layout, "clock") == STOPPED


async def test_the_clock_goes_to_workers_that_went_on_alone_until_their_first_rounds_were_cleaned_up(
    layout: Layout,
) -> None:
    """A coordinator that came back with an old look at the folder once stood still in front of them for ever."""
    make_ghost(layout, "bob", says=7)
    with capture_logs() as logs:
        async with running(make_coordinator(layout, max_rounds=10, round_interval=60.0, **STAYS)):
            await until(lambda: round_now(layout) == 0)
            for round_ in range(6, -1, -1):
                put_reward(layout, RoundKey(round_), "bob")
                if round_ < 5:
                    layout.rollout_file(RoundKey(round_), "bob").unlink()
            await until(lambda: round_now(layout) == 7)
    assert opened(logs)[-2:] == [6, 7]


async def test_a_clock_that_stands_for_want_of_rewards_says_so_once_and_that_it_goes_on(layout: Layout) -> None:
    for node in ("bob", "sleeper"):
        make_ghost(layout, node)
    with capture_logs() as logs:
        async with running(make_coordinator(layout, max_rounds=50, round_interval=0.2, **STAYS)):
            await until(lambda: "clock.stands" in events_of(logs))
            (stands,) = [log for log in logs if log["event"] == "clock.stands"]
            await until(lambda: (peer := read_peer(layout.run, "clock")) is not None and peer.phase == NO_REWARDS)
            await submit_rounds(layout, range(3, 5))
            await until(lambda: "clock.goes_on" in events_of(logs))
    assert (stands["round"], stands["workers"]) == (3, ["bob", "sleeper"])


def test_a_clock_stands_once_a_round_has_lasted_an_interval_with_no_reward_in_it_or_shortly_before(
    layout: Layout,
) -> None:
    presence, phases = Presence(make_context(layout, "clock"), "coordinator"), []
    standing = Standing(presence, 60.0)
    for round_, now in ((3, 100.0), (3, 159.9), (3, 160.0), (4, 161.0)):
        look = CoordinatorLook(now, live=frozenset({"bob"}), submitted=frozenset(), clock=None)
        standing.look(RoundKey(round_), look, finished=False)
        phases.append(presence.phase)
    assert phases == ["", "", NO_REWARDS, ""]


@pytest.mark.parametrize(
    ("expected", "came", "missing"),
    [(("alice", "bob", "carol"), "1 of 3", ["bob", "carol"]), (2, "1 of 2", []), (1, None, None)],
)
async def test_rounds_that_begin_without_expected_workers_warn_once_of_who_is_missing(
    layout: Layout, expected: int | tuple[str, ...], came: str | None, missing: list[str] | None
) -> None:
    make_ghost(layout, "alice")
    with capture_logs() as logs:
        async with running(make_coordinator(layout, expected_workers=expected, round_interval=0.2, **STAYS)):
            await until(lambda: round_now(layout) >= 2)
    told = [(log["log_level"], log["came"], log["missing"]) for log in logs if log["event"] == "workers.absent"]
    assert told == [("warning", came, missing)] * bool(came)
    assert next(log for log in logs if log["event"] == "round.opened")["missing"] == (missing or [])


# ── where each request is paid for ──────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(("paid_for", "seen"), [(False, {"bob", "carol"}), (True, {"bob"})])
def test_each_look_is_a_new_one_but_peers_are_looked_at_once_a_heartbeat_where_requests_are_paid_for(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, paid_for: bool, seen: set[str]
) -> None:
    monkeypatch.setattr(Settings, "sparing", property(lambda _: paid_for))
    ctx = make_context(layout, "clock", times=replace(SYSTEM_CLOCK, monotonic=lambda: 0.0), **STAYS)
    observer = Observer(ctx, Presence(ctx, "coordinator"), Liveness(60.0))
    for node in ("bob", "carol"):
        make_ghost(layout, node)
        look = observer.look(RoundKey(0))
    assert there(look).live == seen


async def test_where_requests_are_paid_for_a_round_still_closes_soon_after_its_last_reward(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settings, "sparing", property(lambda _: True))
    monkeypatch.setattr(looking, "SHORTEST", 0.01)
    make_ghost(layout, "bob")
    never: dict[str, Any] = dict.fromkeys(("reconcile_interval", "heartbeat_interval", "round_interval"), 2 * PATIENCE)
    clock = make_coordinator(layout, max_rounds=3, watch="off", liveness_timeout=4 * PATIENCE, **never)
    async with running(clock) as codes:
        await submit_rounds(layout, range(3))
        await until(lambda: codes)


# ── a folder that is in trouble ─────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("rounds", [1, 3], ids=["at the end", "on the way"])
async def test_a_coordinator_lives_on_while_nothing_can_be_written_and_heals(layout: Layout, rounds: int) -> None:
    """It tells of the end once the folder says it, and of a trouble that lasts once."""
    make_ghost(layout, "bob")
    with capture_logs() as logs:
        async with running(make_coordinator(layout, max_rounds=rounds, round_interval=60.0, **STAYS)) as codes:
            await until(lambda: round_now(layout) == 0)
            with unwritable("clock"):
                put_reward(layout, RoundKey(0), "bob")
                await until(lambda: "state.unwritable" in events_of(logs))
                await anyio.sleep(0.3)  # several looks at the folder
                assert (round_now(layout), codes) == (0, [])
            await submit_rounds(layout, range(1, rounds))
            await until(lambda: codes)
    state, told = there(read_state(layout.run)), events_of(logs)
    assert (codes, state.round, state.finished) == ([0], rounds, True)
    assert [told.count(event) for event in ("state.unwritable", "heartbeat.failed", "state.writable")] == [1, 1, 1]
    assert opened(logs) == [*range(rounds)]


async def test_a_state_that_cannot_be_written_is_tried_again_at_the_next_look_and_not_at_once(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []
    usual = Run.put_sealed

    def put(run: Run, key: str, data: bytes, durable: bool = True) -> None:
        if key != keys.STATE:
            return usual(run, key, data, durable)
        tried.append(SYSTEM_CLOCK.monotonic())
        raise StoreError("no room for it")

    monkeypatch.setattr(Run, "put_sealed", put)
    make_ghost(layout, "bob")
    apart: dict[str, Any] = {"reconcile_interval": 0.3, "heartbeat_interval": 0.3, "liveness_timeout": 60.0}
    async with running(make_coordinator(layout, watch="off", **apart)):
        await until(lambda: len(tried) >= 4)
    assert min(later - earlier for earlier, later in pairwise(tried)) > 0.1


def test_while_peers_cannot_be_listed_nothing_is_decided_and_the_log_says_so_once(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_ghost(layout, "bob")
    ctx = make_context(layout, "clock", **STAYS)
    observer = Observer(ctx, Presence(ctx, "coordinator"), Liveness(60.0))
    usual = FolderStore.list

    def fails(store: FolderStore, prefix: str, **more: Any) -> Page:
        if prefix == keys.PEERS:
            raise StoreError("Stale file handle")
        return usual(store, prefix, **more)

    with capture_logs() as logs:
        with monkeypatch.context() as moment:
            moment.setattr(FolderStore, "list", fails)
            assert [observer.look(RoundKey(0)) for _ in range(3)] == [None] * 3
        assert there(observer.look(RoundKey(0))).live == {"bob"}
    assert events_of(logs) == ["folder.unlistable", "folder.listable"]


async def test_a_link_where_rewards_should_lie_does_not_stop_the_clock(layout: Layout, tmp_path: Path) -> None:
    make_ghost(layout, "bob")
    layout.rewards.mkdir(parents=True)
    (layout.rewards / "round_0").symlink_to(tmp_path)
    async with running(make_coordinator(layout, max_rounds=3, round_interval=0.3, **STAYS)):
        await until(lambda: round_now(layout) >= 1)


# ── more than one coordinator ───────────────────────────────────────────────────────────────────────────────────────
async def test_one_that_stands_by_never_says_anew_what_the_experiment_is(layout: Layout) -> None:
    async with running(make_coordinator(layout, **STAYS)):
        await until(lambda: read_experiment(layout.run))
        before = read_experiment(layout.run)
        with pytest.raises(ExperimentError, match="SEED was 42, now 7"):
            await make_coordinator(layout, "spare", standby=True, seed=7).run()
    assert read_experiment(layout.run) == before


async def test_one_that_stands_by_waits_while_another_is_alive_and_ends_with_the_experiment(layout: Layout) -> None:
    make_ghost(layout, "bob")
    with capture_logs() as logs:
        clock = make_coordinator(layout, max_rounds=2, round_interval=60.0, **STAYS)
        spare = make_coordinator(layout, "spare", standby=True, max_rounds=2, liveness_timeout=3.0)
        async with running(clock) as codes:
            await until(lambda: round_now(layout) == 0)
            async with running(spare) as codes_of_spare:
                await until(lambda: status_of(layout, "spare") == STANDBY and beat_of(layout, "spare") > 65)  # 3.2 s
                await submit_rounds(layout, range(2))
                await until(lambda: codes and codes_of_spare)
    assert (codes, codes_of_spare) == ([0], [0])
    assert "coordinator.takes_over" not in events_of(logs)
    assert there(read_state(layout.run)).updated_by == "clock"


async def test_a_plain_coordinator_starts_beside_one_that_stands_by_and_is_told_of_standby_beside_another(
    layout: Layout,
) -> None:
    async with running(make_coordinator(layout, "spare", standby=True, **STAYS)):
        await until(lambda: status_of(layout, "spare") == STANDBY)
        async with running(make_coordinator(layout)):
            await until(lambda: status_of(layout, "clock") == ACTIVE)
            with pytest.raises(DuplicateNodeError, match="--standby"):
                await make_coordinator(layout, "another").run()


def test_a_clock_that_is_further_is_doubted_for_three_beats_and_not_again_for_four_timeouts(layout: Layout) -> None:
    now = [0.0]
    times = replace(SYSTEM_CLOCK, monotonic=lambda: now[0])
    ctx = make_context(layout, "clock", times=times, heartbeat_interval=2.0, liveness_timeout=10.0)
    observer = Observer(ctx, Presence(ctx, "coordinator"), Liveness(10.0))
    put_state(layout, round=5, updated_by="other")
    doubted = {}
    for now[0] in (100.0, 105.9, 106.0, 139.9, 140.1, 146.0, 146.2):
        assert observer.state(RoundKey(0)) is None
        doubted[now[0]] = observer.in_doubt
    assert [at for at, doubt in doubted.items() if doubt] == [100.0, 105.9, 140.1, 146.0]


@pytest.mark.parametrize("last", [ACTIVE, STOPPED])
@pytest.mark.parametrize(("seen", "says"), [(True, 5), (True, 4), (False, 5)])
def test_a_further_clock_of_one_that_lives_or_has_ended_counts_if_it_was_seen_to_live_and_says_that_it_came_there(
    layout: Layout, seen: bool, says: int, last: str
) -> None:
    now = [0.0]
    times = replace(SYSTEM_CLOCK, monotonic=lambda: now[0])
    ctx = make_context(layout, "clock", times=times, heartbeat_interval=1.0, liveness_timeout=10.0)
    observer = Observer(ctx, Presence(ctx, "coordinator"), Liveness(10.0))
    put_state(layout, round=5, updated_by="other")
    put_reward(layout, RoundKey(4), "bob")

    def other(status: str) -> None:
        peer = make_peer("other", node_role="coordinator", status=status, beat=int(now[0]), round=says)
        put(layout.peer_file("other"), encode(peer))

    for now[0] in range(20 if seen else 0):
        other(ACTIVE)
        observer.look(RoundKey(0))
    other(last)
    observer.look(RoundKey(0))
    assert (observer.state(RoundKey(0)) is not None) == (seen and says == 5)


async def test_of_two_that_are_active_the_later_goes_back_to_standby(layout: Layout) -> None:
    with capture_logs() as logs:
        async with (
            beating(layout, "bob"),
            running(make_coordinator(layout, max_rounds=5, round_interval=60.0, **QUICK)),
        ):
            await until(lambda: round_now(layout) == 0)
            async with beating(layout, "older", node_role="coordinator", registered_at=5.0):
                while "coordinator.steps_down" not in events_of(logs):  # the other may be about to write its own
                    put_state(layout, round=0, updated_by="older", max_rounds=5)
                    await anyio.sleep(0.01)
                await until(lambda: status_of(layout, "clock") == STANDBY)
            await until(lambda: "coordinator.takes_over" in events_of(logs))  # the older one never beats again
            put_reward(layout, RoundKey(0), "bob")
            await until(lambda: round_now(layout) == 1)


async def test_one_that_beats_and_keeps_no_clock_keeps_no_coordinator_from_starting_where_there_is_one(
    layout: Layout,
) -> None:
    put_state(layout, round=0, updated_by="clock")
    async with beating(layout, "idler", node_role="coordinator"), running(make_coordinator(layout)):
        await until(lambda: status_of(layout, "clock") == ACTIVE)


# ── every attack of tests.adversaries.coordination ────────────────────────────────────────────────────────────────────
COUNTS_FOR_SOMETHING = {"forged-rounds"}
"""Who publishes what every worker publishes has a say."""


@pytest.mark.parametrize("kind", sorted(coordination.ATTACKS.keys() - COUNTS_FOR_SOMETHING))
async def test_the_clock_goes_on_after_an_attack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(coordination, "FLOOD", 100)
    layout = Layout(tmp_path, "exp")
    make_ghost(layout, "bob")
    async with running(make_coordinator(layout, max_rounds=90, round_interval=0.5, **STAYS)) as codes:
        await submit_rounds(layout, range(2))
        before = {file: file.read_bytes() for file in layout.root.rglob("*.json")}
        coordination.ATTACKS[kind](layout)
        assert {file: file.read_bytes() for file in layout.root.rglob("*.json")} != before
        await until(lambda: round_now(layout) in (2, 3))
        await submit_rounds(layout, range(round_now(layout), 7))
        assert not codes
