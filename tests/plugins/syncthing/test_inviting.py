"""`swarm invite`, and becoming a member, against a server that answers as Syncthing does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from swarm.cli.main import run
from swarm.plugins.syncthing import inviting
from swarm.plugins.syncthing.membership import Membership, MembersRecord
from swarm.plugins.syncthing.setting_up import LIST
from tests.plugins.syncthing.rest import DEVICE, KEY, Told, rest

BEN = "-".join(["BBBBBBB"] * 8)
HOST = "-".join(["HHHHHHH"] * 8)
INVITATION = f"swarm1/0a1b2c3d/lab/{HOST}/dynamic"
Said = pytest.CaptureFixture[str]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    monkeypatch.setenv("STHOMEDIR", str(tmp_path / "home"))
    with rest(tmp_path / "home") as server:
        yield server


def test_a_host_begins_a_place_and_lets_in_whom_it_names(tmp_path: Path, told: Told, capsys: Said) -> None:
    path = tmp_path / "swarm"
    assert run(["invite", str(path), "--as", "lab"]) == 0
    said = capsys.readouterr().out
    assert f"/lab/{DEVICE}/dynamic" in said
    told.answers["cluster/pending/devices"] = {BEN: {"name": "\x1b[2Jben"}}
    assert run(["invite", str(path)]) == 0
    assert f"a device knocks: {BEN}" in capsys.readouterr().out
    assert run(["invite", str(path), "ben", "--device", BEN.lower(), "--address", "tcp://192.0.2.1:22000"]) == 0
    assert f"ben is a member of {path} now, with ben, lab" in capsys.readouterr().out
    members = MembersRecord(path).read()
    assert {name: member.device for name, member in members.members.items()} == {"lab": DEVICE, "ben": BEN}
    assert msgspec.json.decode((path / "lab" / LIST).read_bytes(), type=Membership) == members
    assert told.config[f"config/folders/swarm-{members.place}-ben"]["type"] == "receiveonly"
    assert KEY not in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["invite", "PATH"], "name this machine with --as"),
        (["invite", "PATH", "ben", "--as", "lab"], "takes both"),
        (["invite", "PATH", "--as", "l-b"], "is no name of a member"),
        (["invite", "s3://bucket", "--as", "lab"], "is a folder on this machine"),
        (["join", "PATH", "--as", "ben"], "belong to --invitation"),
        (["join", "PATH", "--invitation", INVITATION], "name this machine with --as"),
        (["join", "PATH", "--invitation", "swarm1/x", "--as", "ben"], "the invitation is none"),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, told: Told, capsys: Said, words: list[str], said: str) -> None:
    assert run([str(tmp_path / "swarm") if word == "PATH" else word for word in words]) != 0
    assert said in capsys.readouterr().err
    assert not (tmp_path / "swarm" / "replicated.json").exists()


def test_who_was_invited_waits_to_be_let_in_and_then_knows_all(tmp_path: Path, told: Told, capsys: Said) -> None:
    path = tmp_path / "swarm"
    list_ = path / "lab" / LIST
    list_.parent.mkdir(parents=True)
    members = {"lab": HOST, "ben": DEVICE, "eva": "-".join(["EEEEEEE"] * 8)}
    list_.write_text(
        '{"place": "0a1b2c3d", "host": "lab", "own": "lab", "members": '
        + "{"
        + ", ".join(f'"{name}": {{"device": "{device}"}}' for name, device in members.items())
        + "}}"
    )
    inviting.become_member(str(path), INVITATION, "ben", ())
    said = capsys.readouterr().err
    assert f"lab lets this machine in with: swarm invite PATH ben --device {DEVICE}" in said
    assert "this machine is the member ben, of ben, eva, lab" in said
    assert "not connected: " in said
    assert MembersRecord(path).read().own == "ben"
    assert run(["invite", str(path), "zoe", "--device", BEN]) == 1
    assert "is lab's, and only there is anybody let in" in capsys.readouterr().err
