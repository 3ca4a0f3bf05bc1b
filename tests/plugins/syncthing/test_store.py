"""One key space over the subtrees of several members, each of which may hold anything."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from pathlib import Path

import anyio
import msgspec
import pytest
from anyio.abc import ObjectReceiveStream

from swarm.errors import AlreadyThereError, ConfigError, ProtocolError, StoreError
from swarm.plugins.syncthing import store as replicated
from swarm.plugins.syncthing.membership import RECORD, Member, Membership, MembersRecord
from swarm.plugins.syncthing.store import ReplicatedStore
from swarm.records.listing import NodeFiles, nodes_in, rounds_in
from swarm.store.base import PAGE, Store, get_many
from swarm.store.health import FolderHealth
from swarm.store.place import open_place
from swarm.store.wake_ups import wake_ups
from tests.conformance.test_births import Machine, born_in
from tests.patience import PATIENCE
from tests.plugins.syncthing.worlds import ReplicatedFarAway

LIMIT = 1 << 16
STAGE = "rollouts/round_3/stage_0"


def device(letter: str) -> Member:
    return Member("-".join([letter * 7] * 8))


class Machines:
    """The machines of three members, between whose folders everything appears at once."""

    def __init__(self, tmp: Path) -> None:
        members = {name: device(name[0].upper()) for name in ("lab", "ben", "eva")}
        self.path = {name: tmp / name for name in members}
        for own, path in self.path.items():
            path.mkdir()
            record = Membership("place", host="lab", own=own, members=members)
            (path / RECORD).write_bytes(msgspec.json.encode(record))
        for own in members:
            (self.path[own] / own).mkdir()
            for other in members.keys() - {own}:
                (self.path[other] / own).symlink_to(self.path[own] / own)

    def store(self, own: str, writer: str | None = None) -> Store:
        return open_place(self.path[own]).store("demo", writer)

    def subtree(self, own: str) -> Path:
        return self.path[own] / own / "experiments" / "demo"

    def plant(self, own: str, key: str, data: bytes = b"junk") -> Path:
        """What a device of Syncthing writes that keeps to no rule."""
        file = self.subtree(own) / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return file


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


def names(store: Store, prefix: str) -> list[str]:
    return [entry.name for entry in store.list(prefix).entries]


def test_what_each_member_writes_is_one_key_space_on_every_machine(machines: Machines) -> None:
    for own in machines.path:
        machines.store(own, own).put(f"{STAGE}/{own}-0.json", own.encode())
    machines.store("lab", "lab").put("state/current_state.json", b"clock")
    for own in machines.path:
        store = machines.store(own)
        assert names(store, STAGE) == ["ben-0.json", "eva-0.json", "lab-0.json"]
        assert [name for name in names(store, "") if name != ".tmp"] == ["rollouts", "state"]
        assert store.get(f"{STAGE}/ben-0.json", LIMIT).data == b"ben"
        assert store.get("state/current_state.json", LIMIT).data == b"clock"


@pytest.mark.parametrize("name", ["ben-{:04}.json", "a{:04}/ben.json", "{:04}.json", ".syncthing.{:04}"])
@pytest.mark.parametrize("limit", [3, 7, 60])
def test_however_many_names_a_member_makes_those_of_others_are_listed(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, name: str, limit: int
) -> None:
    for module in ("swarm.plugins.syncthing.store", "swarm.store.folder.fetch", "swarm.records.listing"):
        monkeypatch.setattr(f"{module}.MOST_NAMES", limit)
    for own in ("lab", "eva"):
        machines.plant(own, f"{STAGE}/{own}.json")
    for number in range(61):
        machines.plant("ben", f"{STAGE}/{name.format(number)}")
    for own in ("lab", "eva"):
        assert {"lab", "eva"} <= nodes_in(machines.store(own), STAGE)


def test_more_names_than_a_member_s_share_are_all_listed_where_others_have_them_too(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the rounds of a long run, on the machine of somebody who came late."""
    for module in ("swarm.plugins.syncthing.store", "swarm.store.folder.fetch", "swarm.records.listing"):
        monkeypatch.setattr(f"{module}.MOST_NAMES", 60)
    for own in ("lab", "ben"):
        for number in range(25):
            machines.plant(own, f"rewards/round_{number}/stage_0/{own}.json")
    for own in machines.path:
        assert rounds_in(machines.store(own), "rewards") == list(range(25))


def test_pages_of_several_subtrees_give_every_name_once_and_in_order(machines: Machines) -> None:
    written = [f"{own}-{number}.json" for own in machines.path for number in range(7)]
    for name in written:
        machines.plant(name.partition("-")[0], f"{STAGE}/{name}")
    for limit in (1, 2, 3, 50):
        found, after = list[str](), ""
        while True:
            page = machines.store("eva").list(STAGE, after=after, limit=limit)
            assert len(page.entries) <= limit
            found += [entry.name for entry in page.entries]
            if not (after := page.next):
                break
        assert found == sorted(written)


@pytest.mark.parametrize(
    "key",
    [
        *(f"{STAGE}/ben.json", f"{STAGE}/ben-0.json", "peers/ben.json", "rewards/round_3/stage_0/lab-1.json"),
        *("state/current_state.json", "experiment.json", "reward.png", "judge/questions/round_1/ben.json"),
        *("logs/ben/metrics.jsonl", "logs/judge/judge.jsonl", "checkpoints/round_5/ben/node.json"),
    ],
)
def test_a_key_of_another_in_a_members_own_subtree_is_not_there(machines: Machines, key: str) -> None:
    machines.plant("eva", key)
    store, (folder, _, name) = machines.store("ben"), key.rpartition("/")
    assert name not in names(store, folder)
    assert store.stat(key) is None
    with pytest.raises(FileNotFoundError):
        store.get(key, LIMIT)
    assert get_many(store, [key], LIMIT) == [None]
    assert store.read_records(key).records == []


def test_what_no_node_of_a_member_writes_is_not_there(machines: Machines) -> None:
    for name in ("zoe.json", "eva", "eva.json.tmp", ".hidden.json", "eva-0.sync-conflict-20260101-120000-ABCDEFG.json"):
        machines.plant("eva", f"{STAGE}/{name}")
    machines.plant("eva", f"{STAGE}/eva.json")
    for name in ("~syncthing~metrics.jsonl.tmp", ".syncthing.metrics.jsonl.tmp", "metrics.sync-conflict-1.jsonl"):
        machines.plant("eva", f"logs/eva/{name}")
    machines.plant("eva", "logs/eva/metrics.jsonl")
    (machines.subtree("eva") / ".stfolder").mkdir()
    store = machines.store("ben")
    assert names(store, STAGE) == ["eva.json"]
    assert names(store, "logs/eva") == ["metrics.jsonl"]
    assert names(store, "") == ["logs", "rollouts"]


def test_checkpoints_are_there_on_their_own_machine_alone(machines: Machines) -> None:
    for own in machines.path:
        machines.store(own, own).put_bundle(f"checkpoints/round_5/{own}-0", lambda into: (into / "a").touch())
    for own in machines.path:
        assert names(machines.store(own), "checkpoints") == ["round_5"]
        assert names(machines.store(own), "checkpoints/round_5") == [f"{own}-0"]
        with machines.store(own).open_bundle(f"checkpoints/round_5/{own}-0") as folder:
            assert [file.name for file in folder.iterdir()] == ["a"]
    with pytest.raises(FileNotFoundError):
        machines.store("lab").open_bundle("checkpoints/round_5/ben-0")


def test_only_the_own_keys_are_written(machines: Machines) -> None:
    eva = machines.store("eva", "eva-0")
    eva.put("peers/eva-0.json", b"{}")
    for key in ("peers/ben.json", "state/current_state.json", "experiment.json", "peers/zoe.json", "junk"):
        for write in (
            lambda key=key: eva.put(key, b"{}"),
            lambda key=key: eva.append_records(key, [b"row"], durable=True),
            lambda key=key: eva.open_log(key),
            lambda key=key: eva.remove(key),
        ):
            with pytest.raises(StoreError, match="this machine is eva"):
                write()
    with pytest.raises(StoreError, match="the clock and the experiment are lab's"):
        eva.put("state/current_state.json", b"{}")
    machines.store("lab", "lab").put("experiment.json", b"lab's")
    with pytest.raises(AlreadyThereError):
        eva.put("experiment.json", b"eva's", if_absent=True)
    assert sorted(file.name for file in machines.subtree("eva").rglob("*.json")) == ["eva-0.json"]


def test_a_members_links_lead_nowhere(machines: Machines, tmp_path: Path) -> None:
    machines.plant("ben", f"{STAGE}/ben.json", b"ben's")
    machines.plant("eva", f"{STAGE}/eva.json", b"x")
    outside = machines.plant("eva", f"{STAGE}/eva-1.json").with_name("eva-2.json")
    outside.symlink_to(machines.subtree("ben") / STAGE / "ben.json")
    with pytest.raises(ProtocolError, match="eva-2"):
        machines.store("lab").get(f"{STAGE}/eva-2.json", LIMIT)
    os.rename(machines.path["eva"] / "eva" / "experiments", tmp_path / "aside")
    (machines.path["eva"] / "eva" / "experiments").symlink_to(machines.path["ben"] / "ben" / "experiments")
    lab = machines.store("lab")
    with pytest.raises(ProtocolError):
        lab.get(f"{STAGE}/eva.json", LIMIT)


def test_one_members_trouble_hides_nobody_else(machines: Machines) -> None:
    machines.plant("ben", f"{STAGE}/ben.json")
    machines.plant("eva", "rollouts/round_3/stage_0")  # a file, where others have a folder
    assert names(machines.store("lab"), STAGE) == ["ben.json"]
    (machines.subtree("eva") / STAGE).unlink()
    (machines.subtree("eva") / STAGE).symlink_to(machines.subtree("ben") / STAGE)
    assert names(machines.store("lab"), STAGE) == ["ben.json"]


def test_a_stranger_becomes_no_member_by_what_lies_in_a_subtree(machines: Machines) -> None:
    machines.plant("eva", f"{STAGE}/eva.json")
    (machines.path["eva"] / "eva" / RECORD).write_bytes((machines.path["eva"] / RECORD).read_bytes())
    (machines.path["lab"] / "zoe").mkdir()
    file = machines.path["lab"] / "zoe" / "experiments" / "demo" / STAGE / "zoe.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"{}")
    assert names(machines.store("lab"), STAGE) == ["eva.json"]


def test_experiments_are_the_hosts_and_are_there_before_one_has_written_in_them(machines: Machines) -> None:
    machines.plant("eva", "experiment.json")
    place = open_place(machines.path["ben"])
    for begun in (False, True):
        assert (place.experiments(), place.has("demo")) == (["demo"] * begun, begun)
        with place.health("demo") as health:
            assert health.there is begun
            assert not begun or (isinstance(health, FolderHealth) and not health.writing().problem)
        machines.plant("lab", "experiment.json")


def test_a_node_that_is_not_this_members_is_refused_by_name(machines: Machines) -> None:
    place = open_place(machines.path["ben"])
    assert place.member == "ben"
    for name in ("ben", "ben-0", "ben-coordinator"):
        place.refuse_node(name, "worker")
    for name in ("eva", "benjamin", "worker-0"):
        with pytest.raises(ConfigError, match="Its nodes are called ben"):
            place.refuse_node(name, "worker")
    with pytest.raises(ConfigError, match="kept by its host, lab"):
        place.refuse_node("ben", "coordinator")
    open_place(machines.path["lab"]).refuse_node("lab-coordinator", "coordinator")


def test_removing_takes_the_own_part_and_says_whose_the_rest_is(machines: Machines) -> None:
    for own in machines.path:
        machines.plant(own, f"peers/{own}.json")
        machines.plant(own, f"{STAGE}/{own}.json")
    machines.store("ben", "ben").remove_prefix("rollouts/round_3")
    assert names(machines.store("ben"), STAGE) == ["eva.json", "lab.json"]
    with pytest.raises(StoreError, match="what lab, eva wrote is theirs to remove"):
        open_place(machines.path["ben"]).remove("demo")
    assert names(machines.store("ben"), "peers") == ["eva.json", "lab.json"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ({"own": "zoe"}, "is none"),
        ({"members": {"a-b": device("A")}}, "is no name of a member"),
        ({"members": {"lab": device("L"), "Lab": device("B")}}, "but for its case"),
        ({"members": {"lab": device("L"), "ben": device("L")}}, "the device of lab"),
        ({"members": {"lab": Member("../..")}}, "no device of Syncthing"),
        ({"members": {"lab": Member(device("L").device, ("file:///etc/passwd",))}}, "no address"),
    ],
)
def test_a_record_that_makes_no_sense_is_refused(machines: Machines, damage: dict[str, object], said: str) -> None:
    record = Membership("place", host="lab", own="lab", members={"lab": device("L")})
    file = machines.path["lab"] / RECORD
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(record, **damage)))
    with pytest.raises(StoreError, match=said):
        open_place(machines.path["lab"]).experiments()


def test_a_flood_of_others_names_in_a_members_subtree_is_not_listed_at_every_look(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(PAGE + 1):
        machines.plant("eva", f"peers/ben-{number}.json")
    usual, listings, seconds = ReplicatedStore.list, list[object](), count()
    monkeypatch.setattr(ReplicatedStore, "list", lambda *given, **more: (listings.append(1), usual(*given, **more))[1])
    files = NodeFiles(machines.store("lab"), lambda: next(seconds))
    for _ in range(10):
        assert files.find("peers", []) == {}
    assert len(listings) == 1


# ── what others wrote wakes a node ──────────────────────────────────────────────────────────────────────────────────
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


def test_in_a_replicated_folder_the_host_alone_gives_birth_and_its_members_come_to_its_id(tmp_path: Path) -> None:
    with ExitStack() as undo:
        world = ReplicatedFarAway(tmp_path, undo)
        eva = Machine(tmp_path, "eva", world.as_seen_by("eva", tmp_path / "eva's machine", "eva"))
        with pytest.raises(StoreError, match="lab's"):
            eva.claim()
        assert eva.id_after_a_while() is None
        Machine(tmp_path, "lab", world.open("lab")).claim()
        assert eva.id_after_a_while() == born_in(world.open())
