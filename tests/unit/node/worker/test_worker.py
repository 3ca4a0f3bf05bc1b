"""A worker at work: one process, one real folder, no model."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import UnsetType
from structlog.testing import capture_logs

from swarm.config import Settings
from swarm.errors import CheckpointError, MissedError
from swarm.node.base import looking
from swarm.node.process.system import ThreadBlocking
from swarm.node.worker import row, saving
from swarm.records.files import read_peer
from swarm.records.liveness import ACTIVE, STOPPED
from swarm.records.progress import NodeProgress
from swarm.records.table import parse_row
from swarm.store.base import Store
from swarm.store.folder import bundles
from swarm.store.folder.beneath import Within, make_folder
from swarm.tasks.scoring import GroupScore
from swarm.types import Completion, Dialogue, Origin, RoundKey, TrainGroup
from swarm.wire.codec import decode, encode
from swarm.wire.messages import MetricsRow, RewardFile, RolloutFile, WinnersFile
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.node.factories import (
    DRAWS,
    FakePolicy,
    FakeSnapshot,
    FakeTaskSource,
    make_ghost,
    make_rollouts,
    put,
    rounds_saved,
    there,
)
from tests.unit.node.nodes import (
    make_coordinator,
    make_worker,
    play_rounds,
    play_to_the_end,
    released,
    rollouts_of,
    rounds_of,
    rows_of,
    run_all,
    running,
    set_clock,
    status_of,
    until,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient_workers")]

R0 = RoundKey(0)
ROUNDING = 0.005
"""Seconds: rows tell times in milliseconds."""


# ── whole swarms ────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_coordinator_and_three_workers_run_all_rounds(layout: Layout) -> None:
    names = ("alice", "bob", "carol")
    workers = [make_worker(layout, name, expected_workers=3) for name in names]
    codes = await run_all(make_coordinator(layout, expected_workers=3), *workers)
    assert codes == [0, 0, 0, 0]
    for name in names:
        rows = rows_of(layout, name)
        assert [row.round for row in rows] == list(range(5)), "one row per node and round"
        assert [reward_in(layout.reward_file(row.key, name)) for row in rows] == [row.my_reward for row in rows]
        for one in rows:
            decode(layout.winners_file(one.round, name).read_bytes(), WinnersFile, "winners")
            assert (one.external_groups, one.gather_timed_out, name in one.external_by_peer) == (2, False, False)
        assert all(row.total_agents == 3 for row in rows[:-1])
        assert status_of(layout, name) == STOPPED
        assert layout.checkpoint(5, name).is_dir()


async def test_a_worker_that_waits_makes_two_jobs_a_heartbeat(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """There were four: to read its beat, to write it, to look at its peers, and who of them has published."""
    run, jobs = ThreadBlocking.run, list[str]()

    async def counted(self: ThreadBlocking, call: Any, *args: Any, **kwargs: Any) -> Any:
        jobs.append(str(call))
        return await run(self, call, *args, **kwargs)

    async with running(make_worker(layout, "alice", expected_workers=2, reconcile_interval=60.0)):
        await until(lambda: status_of(layout, "alice") == ACTIVE)
        monkeypatch.setattr(ThreadBlocking, "run", counted)
        before = there(read_peer(layout.run, "alice")).beat
        await until(lambda: len(jobs) >= 24)
        assert there(read_peer(layout.run, "alice")).beat - before >= 9


async def test_where_writes_are_paid_for_the_reward_holds_the_vote(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settings, "sparing", property(lambda _: True))
    monkeypatch.setattr(looking, "SHORTEST", 0.01)
    await play_to_the_end(layout, range(1), make_worker(layout, "alice", reconcile_interval=0.05))
    reward = decode(layout.reward_file(R0, "alice").read_bytes(), RewardFile, "reward")
    assert reward.reward > 0
    assert reward.winners == ["alice"]
    assert not layout.winners_of(0).exists()


async def test_a_worker_alone_says_that_it_had_fewer_external_groups_and_goes_on(layout: Layout) -> None:
    codes = await run_all(make_coordinator(layout), make_worker(layout, "alice", external_groups=4))
    assert codes == [0, 0]
    rows = rows_of(layout, "alice")
    assert [(row.external_groups, row.external_wanted, row.local_groups) for row in rows] == [(0, 4, 2)] * 5
    assert not any(row.gather_timed_out for row in rows), "nobody is there to be waited for"


async def test_a_torn_state_file_is_no_clock(layout: Layout) -> None:
    async with running(make_worker(layout, "alice")):
        await play_rounds(layout, range(3, 4))
        with capture_logs() as logs:
            put(layout.state_file, layout.state_file.read_bytes()[:20])
            await until(lambda: any(log["event"] == "state.unreadable" for log in logs))
        await play_rounds(layout, range(4, 5))
    assert rounds_of(layout) == [3, 4]


# ── peers' files ────────────────────────────────────────────────────────────────────────────────────────────────────
async def external_groups(layout: Layout, of_bob: RolloutFile, **settings: Any) -> list[TrainGroup]:
    """What alice trains on of this file of bob's."""
    make_ghost(layout, "bob")
    put(layout.rollout_file(R0, "bob"), encode(of_bob))
    policy = FakePolicy()
    async with running(make_worker(layout, "alice", policy, liveness_timeout=60.0, **settings)):
        await play_rounds(layout, range(1))
    return [group for group in policy.trained[0] if group.external]


async def test_peers_with_fewer_completions_are_trained_on_like_any(layout: Layout) -> None:
    """They once crashed the trainer."""
    found = await external_groups(layout, make_rollouts("bob", R0, groups=8, size=3), external_groups=4)
    assert {len(group.completions) for group in found} == {3}


async def test_a_peers_own_rewards_are_never_used(layout: Layout) -> None:
    """The peer's own answer, metadata and reward were once trusted."""
    file = make_rollouts("bob", R0, groups=8)
    for entries in file.rollouts.values():
        for entry in entries:
            entry.reward = 1.0
    found = await external_groups(layout, file)
    assert len(found) == 2
    assert all(any(group.advantages) for group in found)


# ── while the executor computes ─────────────────────────────────────────────────────────────────────────────────────
async def test_the_folder_is_read_and_the_heart_beats_while_a_training_step_blocks(layout: Layout) -> None:
    policy, source = FakePolicy(hold_at="train"), FakeTaskSource()
    with released(policy):
        async with running(make_worker(layout, "alice", policy, source)) as codes:
            await set_clock(layout, 0)
            await until(policy.holding.is_set)
            assert layout.rollout_file(R0, "alice").exists(), "published before the training"
            make_ghost(layout, "bob", rounds=2)
            await set_clock(layout, 1)
            theirs = {e[0].prompt for r in (0, 1) for e in rollouts_of(layout, r, "bob").rollouts.values()}
            await until(lambda: theirs <= set(source.scored))
            beat = read_peer(layout.run, "alice")
            await until(lambda: read_peer(layout.run, "alice") != beat)
            assert policy.trained == []
            policy.go.set()
            await until(layout.reward_file(RoundKey(1), "alice").exists)
            await set_clock(layout, 2, finished=True)
            await until(lambda: codes)
    first, second = rows_of(layout, "alice")
    assert first.seconds_sharing_hidden > 0
    assert set(second.external_by_peer) == {"bob"}


def put_rollouts(layout: Layout, peer: str, key: RoundKey = R0) -> None:
    put(layout.rollout_file(key, peer), encode(make_rollouts(peer, key)))


@dataclass
class TimedPolicy(FakePolicy):
    """Remembers when it generated, Unix seconds."""

    moments: list[float] = field(default_factory=list)

    def generate(self, prompts: Sequence[str | Dialogue], **asked: Any) -> list[tuple[Completion, ...]]:
        self.moments.append(time.time())
        return super().generate(prompts, **asked)


async def test_while_the_peers_are_awaited_own_gradients_are_added_up_and_the_next_rounds_questions_made(
    layout: Layout,
) -> None:
    policy, source = FakePolicy(), FakeTaskSource()
    make_ghost(layout, "bob")
    async with running(make_worker(layout, "alice", policy, source)):
        await set_clock(layout, 0)
        await until(lambda: policy.begun and source.asked == 4)
        assert not policy.trained
        assert not any(group.external for group in policy.begun)
        put_rollouts(layout, "bob")
        await until(lambda: rows_of(layout, "alice"))
        await set_clock(layout, 1)
        await until(layout.rollout_file(RoundKey(1), "alice").exists)
    assert [group.external for group in policy.trained[0]] == [False, False, True, True]
    assert source.asked <= 6, "and are not made a second time"


async def test_with_staleness_the_next_round_is_generated_and_added_up_before_it_is_open(layout: Layout) -> None:
    policy = FakePolicy()
    make_ghost(layout, "bob")
    async with running(make_worker(layout, "alice", policy, staleness=1, liveness_timeout=60.0)):
        await set_clock(layout, 0)
        await until(lambda: policy.generated == 2)  # while the peers are awaited
        assert not policy.trained
        assert not layout.rollout_file(RoundKey(1), "alice").exists(), "a round that is not open has no files"
        put_rollouts(layout, "bob")
        await until(lambda: policy.generated == 3)  # the one after it, as soon as the update is made
        await until(lambda: policy.begun)
        assert len(policy.trained) == 1
        ahead = {group.prompt for group in policy.begun}
        put_rollouts(layout, "bob", RoundKey(1))
        await set_clock(layout, 1)
        await until(lambda: len(policy.trained) == 2)
    assert {group.prompt for group in policy.trained[1] if not group.external} == ahead


async def test_a_slow_scorer_does_not_change_which_policy_generates(layout: Layout) -> None:
    source = FakeTaskSource(slow=0.05)
    worker = make_worker(layout, "alice", source=source, external_groups=0, staleness=1)
    assert await run_all(make_coordinator(layout), worker) == [0, 0]
    assert [rollouts_of(layout, round_, "alice").policy.rounds_trained for round_ in range(5)] == [0, 0, 1, 2, 3]
    slow = [rollouts_of(layout, round_, "alice").rollouts for round_ in range(5)]
    fast_layout = Layout(layout.path / "fast", "exp")
    fast = make_worker(fast_layout, "alice", external_groups=0, staleness=1)
    assert await run_all(make_coordinator(fast_layout), fast) == [0, 0]
    assert slow == [rollouts_of(fast_layout, round_, "alice").rollouts for round_ in range(5)]


class LateVerdicts(FakeTaskSource):
    """Says of one round's answers what they are worth when it is let go."""

    def __init__(self, key: RoundKey) -> None:
        super().__init__()
        self._late = {request.seed for request in DRAWS.questions("alice", key, 2)}
        self.go, self.gone = anyio.Event(), 0

    async def score(
        self, origin: Origin, claimed_prompt: str | None, completions: Sequence[str | Completion]
    ) -> GroupScore:
        if origin.seed in self._late:
            await self.go.wait()
            self.gone += 1
        return await super().score(origin, claimed_prompt, completions)


async def test_a_skipped_round_that_is_scored_late_takes_nothing_from_the_update_of_another(layout: Layout) -> None:
    policy, source = FakePolicy(), LateVerdicts(RoundKey(1))
    make_ghost(layout, "bob")
    async with running(make_worker(layout, "alice", policy, source, staleness=1, liveness_timeout=60.0)):
        await set_clock(layout, 0)
        await until(layout.rollout_file(R0, "alice").exists)
        put_rollouts(layout, "bob")
        await until(lambda: rows_of(layout, "alice"))
        await set_clock(layout, 7)
        await until(lambda: policy.begun and layout.rollout_file(RoundKey(7), "alice").exists())
        own = {entries[0].prompt for entries in rollouts_of(layout, 7, "alice").rollouts.values()}
        assert {group.prompt for group in policy.begun} == own
        source.go.set()
        await until(lambda: source.gone == 2)
        put_rollouts(layout, "bob", RoundKey(7))
        await until(lambda: len(rows_of(layout, "alice")) == 2)
    assert not rows_of(layout, "alice")[1].generated_ahead
    assert {group.prompt for group in policy.trained[1] if not group.external} == own


async def test_the_row_and_the_log_say_when_a_node_generated_published_fetched_and_updated(layout: Layout) -> None:
    make_ghost(layout, "bob")
    with capture_logs() as logs:
        async with running(make_worker(layout, "alice")):
            await set_clock(layout, 0)
            await until(lambda: layout.rollout_file(R0, "alice").exists())
            put_rollouts(layout, "bob")
            await until(lambda: [log for log in logs if log["event"] == "round.completed"])
    row = rows_of(layout, "alice")[0]
    activities = (row.generating, row.publishing, row.fetching, row.updating)
    assert all(activities)
    for spans in activities:
        moments = [moment for span in spans for moment in span]
        assert moments == sorted(moments)
        assert moments[0] >= 0
        assert moments[-1] <= row.seconds_round + 0.001
    assert row.generating[0][1] <= row.publishing[0][1] <= row.updating[-1][1]
    assert row.fetching[-1][1] <= row.updating[-1][1]
    (line,) = [log for log in logs if log["event"] == "round.completed"]
    assert line["updating"] == f"{row.updating[0][0]:.2f} to {row.updating[-1][1]:.2f}"


async def test_what_is_generated_ahead_stands_in_the_row_of_the_round_in_which_it_was(layout: Layout) -> None:
    """So that the rows of a node, one after the other, draw what it did at every moment."""
    policy = TimedPolicy()
    worker = make_worker(layout, "alice", policy, external_groups=0, staleness=1)
    assert await run_all(make_coordinator(layout), worker) == [0, 0]
    rows = rows_of(layout, "alice")
    assert rows[-1].generating == [], "the last round was generated before"
    began = [row.timestamp - row.seconds_round for row in rows]
    told = [(at + first, at + last) for at, row in zip(began, rows, strict=True) for first, last in row.generating]
    assert len(policy.moments) == len(rows)
    for moment in policy.moments:
        assert any(first - ROUNDING <= moment <= last + ROUNDING for first, last in told)
    ends = [row.timestamp - row.seconds_round + row.updating[-1][1] for row in rows]
    assert ends == sorted(ends)


# ── stop and go on ──────────────────────────────────────────────────────────────────────────────────────────────────
async def test_a_lone_worker_that_is_asked_to_stop_says_how_long_its_steps_took(layout: Layout) -> None:
    with capture_logs() as logs:
        for rounds in (range(0), range(2)):
            worker = make_worker(layout, "alice")
            async with running(worker) as codes:
                await play_rounds(layout, rounds)
                worker.stop(130)
                await until(codes.copy)
    early, late = [log for log in logs if log["event"] == "node.stopping"]
    assert early["first"] == "finishes its step and saves (no round has shown yet how long a step takes)"
    assert re.fullmatch(r"finishes its step and saves \(lately a step took [\d.]+s at most\)", late["first"])
    assert late["again"] == "Ctrl-C once more ends it at once"


@pytest.mark.parametrize("hold_at", ["generate", "train"])
async def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path, hold_at: str) -> None:
    """Cumulative reward was once reset at restart, and checkpoints written only at the end and never loaded."""
    kind: dict[str, Any] = {"liveness_timeout": 60.0, "local_groups": 1, "external_groups": 1}
    whole, stopped = Layout(tmp_path / "whole", "exp"), Layout(tmp_path / "stopped", "exp")
    for layout in (whole, stopped):
        make_ghost(layout, "bob", rounds=6)
    await play_to_the_end(whole, range(6), make_worker(whole, "alice", **kind))

    policy = FakePolicy()
    worker = make_worker(stopped, "alice", policy, **kind)
    with released(policy):
        async with running(worker) as codes:
            await play_rounds(stopped, range(3))
            policy.hold_at = hold_at
            await set_clock(stopped, 3)
            await until(policy.holding.is_set)
            worker.stop(143)
            policy.go.set()
            await until(lambda: codes)
        assert codes == [143]
    assert status_of(stopped, "alice") == STOPPED
    assert rounds_saved(stopped) == (4 if hold_at == "train" else 3)
    assert rounds_of(stopped) == list(range(rounds_saved(stopped)))
    await play_to_the_end(stopped, range(3, 6), make_worker(stopped, "alice", **kind))

    of_both = [[rollouts_of(layout, r, "alice").rollouts for r in range(6)] for layout in (stopped, whole)]
    assert of_both[0] == of_both[1]
    rows, expected = rows_of(stopped, "alice"), [row.my_reward for row in rows_of(whole, "alice")]
    assert [row.my_reward for row in rows] == expected
    assert [row.cumulative_reward for row in rows] == pytest.approx([*accumulate(expected)])


async def test_every_so_many_rows_one_says_what_all_add_up_to_over_a_restart_too(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row, "TOTALS_EVERY", 4)
    make_ghost(layout, "bob", rounds=9)
    first, second = (make_worker(layout, "alice", local_groups=1, external_groups=1) for _ in range(2))
    async with running(first):
        await play_rounds(layout, range(5))
    await play_to_the_end(layout, range(5, 9), second)
    lines = layout.metrics_file("alice").read_bytes().splitlines()
    said = {at: parse_row(line, MetricsRow) for at, line in enumerate(lines, 1)}
    with_totals = {at: one.totals for at, one in said.items() if one and not isinstance(one.totals, UnsetType)}
    assert [*with_totals] == [4, 8]
    for at, totals in with_totals.items():
        whole = NodeProgress()
        whole.observe(lines[:at])
        assert totals == whole.totals()
    assert with_totals[8].counts["accepted_by_peer"]["bob"] > 0
    assert with_totals[8].rounds == [(0, 7)]


async def test_a_worker_that_is_ready_when_all_rounds_are_over_says_why_it_did_nothing_and_is_no_success(
    layout: Layout,
) -> None:
    await set_clock(layout, 3, finished=True)
    with capture_logs() as logs:
        assert await run_all(make_worker(layout, "alice")) == [MissedError.exit_code]
    (said,) = (log for log in logs if log["event"] == "node.finished")
    assert (said["reason"], said["log_level"], said["code"]) == ("missed", "error", MissedError.code)
    assert "all 3 rounds were over" in said["why"]
    assert "--rounds" in said["remedy"]


async def test_a_checkpoint_holds_the_weights_of_the_round_it_is_named_after(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where writing the one before takes longer than a round."""
    written: dict[int, str] = {}
    slow = FakePolicy()

    def save_slowly(_store: Store, state: object, snapshot: FakeSnapshot, *, keep: int, stages: int) -> str:
        slow.go.wait(PATIENCE)
        written[state.rounds_done] = snapshot.content  # type: ignore[attr-defined]
        return "there"

    monkeypatch.setattr(saving, "save_checkpoint", save_slowly)
    policy, weights = FakePolicy(), ["fresh"]
    worker = make_worker(layout, "alice", policy, checkpoint_interval=1, local_groups=8, external_groups=0)
    with released(slow), capture_logs() as logs:
        async with running(worker) as codes:
            for round_ in range(4):
                await play_rounds(layout, range(round_, round_ + 1))
                weights.append(policy.weights)
            await set_clock(layout, 4, finished=True)
            slow.go.set()
            await until(lambda: codes)
    assert written == {rounds: weights[rounds] for rounds in (1, 4)}, "those that would pile up are left out"
    assert [log["rounds_done"] for log in logs if log["event"] == "checkpoint.skipped"] == [2], "said once"


async def test_checkpoints_come_at_the_interval_and_the_last_ones_stay(layout: Layout) -> None:
    worker = make_worker(layout, "alice", checkpoint_interval=2, checkpoint_keep=2)
    await play_to_the_end(layout, range(7), worker)
    assert {folder.name for folder in layout.checkpoints.iterdir()} == {"round_6", "round_7"}


# ── crashes ─────────────────────────────────────────────────────────────────────────────────────────────────────────
async def test_own_groups_that_cannot_be_read_again_are_made_anew(layout: Layout) -> None:
    put(layout.rollout_file(R0, "alice"), b'{"torn')
    async with running(make_worker(layout, "alice")):
        await play_rounds(layout, range(1))
    assert len(rollouts_of(layout, 0, "alice").rollouts) == 2


async def test_all_rewards_that_a_full_disk_or_a_copy_kept_back_are_submitted_at_the_next_start(layout: Layout) -> None:
    """At the end of a node on a full disk rows go first, so several rewards may be missing; so they may in a copy that
    broke off, and some are there among them."""
    await play_to_the_end(layout, range(4), make_worker(layout, "alice"))
    files = [layout.reward_file(RoundKey(round_), "alice") for round_ in range(4)]
    first, before = files[0].stat().st_mtime_ns, [reward_in(file) for file in files]
    for round_ in (1, 3):
        files[round_].unlink()
    await set_clock(layout, 3)
    async with running(make_worker(layout, "alice")):
        await until(lambda: all(file.exists() for file in files))
    assert [reward_in(file) for file in files] == before
    assert files[0].stat().st_mtime_ns == first


def reward_in(file: Path) -> float:
    return decode(file.read_bytes(), RewardFile, "reward").reward


async def test_a_reward_is_written_once(layout: Layout) -> None:
    await play_to_the_end(layout, range(1), make_worker(layout, "alice"))
    before = layout.reward_file(R0, "alice").read_bytes()
    await play_to_the_end(layout, range(1, 2), make_worker(layout, "alice"))
    assert layout.reward_file(R0, "alice").read_bytes() == before


async def test_an_exception_in_training_ends_the_node_and_is_no_success(layout: Layout) -> None:
    """Exceptions were once swallowed and "training complete" logged with exit code 0."""
    worker = make_worker(layout, "alice", FakePolicy(fail_at=1))
    with capture_logs() as logs, pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - both rounds belong to it
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(worker.run)
            await play_rounds(layout, range(2))
    assert caught.group_contains(RuntimeError, match="the gradient exploded")
    assert rounds_of(layout) == [0]
    assert not layout.reward_file(RoundKey(1), "alice").exists()
    assert status_of(layout, "alice") == STOPPED
    assert not [log for log in logs if log["event"] == "node.finished"]


def refuse_checkpoints(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """As a folder in which something stands in the way of the checkpoint after so many rounds."""

    def make(folder: Within) -> list[Within]:
        if folder.name == f"round_{after}":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        return make_folder(folder)

    monkeypatch.setattr(bundles, "make_folder", make)


async def test_a_checkpoint_that_cannot_be_written_costs_no_round(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_checkpoints(monkeypatch, after=1)
    with capture_logs() as logs:
        await play_to_the_end(layout, range(2), make_worker(layout, "alice", checkpoint_interval=1))
    assert rounds_of(layout) == [0, 1]
    assert [log["rounds_done"] for log in logs if log["event"] == "checkpoint.failed"] == [1]
    assert layout.checkpoint(2, "alice").is_dir()


async def test_a_last_checkpoint_that_cannot_be_written_is_no_success(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_checkpoints(monkeypatch, after=2)
    with pytest.raises(ExceptionGroup) as caught:
        await play_to_the_end(layout, range(2), make_worker(layout, "alice"))
    assert caught.group_contains(CheckpointError, match="round_2")
    assert len(rows_of(layout, "alice")) == 2


async def test_a_worker_says_once_that_nobody_keeps_the_clock_and_when_somebody_does(layout: Layout) -> None:
    with capture_logs() as logs:
        async with running(make_worker(layout, "alice", liveness_timeout=1.0)) as codes:
            await until(lambda: "coordinator.absent" in [log["event"] for log in logs])
            clock = make_coordinator(layout, max_rounds=20)  # for many heartbeats, at one of which it is seen
            assert await run_all(clock) == [0]
            await until(lambda: codes)
    events = [log["event"] for log in logs if log["event"] in ("coordinator.absent", "coordinator.back")]
    assert set(events[::2]) == {"coordinator.absent"}, "each once, before the other"
    assert set(events[1::2]) == {"coordinator.back"}


# ── a clock that somebody has written over ──────────────────────────────────────────────────────────────────────────
async def test_a_worker_that_is_slower_than_the_clock_doubts_nothing_aloud(layout: Layout) -> None:
    """Rounds that close before it is done, and an end that finds it at work, are every slow node's lot."""
    slow = FakePolicy(hold_at="train")
    alice = make_worker(layout, "alice", slow, heartbeat_interval=0.3)  # much slower than others' beats
    with capture_logs() as logs:
        async with running(alice, make_worker(layout, "bob"), make_coordinator(layout, round_interval=0.2)) as codes:
            await until(lambda: len(codes) == 2)  # all but alice
            slow.go.set()
            await until(lambda: len(codes) == 3)
    assert codes == [0, 0, 0]
    assert "state.doubted" not in [log["event"] for log in logs]
