"""A real FUSE mount, through which no events come: found by itself, and polled.

Two mounts of one folder stand for two machines: what is written through one wakes nobody at the other.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import watchfiles

from swarm.store.folder.filesystem import filesystem_of
from swarm.store.place import open_place
from swarm.store.wake_ups import wake_ups
from tests.patience import PATIENCE

pytestmark = [pytest.mark.engine]
NEVER = 3600.0


@contextmanager
def mounted(folder: Path, at: Path) -> Iterator[Path]:
    """The folder once more, as a file system in user space."""
    if not shutil.which("bindfs"):
        pytest.skip("bindfs is not installed: apt-get install bindfs fuse3")
    at.mkdir()
    done = subprocess.run(["bindfs", folder, at], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this machine mounts no FUSE: {done.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["fusermount3", "-u", "-z", at], check=True)


@pytest.fixture
def mounts(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    (tmp_path / "disk").mkdir()
    with ExitStack() as stack:
        one, other = (stack.enter_context(mounted(tmp_path / "disk", tmp_path / name)) for name in ("one", "other"))
        yield one, other


def test_what_is_written_through_another_mount_wakes_nobody(mounts: tuple[Path, Path]) -> None:
    one, other = mounts
    heard: list[object] = []
    for changes in watchfiles.watch(one, rust_timeout=100, yield_on_timeout=True, debounce=50, step=10):
        heard += changes
        if heard or (other / "last").exists():
            break
        (other / f"{sum(1 for _ in other.iterdir())}").touch()
        if sum(1 for _ in other.iterdir()) > 10:
            (other / "last").touch()
    assert heard == []
    assert (one / "last").exists()
    assert not filesystem_of(one).delivers_events


@pytest.mark.anyio
async def test_changes_through_another_mount_are_seen_long_before_the_interval(mounts: tuple[Path, Path]) -> None:
    import anyio

    one, other = mounts
    here = open_place(one).store("demo", "anna")
    async with wake_ups(here, ["rollouts"], NEVER, anyio.sleep, hints=True) as wakes:
        for number in range(3):
            key = f"rollouts/round_{number}/stage_0/ben.json"
            await anyio.to_thread.run_sync(open_place(other).store("demo", "ben").put, key, b"{}")
            with anyio.fail_after(PATIENCE):
                async for _ in wakes:
                    if await anyio.to_thread.run_sync(here.stat, key):
                        break
