"""What others wrote wakes a node long before it would list, wherever in their subtrees it appears."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest
from anyio.abc import ObjectReceiveStream

from swarm.plugins.syncthing import store as replicated
from swarm.plugins.syncthing.membership import RECORD, Membership, MembersRecord
from swarm.store.base import Store
from swarm.store.wake_ups import wake_ups
from tests.patience import PATIENCE
from tests.plugins.syncthing.test_store import STAGE, Machines, device

NEVER = 3600.0


@asynccontextmanager
async def woken(store: Store) -> AsyncIterator[ObjectReceiveStream[None]]:
    async with wake_ups(store, ["rollouts"], NEVER, anyio.sleep, hints=True) as wakes:
        yield wakes


async def wait_for(store: Store, key: str, wakes: ObjectReceiveStream[None]) -> None:
    with anyio.fail_after(PATIENCE):
        async for _ in wakes:
            if store.stat(key):
                return


@pytest.mark.anyio
async def test_a_file_in_anothers_subtree_wakes(tmp_path: Path) -> None:
    machines = Machines(tmp_path)
    lab = machines.store("lab", "lab")
    async with woken(lab) as wakes:
        for name in ("ben", "eva"):
            machines.plant(name, f"{STAGE}/{name}.json")
            await wait_for(lab, f"{STAGE}/{name}.json", wakes)


@pytest.mark.anyio
async def test_a_member_that_is_new_is_watched_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines(tmp_path)
    watched, begun = list[list[str]](), anyio.Event()

    async def watch(self: object, members: Membership, *_: object) -> None:
        watched.append(sorted(members.members))
        begun.set()
        await anyio.sleep_forever()

    monkeypatch.setattr(replicated, "FOLLOWED_EVERY", 0.01)
    monkeypatch.setattr(replicated.ReplicatedStore, "_watch", watch)
    async with woken(machines.store("lab", "lab")):
        with anyio.fail_after(PATIENCE):
            await begun.wait()
            begun = anyio.Event()
            members = MembersRecord(tmp_path / "lab").read().with_member("zoe", device("Z"))
            (tmp_path / "lab" / "new").write_bytes(msgspec.json.encode(members))
            (tmp_path / "lab" / "new").rename(tmp_path / "lab" / RECORD)
            await begun.wait()
    assert watched == [["ben", "eva", "lab"], ["ben", "eva", "lab", "zoe"]]
