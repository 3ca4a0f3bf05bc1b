"""A worker whose folder refuses its writes goes on, loses nothing that it may not lose, and ends with a clear word."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from swarm.errors import CheckpointError, StoreError
from swarm.node.base import write_queue as queue_module
from swarm.node.worker import saving
from swarm.node.worker import worker as worker_module
from swarm.store.base import Store
from swarm.store.folder.store import FolderStore
from swarm.types import RoundKey
from swarm.wire import keys
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.node.factories import FakePolicy, rounds_saved
from tests.unit.node.nodes import make_worker, rounds_of, rows_of, running, until

pytestmark = pytest.mark.anyio

ALONE: dict[str, Any] = {"clock": "own", "external_groups": 0, "max_rounds": 6}


class Disk:
    """Refuses rollouts, rewards, votes and rows while it is full; checkpoints and heartbeats still fit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self.spared: Path | None = None
        """A folder on another disk."""
        for name in ("put", "append_records"):
            monkeypatch.setattr(FolderStore, name, self._unless_full(getattr(FolderStore, name)))

    def _unless_full(self, write: Callable[..., None]) -> Callable[..., None]:
        def attempt(store: FolderStore, key: str, *arguments: Any, **more: Any) -> None:
            spared = self.spared and store.describe(key).startswith(str(self.spared))
            if self.full and not key.startswith(keys.PEERS) and not spared:
                raise StoreError("no room for it")
            write(store, key, *arguments, **more)

        return attempt


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    monkeypatch.setattr(queue_module, "SHORTEST_PAUSE", 0.01)
    monkeypatch.setattr(queue_module, "LONGEST_PAUSE", 0.05)
    return Disk(monkeypatch)


class Filling(FakePolicy):
    """Fills the disk, and frees it, at its updates."""

    def __init__(self, disk: Disk, **at: bool) -> None:
        super().__init__()
        self._disk = disk
        self._at = at

    def finish_update(self, groups: Any) -> Any:
        self._disk.full = self._at.get(f"update_{len(self.trained)}", self._disk.full)
        return super().finish_update(groups)


async def run(layout: Layout, policy: FakePolicy, **settings: Any) -> None:
    async with running(make_worker(layout, "alice", policy, **{**ALONE, **settings})) as codes:
        await until(lambda: codes)
    assert codes == [0]


async def test_rounds_go_on_and_all_that_they_left_comes_later_once(layout: Layout, disk: Disk) -> None:
    with capture_logs() as logs:
        await run(layout, Filling(disk, update_1=True, update_4=False))
    assert rounds_of(layout) == list(range(6))
    for row in rows_of(layout, "alice"):
        key = RoundKey(row.round)
        assert layout.reward_file(key, "alice").is_file()
        assert row.bytes_published == layout.rollout_file(key, "alice").stat().st_size
    said = [log["event"] for log in logs if log["event"].startswith("folder.")]
    assert said == ["folder.unwritable", "folder.healed"]


async def test_a_row_says_that_its_rollouts_were_given_up(layout: Layout, disk: Disk) -> None:
    worker = make_worker(layout, "alice", Filling(disk, update_0=True, update_4=False), **ALONE)
    worker._ctx.writes._most_droppable = 3000
    async with running(worker) as codes:
        await until(lambda: codes)
    published = [row.bytes_published for row in rows_of(layout, "alice")]
    there = [layout.rollout_file(RoundKey(round_), "alice").is_file() for round_ in range(6)]
    assert [bool(size) for size in published] == there
    assert not all(there)
    assert there[0], "it was published before the disk was full"
    assert there[5], "the newest are kept"


def no_room_for_checkpoints(patch: pytest.MonkeyPatch, fits: Callable[[Store], bool]) -> None:
    save = saving.save_checkpoint

    def save_where_it_fits(store: Store, *arguments: Any, **more: Any) -> str:
        if not fits(store):
            raise CheckpointError("no room for it") from OSError(errno.ENOSPC, "No space left on device")
        return save(store, *arguments, **more)

    patch.setattr(saving, "SAVE_PAUSE", 0.01)
    patch.setattr(saving, "save_checkpoint", save_where_it_fits)


async def test_a_last_checkpoint_is_tried_until_there_is_room(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = count()
    no_room_for_checkpoints(monkeypatch, lambda _: next(tries) >= 3)
    with anyio.fail_after(PATIENCE):
        await run(layout, FakePolicy())
    assert rounds_saved(layout) == 6


async def test_a_node_with_nothing_left_to_do_still_brings_its_last_reward(layout: Layout, disk: Disk) -> None:
    await run(layout, FakePolicy())
    reward = layout.reward_file(RoundKey(5), "alice")
    reward.unlink()
    disk.full = True
    with capture_logs() as logs:
        async with running(make_worker(layout, "alice", **ALONE)) as codes:
            await until(lambda: "node.finished" in [log["event"] for log in logs])
            disk.full = False
            await until(lambda: codes)
    assert codes == [0]
    assert reward.is_file()


# ── what is kept elsewhere ──────────────────────────────────────────────────────────────────────────────────────────
async def ends_badly(layout: Layout, policy: FakePolicy, error: type[Exception], **settings: Any) -> list[Any]:
    """A node that ends because its place takes no more; its events."""
    with capture_logs() as logs, pytest.MonkeyPatch.context() as impatient:
        for module in (worker_module, saving):
            impatient.setattr(module, "PATIENCE_AT_STOP", 0.2)
        with pytest.raises(BaseExceptionGroup) as caught:
            await run(layout, policy, **settings)
    assert caught.group_contains(error)
    return list(logs)


async def ends_full(layout: Layout, disk: Disk, kept: Path, **settings: Any) -> list[Any]:
    """A node that learns for three rounds behind a full disk, which is free again after its end; its events."""
    logs = await ends_badly(layout, Filling(disk, update_3=True), StoreError, kept=kept, **settings)
    disk.full = False
    return logs


def said(logs: list[Any], event: str) -> list[Any]:
    return [log for log in logs if log["event"] == event]


async def test_what_was_learned_on_a_full_disk_is_kept_elsewhere_and_the_next_start_goes_on_from_it(
    tmp_path: Path, layout: Layout, disk: Disk
) -> None:
    healthy, after = FakePolicy(), FakePolicy()
    await run(Layout(tmp_path / "healthy", "exp"), healthy, max_rounds=8)
    disk.spared = tmp_path / "kept"
    (kept,) = said(await ends_full(layout, disk, disk.spared), "checkpoint.kept")
    (node,) = disk.spared.rglob("node.json")
    assert (kept["rows"], kept["folder"]) == (3, str(node.parent)), "it says where"
    layout.checkpoint(99, "alice").mkdir(parents=True)  # a stranger's, which hides nothing
    (layout.checkpoint(99, "alice") / "node.json").write_bytes(b"{}")
    with capture_logs() as logs:
        await run(layout, after, max_rounds=8, kept=disk.spared)
    assert said(logs, "checkpoint.taken_up")[0]["rounds_done"] == 6
    assert not said(logs, "rounds.redoing")
    assert after.weights == healthy.weights, "nothing was lost"
    rows, keys_done = rows_of(layout, "alice"), [RoundKey(round_) for round_ in range(8)]
    assert [row.key for row in rows] == keys_done
    assert all(layout.reward_file(key, "alice").is_file() for key in keys_done)
    published = [layout.rollout_file(key, "alice").is_file() for key in keys_done]
    assert [row.bytes_published > 0 for row in rows] == published
    assert not [*disk.spared.rglob("*.json")], "the place has it again"


async def test_one_state_per_node_is_kept_no_other_takes_it_and_it_goes_where_the_place_has_a_newer(
    tmp_path: Path, layout: Layout, disk: Disk
) -> None:
    kept = disk.spared = tmp_path / "kept"
    for rounds in (6, 12):
        await ends_full(layout, disk, kept, max_rounds=rounds)
    with capture_logs() as logs:
        await run(Layout(tmp_path / "other", "exp"), FakePolicy(), kept=kept)
        async with running(make_worker(layout, "bob", kept=kept, **ALONE)) as codes:
            await until(lambda: codes)
        assert len([*kept.rglob("node.json")]) == 1
        await run(layout, FakePolicy(), max_rounds=14)  # where it cannot look for what is kept
        await run(layout, FakePolicy(), max_rounds=15, kept=kept)
    assert not said(logs, "checkpoint.taken_up")
    assert not [*kept.rglob("node.json")]
    assert rounds_of(layout) == list(range(15))


async def test_if_the_other_disk_is_full_as_well_it_says_so(tmp_path: Path, layout: Layout, disk: Disk) -> None:
    logs = await ends_full(layout, disk, tmp_path / "kept")
    (lost,) = said(logs, "checkpoint.lost")
    assert "no room for it" in lost["error"]
    assert not said(logs, "checkpoint.kept")


async def test_a_last_checkpoint_that_never_fits_is_kept_elsewhere(
    tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    with monkeypatch.context() as full:
        no_room_for_checkpoints(full, lambda store: str(kept) in store.describe())
        logs = await ends_badly(layout, FakePolicy(), CheckpointError, kept=kept)
    assert said(logs, "checkpoint.kept")[0]["rows"] == 0
    with capture_logs() as again:
        await run(layout, FakePolicy(), kept=kept)
    assert said(again, "checkpoint.taken_up")
    assert rounds_saved(layout) == 6
    assert not [*kept.rglob("node.json")]


async def test_a_node_that_is_stopped_does_not_wait_for_a_line_on_which_its_checkpoint_takes_too_long(
    tmp_path: Path, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gigabytes go over a thin line, and a container is killed after its grace."""
    go, whole, kept = threading.Event(), FolderStore.put_bundle, tmp_path / "kept"

    def slow(self: Any, prefix: str, fill: Any) -> None:
        if str(kept) not in self.describe():
            go.wait(PATIENCE)
            raise StoreError("the process has ended")
        whole(self, prefix, fill)

    monkeypatch.setattr(FolderStore, "put_bundle", slow)
    policy = FakePolicy()
    worker = make_worker(layout, "alice", policy, kept=kept, stop_seconds=0.2, **ALONE | {"max_rounds": 9**6})
    try:
        with capture_logs() as logs:
            async with running(worker) as codes:
                await until(lambda: len(rows_of(layout, "alice")) > 2)
                worker.stop(143)
                await until(lambda: codes)
    finally:
        go.set()
    assert codes == [143]
    told = [log["event"] for log in logs if log["event"].startswith("checkpoint.")]
    assert told == ["checkpoint.too_slow", "checkpoint.kept"]
    assert [*kept.rglob("node.json")]
