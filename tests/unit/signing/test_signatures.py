"""Trust on first use: who is believed, and who is not any more."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from structlog.testing import capture_logs

from swarm.errors import ConfigError, ProtocolError
from swarm.signing import known_keys
from swarm.signing.envelope import seal, signature_of, verify
from swarm.signing.keys import load_key, make_key, public_text
from swarm.signing.known_keys import KnownKeys
from swarm.signing.trust import make_trust
from swarm.wire.trust import Trust

KEY = "peers/alice.json"
PLACE = "exp/peers/alice.json"
FILE = b'{"peer_id":"alice"}\n'
MALLORY = Ed25519PrivateKey.from_private_bytes(b"m" * 32)


def make_signed(tmp_path: Path, signing: str = "on", *, user: str = "reader") -> Trust:
    folder = tmp_path / user
    if not folder.exists():
        make_key(folder)
    return make_trust(signing, folder, tmp_path / "shared", "exp")


def make_signed_folder(tmp_path: Path) -> Path:
    make_key(tmp_path / "key")
    return tmp_path / "key"


def refusal(trust: Trust, data: bytes) -> str | None:
    try:
        trust.check(data, KEY)
    except ProtocolError as error:
        return error.reason
    return None


def test_whoever_was_first_seen_with_a_key_is_held_to_it(tmp_path: Path) -> None:
    alice, reader = make_signed(tmp_path, user="alice"), make_signed(tmp_path)
    assert refusal(reader, alice.seal(FILE, KEY)) is None
    assert refusal(reader, seal(FILE, PLACE, MALLORY)) == "other_key"
    assert refusal(reader, FILE) == "unsigned"
    assert refusal(reader, alice.seal(FILE, KEY)) is None


def test_the_pin_outlives_the_process_and_holds_for_all_of_them(tmp_path: Path) -> None:
    alice = make_signed(tmp_path, user="alice")
    assert refusal(make_signed(tmp_path), alice.seal(FILE, KEY)) is None
    assert refusal(make_signed(tmp_path), seal(FILE, PLACE, MALLORY)) == "other_key"


def test_another_experiment_and_another_folder_know_nobody(tmp_path: Path) -> None:
    alice = make_signed(tmp_path, user="alice")
    assert refusal(make_signed(tmp_path), alice.seal(FILE, KEY)) is None
    for shared, experiment in ((tmp_path / "shared", "other"), (tmp_path / "elsewhere", "exp")):
        assert KnownKeys(tmp_path / "reader", shared, experiment).of("alice") is None


def test_unsigned_files_of_strangers_pass_unless_signatures_are_required(tmp_path: Path) -> None:
    assert refusal(make_signed(tmp_path, "on"), FILE) is None
    assert refusal(make_signed(tmp_path, "require"), FILE) == "unsigned"
    assert refusal(make_signed(tmp_path, "off"), seal(FILE, "somewhere/else", MALLORY)) is None


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


def test_where_pins_cannot_be_kept_a_node_goes_on_and_says_so(tmp_path: Path) -> None:
    reader = make_signed(tmp_path)
    (tmp_path / "reader" / "known").write_text("in the way")
    with capture_logs() as logs:
        assert refusal(reader, seal(FILE, PLACE, MALLORY)) is None
        assert refusal(reader, make_signed(tmp_path, user="alice").seal(FILE, KEY)) == "other_key"
    assert [entry["event"] for entry in logs] == ["key.not_remembered"]


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


def test_a_missing_or_damaged_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="swarm keys new"):
        make_trust("on", tmp_path / "none", tmp_path, "exp")
    (tmp_path / "key.pem").write_text("rubbish")
    (tmp_path / "key.pem").chmod(0o600)
    with pytest.raises(ConfigError, match="no private key"):
        make_trust("on", tmp_path, tmp_path, "exp")


def test_a_file_is_signed_for_its_experiment_and_key_wherever_the_shared_place_is_mounted(tmp_path: Path) -> None:
    alice = make_trust("on", make_signed_folder(tmp_path), Path("/mnt/elsewhere"), "exp")
    signature = signature_of(alice.seal(FILE, KEY))
    assert signature
    verify(signature, PLACE)
    with pytest.raises(ProtocolError, match="bad_signature"):
        verify(signature, "other/peers/alice.json")


def test_whoever_came_first_in_the_name_of_an_own_node_cannot_shut_it_out(tmp_path: Path) -> None:
    own = make_signed(tmp_path)
    assert refusal(own, seal(FILE, PLACE, MALLORY)) is None
    assert refusal(own, own.seal(FILE, KEY)) is None
    assert refusal(own, make_signed(tmp_path, user="alice").seal(FILE, KEY)) == "other_key"


def test_threads_that_see_an_author_at_once_pin_it_without_a_quarrel(tmp_path: Path) -> None:
    known = KnownKeys(tmp_path, tmp_path, "exp")
    for number in range(50):
        with ThreadPoolExecutor(4) as threads:
            told = list(threads.map(known.pin, [f"node-{number}"] * 4, ["one", "two", "one", "two"]))
        assert len({*told, known.of(f"node-{number}")}) == 1


def in_time(read: Callable[[], object]) -> object:
    """What a reading gives or raises; a reading that waits fails."""
    said: list[object] = ["it waits"]

    def run() -> None:
        try:
            said[0] = read()
        except (ConfigError, OSError) as error:
            said[0] = type(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    return said[0]


def test_a_pipe_or_a_device_in_the_place_of_a_key_keeps_nobody(tmp_path: Path) -> None:
    known = KnownKeys(tmp_path, "/shared", "exp")
    known.pin("alice", "key")
    os.mkfifo(known._folder / "ben.pub")
    (known._folder / "zoe.pub").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "key.pem", 0o600)
    assert in_time(lambda: known.of("ben")) is OSError
    assert in_time(lambda: known.of("zoe")) is OSError
    assert in_time(lambda: load_key(tmp_path)) is ConfigError


def test_names_that_sign_do_not_fill_the_disk_of_who_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_keys, "MOST_PINS", 3)
    reader = make_signed(tmp_path)
    with capture_logs() as logs:
        for number in range(5):
            name = f"peers/m{number}.json"
            reader.check(seal(b'{"peer_id":"m"}\n', f"exp/{name}", MALLORY), name)
    assert len(list((tmp_path / "reader").rglob("*.pub"))) == 3
    assert [log["author"] for log in logs if log["event"] == "key.not_remembered"] == ["m3", "m4"]
    assert reader.key_of("m4") == public_text(MALLORY)  # by this process all the same
