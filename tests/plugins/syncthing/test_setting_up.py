"""What Syncthing is told for a replicated folder, and who may say it."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.errors import StoreError
from swarm.plugins.syncthing.membership import RECORD, Member, Membership, MembersRecord
from swarm.plugins.syncthing.setting_up import (
    LIST,
    apply,
    begin,
    differences,
    follow,
    joined,
    listed,
    news,
    read_invitation,
    wanted,
    write_invitation,
)
from swarm.plugins.syncthing.state import replication
from swarm.plugins.syncthing.syncthing import LARGEST_ANSWER, Syncthing
from swarm.store.place import open_place
from tests.plugins.syncthing.rest import DEVICE, KEY, Told, configure, rest
from tests.unit.store.endless import FAR_TOO_MUCH, endless

LAB, BEN, EVA = (Member("-".join([letter * 7] * 8)) for letter in "LBE")
MEMBERS = Membership("place", "lab", "ben", {"lab": LAB, "ben": BEN, "eva": EVA})


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    with rest(tmp_path / "home") as server:
        yield server


@pytest.fixture
def syncthing(tmp_path: Path, told: Told) -> Syncthing:
    return Syncthing.found(environ(tmp_path))


def environ(tmp_path: Path) -> dict[str, str]:
    return {"STHOMEDIR": str(tmp_path / "home")}


def devices(folder: Any) -> set[str]:
    return {each["deviceID"] for each in folder["devices"]}


def test_each_subtree_is_received_from_its_owner_alone_and_the_own_one_is_sent_to_all(tmp_path: Path) -> None:
    folders = wanted(tmp_path, MEMBERS).folders
    assert {name: folder["type"] for name, folder in folders.items()} == {
        "swarm-place-lab": "receiveonly",
        "swarm-place-ben": "sendonly",
        "swarm-place-eva": "receiveonly",
    }
    assert devices(folders["swarm-place-ben"]) == {LAB.device, BEN.device, EVA.device}
    assert devices(folders["swarm-place-eva"]) == {EVA.device, BEN.device}
    assert devices(folders["swarm-place-lab"]) == {LAB.device, BEN.device}
    assert {*wanted(tmp_path, MEMBERS).devices} == {LAB.device, EVA.device}


def test_what_was_set_up_is_what_was_wanted_and_a_change_of_it_is_named(
    tmp_path: Path, told: Told, syncthing: Syncthing
) -> None:
    path = tmp_path / "swarm"
    apply(path, MEMBERS, syncthing)
    assert differences(wanted(path, MEMBERS), syncthing) == []
    assert MembersRecord(path).read() == MEMBERS
    assert not (path / "ben" / LIST).exists(), "only the host keeps the list"
    assert (path / "eva" / ".stignore").read_text().startswith("/experiments/*/.tmp\n")
    assert {told.config[f"config/devices/{each.device}"]["introducer"] for each in (LAB, EVA)} == {False}
    eva = told.config["config/folders/swarm-place-eva"]
    eva["type"], eva["devices"] = "sendreceive", [*eva["devices"], {"deviceID": LAB.device}]
    told.config[f"config/devices/{LAB.device}"]["introducer"] = True
    del told.config["config/folders/swarm-place-lab"]
    assert differences(wanted(path, MEMBERS), syncthing) == [
        "the folder swarm-place-lab is missing",
        "the folder swarm-place-eva has type 'sendreceive', expected 'receiveonly'",
        f"the folder swarm-place-eva is shared with {LAB.device}, expected its members alone",
        f"the device {LAB.device} introduces others or has its folders accepted: switch both off",
    ]


def test_an_invitation_tells_where_the_host_is_and_nothing_else(tmp_path: Path) -> None:
    host = begin(tmp_path / "lab", "lab", Member(LAB.device, ("tcp://192.0.2.1:22000", "dynamic")))
    text = write_invitation(host)
    assert read_invitation(f" {text}\n") == (host.place, "lab", host.members["lab"])
    guest = joined(tmp_path / "ben", text, "ben", BEN)
    assert (guest.place, guest.host, guest.own, {*guest.members}) == (host.place, "lab", "ben", {"lab", "ben"})
    for wrong in ("", "swarm1", text.replace("swarm1", "swarm2"), "swarm1/p/lab/no-device/dynamic", f"{text},file:///"):
        with pytest.raises(StoreError):
            joined(tmp_path / "ben", wrong, "ben", BEN)
    with pytest.raises(StoreError, match="has the name"):
        joined(tmp_path / "ben", text, "Lab", BEN)


def test_joining_again_keeps_who_was_known_and_another_place_is_refused(
    tmp_path: Path, told: Told, syncthing: Syncthing
) -> None:
    path, text = tmp_path / "swarm", write_invitation(msgspec.structs.replace(MEMBERS, own="lab"))
    apply(path, MEMBERS, syncthing)
    assert joined(path, text, "ben", BEN) == MEMBERS
    with pytest.raises(StoreError, match="of another replicated folder"):
        joined(path, text.replace("place", "other"), "ben", BEN)
    with pytest.raises(StoreError, match="of another replicated folder"):
        joined(path, text, "zoe", BEN)
    (tmp_path / "ordinary" / "experiments").mkdir(parents=True)
    with pytest.raises(StoreError, match="ordinary folder"):
        joined(tmp_path / "ordinary", text, "ben", BEN)


def list_of(members: dict[str, Member], **changed: Any) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(MEMBERS, own="lab", members=members, **changed))


def test_the_hosts_list_brings_new_members_and_addresses_and_takes_no_name_away() -> None:
    zoe, moved = Member("-".join(["ZZZZZZZ"] * 8)), Member(EVA.device, ("tcp://192.0.2.7:22000",))
    told = news(MEMBERS, list_of({"lab": LAB, "ben": BEN, "eva": moved, "zoe": zoe}))
    assert told.members == {"lab": LAB, "ben": BEN, "eva": moved, "zoe": zoe}
    assert (told.own, told.host) == ("ben", "lab")
    assert news(MEMBERS, list_of({"lab": LAB})) == MEMBERS
    for members, said in (
        ({"lab": LAB, "eva": zoe}, "let a new device take a new name"),
        ({"lab": LAB, "ben": zoe}, "let another device in as ben"),
        ({"lab": LAB, "zoe": EVA}, "the device of eva"),
        ({"lab": LAB, "../x": zoe}, "is no name of a member"),
    ):
        with pytest.raises(StoreError, match=said):
            news(MEMBERS, list_of(members))
    for junk in (b"", b"[]", b"{" * 30_000, list_of({"lab": LAB}, place="other"), list_of({"lab": LAB}, host="eva")):
        with pytest.raises(StoreError):
            news(MEMBERS, junk)


def test_a_node_that_runs_follows_the_hosts_list(tmp_path: Path, told: Told, syncthing: Syncthing) -> None:
    path, zoe = tmp_path / "swarm", Member("-".join(["ZZZZZZZ"] * 8))
    apply(path, MEMBERS, syncthing)
    follow(path, environ(tmp_path))  # there is no list yet
    assert listed(path, MEMBERS) is None
    (path / "lab" / LIST).write_bytes(list_of({**MEMBERS.members, "zoe": zoe}))
    follow(path, environ(tmp_path))
    assert {*MembersRecord(path).read().members} == {"lab", "ben", "eva", "zoe"}
    assert devices(told.config["config/folders/swarm-place-zoe"]) == {zoe.device, BEN.device}
    assert zoe.device in devices(told.config["config/folders/swarm-place-ben"])
    before = (path / RECORD).read_bytes()
    (path / "lab" / LIST).write_bytes(list_of({**MEMBERS.members, "zoe": EVA}))
    follow(path, environ(tmp_path))
    assert (path / RECORD).read_bytes() == before
    (path / "lab" / LIST).unlink()
    (path / "lab" / LIST).symlink_to(path / RECORD)
    follow(path, environ(tmp_path))
    assert (path / RECORD).read_bytes() == before


def test_what_syncthing_says_is_shown(tmp_path: Path, told: Told, syncthing: Syncthing) -> None:
    apply(tmp_path / "swarm", MEMBERS, syncthing)
    told.answers |= {
        "system/connections": {"connections": {LAB.device: {"connected": True}}},
        "stats/device": {EVA.device: {"lastSeen": "1970-01-01T01:00:00+01:00"}},
        "db/status": {"needBytes": 7},
        "db/completion": {"completion": 50.0},
        "cluster/pending/devices": {"A-STRANGER": {"name": "\x1b[31m"}, LAB.device: {}},
    }
    found = replication(tmp_path / "swarm", MEMBERS, environ=environ(tmp_path))
    lab, eva = found.peers
    assert (lab.connected, lab.to_come, lab.has) == (True, 7, 0.5)
    assert (eva.connected, eva.seen_ago, eva.has) == (False, None, None)
    assert (found.problems, found.waiting) == ([], ["A-STRANGER"])


def test_syncthing_is_found_by_its_own_files_and_variables(tmp_path: Path, told: Told) -> None:
    home = tmp_path / "home"
    found = Syncthing.found({"STHOMEDIR": str(home)})
    assert found.device() == DEVICE
    assert told.keys == [KEY]
    assert KEY not in repr(found)
    by_name = Syncthing.found({"STHOMEDIR": str(home), "STGUIADDRESS": "http://localhost:1", "STGUIAPIKEY": "other"})
    assert (by_name.host, by_name.port, by_name.key) == ("127.0.0.1", 1, "other")
    with pytest.raises(StoreError, match=r"does not answer on 127\.0\.0\.1:1") as caught:
        by_name.device()
    assert "other" not in str(caught.value)
    with pytest.raises(StoreError, match="no configuration on this machine"):
        Syncthing.found({"STHOMEDIR": str(tmp_path)})
    told.status = 403
    with pytest.raises(StoreError, match="answers 403 to GET system/status"):
        found.device()


@pytest.mark.parametrize("address", ["192.0.2.1:8384", "example.org:8384", "127.0.0.1", "/run/syncthing.sock"])
def test_the_key_is_sent_to_this_machine_alone(tmp_path: Path, address: str) -> None:
    configure(tmp_path / "home", address)
    with pytest.raises(StoreError, match="elsewhere than on this machine"):
        Syncthing.found({"STHOMEDIR": str(tmp_path / "home")})


def test_a_record_that_somebody_else_put_tells_syncthing_nothing(tmp_path: Path, told: Told) -> None:
    place = tmp_path / "shared"
    zoe = Member("-".join(["ZZZZZZZ"] * 8))
    (place / "lab").mkdir(parents=True)
    (place / RECORD).write_bytes(msgspec.json.encode(MEMBERS))
    (place / "lab" / LIST).write_bytes(list_of({**MEMBERS.members, "zoe": zoe}))
    follow(place, environ(tmp_path))
    assert told.config == {}, "no device of a stranger's, and no folder of ours for it"
    told.config["config/folders/swarm-place-ben"] = {"path": str(tmp_path / "elsewhere" / "ben"), "devices": []}
    before = dict(told.config)
    follow(place, environ(tmp_path))
    assert told.config == before
    (place / "experiments").mkdir()
    assert open_place(place).member == "", "beside experiments it makes no replicated folder"


NESTED: Any = []
for _ in range(900):
    NESTED = [NESTED]
ODD: list[Any] = [["text"], 7, {"connections": [], "devices": [[]], "needBytes": "x", "completion": [], "myID": {}}]
ODD += [{"connections": {EVA.device: []}, "devices": 1, EVA.device: 3}, NESTED]


@pytest.mark.parametrize("odd", ODD, ids=[f"{number}" for number in range(len(ODD))])
def test_whatever_syncthing_answers_is_said_to_be_a_problem_and_ends_nothing(
    tmp_path: Path, told: Told, syncthing: Syncthing, odd: Any
) -> None:
    apply(tmp_path / "swarm", MEMBERS, syncthing)
    asked = ("system/status", "system/connections", "stats/device", "db/status", "cluster/pending/devices")
    for path in (*asked, "config/folders/swarm-place-ben", f"config/devices/{EVA.device}"):
        before = told.config.get(path), told.answers.get(path)
        told.config.pop(path, None)
        told.answers[path] = odd
        replication(tmp_path / "swarm", MEMBERS, environ=environ(tmp_path))
        follow(tmp_path / "swarm", environ(tmp_path))
        with suppress(StoreError):
            syncthing.device()
        del told.answers[path]
        told.answers |= {path: before[1]} if before[1] else {}
        told.config |= {path: before[0]} if before[0] else {}


# ── bounds ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_an_answer_without_end_is_none() -> None:
    with endless() as (port, sent), pytest.raises(StoreError):
        Syncthing("127.0.0.1", port, "key").ask("system/status", dict[str, Any])
    assert LARGEST_ANSWER < sent.bytes < FAR_TOO_MUCH


def test_of_a_record_that_is_a_hole_of_a_gigabyte_little_is_held(tmp_path: Path) -> None:
    (tmp_path / RECORD).touch()
    os.truncate(tmp_path / RECORD, 1 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(StoreError):
            MembersRecord(tmp_path).read()
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
