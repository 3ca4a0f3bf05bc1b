"""Trust on first use: who is believed, and who is not any more; and in which experiment."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from structlog.testing import capture_logs

from swarm.errors import ConfigError, ExperimentError, ProtocolError
from swarm.signing import known_keys
from swarm.signing.birth import STANDS_FOR
from swarm.signing.keys import load_key, make_key, public_text
from swarm.signing.known_keys import FORGOTTEN_AFTER, HEARD_EVERY, ROOM_EVERY, KnownKeys
from swarm.signing.signatures import SignedPlace, seal, signature_of, verify
from swarm.signing.trust import make_trust
from swarm.wire.trust import Trust

Patch = pytest.MonkeyPatch

KEY = "peers/alice.json"
ID, OTHER = "0123456789abcdef" * 2, "f" * 32
PLACE = SignedPlace("exp", KEY, ID)
FILE = b'{"peer_id":"alice"}\n'
MALLORY = Ed25519PrivateKey.from_private_bytes(b"m" * 32)


class Folder:
    """What experiment.json says, and the wall clock."""

    def __init__(self, id_: str | None = ID) -> None:
        self.id = id_
        self.now = 1.8e9

    def born(self) -> str | None:
        return self.id

    def wall(self) -> float:
        return self.now


def make_signed(tmp_path: Path, signing: str = "on", *, user: str = "reader", folder: Folder | None = None) -> Trust:
    folder = folder or Folder()
    keys = tmp_path / user
    if not (keys / "key.pem").exists():
        make_key(keys)
    return make_trust(signing, keys, tmp_path / "shared", "exp", folder.born, folder.wall)


def refusal(trust: Trust, data: bytes, key: str = KEY) -> str | None:
    try:
        trust.check(data, key)
    except ProtocolError as error:
        return error.reason
    return None


def taken(trust: Trust, number: int) -> str | None:
    """Why a stranger's file under its own name is refused."""
    name = f"peers/m{number}.json"
    return refusal(trust, seal(FILE, SignedPlace("exp", name, ID), MALLORY), name)


def test_whoever_was_first_seen_with_a_key_is_held_to_it(tmp_path: Path) -> None:
    alice, reader = make_signed(tmp_path, user="alice"), make_signed(tmp_path)
    assert refusal(reader, alice.seal(FILE, KEY)) is None
    assert refusal(reader, seal(FILE, PLACE, MALLORY)) == "other_key"
    assert refusal(reader, FILE) == "unsigned"
    assert refusal(reader, alice.seal(FILE, KEY)) is None
    assert refusal(make_signed(tmp_path), seal(FILE, PLACE, MALLORY)) == "other_key", "in another process, too"


def test_another_experiment_and_another_folder_know_nobody(tmp_path: Path) -> None:
    alice = make_signed(tmp_path, user="alice")
    assert refusal(make_signed(tmp_path), alice.seal(FILE, KEY)) is None
    for shared, experiment in ((tmp_path / "shared", "other"), (tmp_path / "elsewhere", "exp")):
        assert KnownKeys(tmp_path / "reader", shared, experiment).of("alice") is None


def test_unsigned_files_of_strangers_pass_unless_signatures_are_required(tmp_path: Path) -> None:
    assert refusal(make_signed(tmp_path, "on"), FILE) is None
    assert refusal(make_signed(tmp_path, "require"), FILE) == "unsigned"
    assert refusal(make_signed(tmp_path, "off"), seal(FILE, SignedPlace("somewhere", "else"), MALLORY)) is None


def test_a_forgotten_node_may_come_with_a_new_key(tmp_path: Path) -> None:
    alice = make_signed(tmp_path, user="alice")
    assert refusal(make_signed(tmp_path), alice.seal(FILE, KEY)) is None
    known = KnownKeys(tmp_path / "reader", tmp_path / "shared", "exp")
    assert [key.author for key in known] == ["alice"]
    assert known.forget("alice")
    assert not known.forget("alice")
    assert refusal(make_signed(tmp_path), seal(FILE, PLACE, MALLORY)) is None


def test_of_two_processes_that_see_a_node_at_the_same_time_both_hold_it_to_one_key(tmp_path: Path) -> None:
    first, second = (KnownKeys(tmp_path / "reader", tmp_path / "shared", "exp") for _ in range(2))
    assert first.of("alice") is None
    assert second.of("alice") is None
    assert first.pin("alice", "one") == "one"
    assert second.pin("alice", "two") == "one"


def test_where_pins_cannot_be_kept_a_node_says_so_and_believes_who_is_unknown_only_where_unsigned_files_pass_too(
    tmp_path: Path,
) -> None:
    (tmp_path / "reader").mkdir()
    (tmp_path / "reader" / "known").write_text("in the way")
    alice = make_signed(tmp_path, user="alice").seal(FILE, KEY)
    with capture_logs() as logs:
        lenient, strict = make_signed(tmp_path, "on"), make_signed(tmp_path, "require")
        assert refusal(lenient, seal(FILE, PLACE, MALLORY)) is None
        assert refusal(lenient, alice) == "other_key"
        assert [refusal(strict, alice) for _ in range(3)] == ["not_pinned"] * 3
        assert refusal(strict, strict.seal(FILE, KEY)) is None, "the own user's key needs no pin"
    told = [entry["consequence"] for entry in logs if entry["event"] == "key.not_remembered"]
    assert ["believed" in said for said in told] == [True, False], "each says it once"


def test_a_key_is_for_its_owner_alone_and_never_replaced(tmp_path: Path) -> None:
    key = make_key(tmp_path / "me")
    file = tmp_path / "me" / "key.pem"
    assert file.stat().st_mode & 0o777 == 0o600
    assert public_text(load_key(tmp_path / "me")) == public_text(key)
    with pytest.raises(ConfigError, match="is there already"):
        make_key(tmp_path / "me")
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        load_key(tmp_path / "me")
    with pytest.raises(ConfigError, match="swarm keys new"):
        make_trust("on", tmp_path / "none", tmp_path, "exp")
    file.chmod(0o600)
    file.write_text("rubbish")
    with pytest.raises(ConfigError, match="no private key"):
        load_key(tmp_path / "me")


def test_whoever_came_first_in_the_name_of_an_own_node_cannot_shut_it_out(tmp_path: Path) -> None:
    own = make_signed(tmp_path)
    assert refusal(own, seal(FILE, PLACE, MALLORY)) is None
    assert refusal(own, own.seal(FILE, KEY)) is None
    assert refusal(own, make_signed(tmp_path, user="alice").seal(FILE, KEY)) == "other_key"


def test_a_pipe_or_a_device_in_the_place_of_a_key_keeps_nobody(tmp_path: Path) -> None:
    known = KnownKeys(tmp_path, "/shared", "exp")
    known.pin("alice", "key")
    (pins,) = {file.parent for file in tmp_path.rglob("alice.pub")}
    os.mkfifo(pins / "ben.pub")
    (pins / "zoe.pub").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "key.pem", 0o600)
    for author in ("ben", "zoe"):
        with pytest.raises(OSError, match="expected a regular file"):  # a reading that waits hangs
            known.of(author)
    with pytest.raises(ConfigError, match="expected a regular file"):
        load_key(tmp_path)


def test_without_room_unknown_signers_are_refused_and_known_ones_go_on(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(known_keys, "MOST_PINS", 3)
    reader, alice = make_signed(tmp_path), make_signed(tmp_path, user="alice").seal(FILE, KEY)
    assert refusal(reader, alice) is None
    with capture_logs() as logs:
        assert [taken(reader, number) for number in range(5)] == [None, None, "not_pinned", "not_pinned", "not_pinned"]
    assert len(list((tmp_path / "reader").rglob("*.pub"))) == 3
    assert len([log for log in logs if log["event"] == "key.not_remembered"]) == 1, "not once per name"
    assert reader.key_of("m4") is None
    again = make_signed(tmp_path)
    assert [refusal(again, alice), taken(again, 0), taken(again, 4)] == [None, None, "not_pinned"]
    assert refusal(again, seal(FILE, PLACE, MALLORY)) == "other_key"


def test_without_room_the_own_key_and_expected_ones_still_get_in(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(known_keys, "MOST_PINS", 1)
    make_signed(tmp_path)
    expected = frozenset({public_text(make_key(tmp_path / "alice"))})
    alice = make_signed(tmp_path, user="alice").seal(FILE, KEY)
    folder = Folder()
    reader = make_trust(
        "require", tmp_path / "reader", tmp_path / "shared", "exp", folder.born, folder.wall, expected=expected
    )
    assert [taken(reader, 0), taken(reader, 1)] == [None, "not_pinned"]
    assert refusal(reader, alice) is None
    own = "peers/own.json"
    assert refusal(reader, reader.seal(FILE, own), own) is None
    assert reader.key_of("alice") in expected
    assert refusal(reader, seal(FILE, PLACE, MALLORY)) == "other_key"


def test_room_is_made_of_names_not_heard_for_days_that_never_did_any_work(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(known_keys, "MOST_PINS", 5)
    folder, clock = Folder(), "state/current_state.json"
    reader, alice = make_signed(tmp_path, folder=folder), make_signed(tmp_path, user="alice")
    of_alice, of_clock = alice.seal(FILE, KEY), alice.seal(FILE, clock)
    assert refusal(reader, of_alice) is None
    reader.check(of_clock, clock)
    assert [taken(reader, number) for number in range(4)] == [None, None, None, "not_pinned"]
    reader.keep(["alice"])
    folder.now += FORGOTTEN_AFTER / 2
    assert taken(reader, 3) == "not_pinned", "who is away for a night keeps his place"
    assert taken(make_signed(tmp_path, folder=folder), 1) is None, "heard by another process of this machine"
    folder.now += FORGOTTEN_AFTER / 2 + HEARD_EVERY
    assert [taken(reader, 3), taken(reader, 4), taken(reader, 5)] == [None, None, "not_pinned"]
    held = {key.author for key in KnownKeys(tmp_path / "reader", tmp_path / "shared", "exp")}
    assert held == {"alice", "@clock", "m1", "m3", "m4"}, "kept for its work, for its role, for being heard"
    assert refusal(reader, seal(FILE, PLACE, MALLORY)) == "other_key"


def test_without_room_the_pins_are_not_looked_at_for_each_unknown_name(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(known_keys, "MOST_PINS", 1)
    folder = Folder()
    reader = make_signed(tmp_path, folder=folder)
    assert [taken(reader, 0), taken(reader, 1)] == [None, "not_pinned"]
    looks: list[object] = []
    usual = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (looks.append(path), usual(path))[1])
    assert {taken(reader, number) for number in range(2, 100)} == {"not_pinned"}
    assert not looks
    folder.now += ROOM_EVERY
    assert {taken(reader, number) for number in range(2, 100)} == {"not_pinned"}
    assert len(looks) == 1


# ── the experiment's id ─────────────────────────────────────────────────────────────────────────────────────────────
def settled(tmp_path: Path, folder: Folder, signing: str = "require", user: str = "reader") -> Trust:
    """A node that has run for a while."""
    trust = make_signed(tmp_path, signing, user=user, folder=folder)
    for _ in range(2):
        folder.now += STANDS_FOR
        trust.seal(FILE, KEY)
    return trust


def test_what_was_signed_in_another_run_of_the_same_name_is_refused_and_pins_nobody(tmp_path: Path) -> None:
    elsewhere = make_signed(tmp_path, user="alice", folder=Folder(OTHER)).seal(FILE, KEY)
    reader = make_signed(tmp_path, "require")
    assert refusal(reader, elsewhere) == "bad_signature"
    assert reader.key_of("alice") is None


@pytest.mark.parametrize("put", ["", OTHER, None])
def test_rewriting_or_removing_experiment_json_in_mid_run_changes_nothing_for_who_runs(
    tmp_path: Path, put: str | None
) -> None:
    folder = Folder()
    alice = settled(tmp_path, folder, user="alice").seal(FILE, KEY)
    reader = settled(tmp_path, folder)
    folder.id = put
    folder.now += 1e6
    assert refusal(reader, alice) is None
    for id_ in (None, OTHER):
        assert refusal(reader, seal(FILE, SignedPlace("exp", KEY, id_), MALLORY)) == "bad_signature"
    signature = signature_of(reader.seal(FILE, KEY))
    assert signature
    verify(signature, PLACE)


@pytest.mark.parametrize("put", ["", OTHER])
def test_a_node_that_starts_again_notices_that_experiment_json_was_rewritten(tmp_path: Path, put: str) -> None:
    folder = Folder()
    settled(tmp_path, folder)
    folder.id = put
    with pytest.raises(ExperimentError, match="swarm keys forget @experiment"):
        make_signed(tmp_path, folder=folder)
    known = KnownKeys(tmp_path / "reader", tmp_path / "shared", "exp")
    assert known.forget_ids()
    assert not known.forget_ids()
    with pytest.raises(ExperimentError) if not put else nullcontext():
        make_signed(tmp_path, folder=folder)


def test_a_node_that_starts_again_without_experiment_json_goes_on_with_the_id_that_it_knows(tmp_path: Path) -> None:
    folder = Folder()
    alice = settled(tmp_path, folder, user="alice").seal(FILE, KEY)
    settled(tmp_path, folder)
    folder.id = None
    reader = make_signed(tmp_path, "require", folder=folder)
    assert refusal(reader, alice) is None
    assert refusal(reader, seal(FILE, SignedPlace("exp", KEY), MALLORY)) == "bad_signature"
    folder.id, folder.now = OTHER, folder.now + STANDS_FOR
    with pytest.raises(ExperimentError):
        reader.seal(FILE, KEY)


def test_before_there_is_an_experiment_nobody_else_is_believed_and_nobody_pinned(tmp_path: Path) -> None:
    folder = Folder(None)
    alice, reader = (make_signed(tmp_path, "require", user=user, folder=folder) for user in ("alice", "reader"))
    early = alice.seal(FILE, KEY)
    assert refusal(reader, early) == "not_begun"
    assert refusal(alice, early) is None, "its own user sees that the name is taken"
    assert reader.key_of("alice") is None
    folder.id, folder.now = ID, folder.now + STANDS_FOR
    assert refusal(reader, early) == "bad_signature", "until it is written again"
    assert reader.key_of("alice") is None
    assert refusal(reader, alice.seal(FILE, KEY)) is None


def test_an_experiment_whose_file_is_gone_is_written_with_its_id_and_a_new_one_with_another(tmp_path: Path) -> None:
    folder = Folder(None)
    assert make_signed(tmp_path, folder=folder).begin(ID, lambda: True) == ID, "this machine knows of none"
    folder.id = ID
    settled(tmp_path, folder)
    folder.id = None
    clock = make_signed(tmp_path, folder=folder)
    assert clock.begin(OTHER, lambda: True) == ID
    assert clock.begin(OTHER, lambda: False) == OTHER
    for id_ in (OTHER, ID):  # the folder may have been away, and be back
        folder.id = id_
        settled(tmp_path, folder)
