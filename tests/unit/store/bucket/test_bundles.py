"""Bundles in a bucket: there as soon as their manifest is, and no manifest is believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.errors import ProtocolError
from swarm.node.worker.checkpoints import own_rounds, restore_newest
from swarm.records.listing import saved_rounds
from swarm.store.base import PAGE
from swarm.store.run import Run
from tests.unit.store.bucket.buckets import MemoryBucket

PREFIX = "checkpoints/round_5/anna"
ID = "0" * 32
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def fill(folder: Path) -> None:
    (folder / "model").mkdir()
    (folder / "model" / "weights").write_bytes(b"w" * 1000)
    (folder / "node.json").write_bytes(b"{}")


def names(bucket: MemoryBucket, prefix: str) -> list[str]:
    return [entry.name for entry in bucket.open().list(prefix).entries]


def manifest(*files: tuple[Any, ...], **more: Any) -> bytes:
    listed = [dict(zip(("path", "size", "sha256"), file, strict=True)) for file in files]
    return msgspec.json.encode({"version": 1, "id": ID, "files": listed} | more)


@pytest.mark.parametrize("below", ["ben", "ben/x", "ben/~manifest", f"~{ID}/ben/0", f"~x/ben/~{ID}/0"])
def test_what_others_put_below_a_checkpoint_s_name_makes_none(below: str) -> None:
    """Whoever may write `checkpoints/*/ben/*` may write it there too, and `*` matches the folders of others."""
    bucket, loaded = MemoryBucket(), []
    for round_ in (4, 5, 6):
        bucket.write(f"checkpoints/round_{round_}/anna/{below}", b"x")
    assert restore_newest(bucket.open(), "anna", loaded.append) is None
    bucket.open("anna").put_bundle(PREFIX, fill)
    assert own_rounds(bucket.open(), "anna") == [5]
    assert saved_rounds(Run("demo", bucket.open())) == {"anna": [5]}
    assert loaded == []


@pytest.mark.parametrize("junk", ["ben/{}", f"~{ID}/ben/{{}}", "~h/ben/{}", f"~z/ben/~{ID}/{{}}"])
def test_however_much_lies_below_a_checkpoint_it_is_found_and_so_are_those_behind(junk: str) -> None:
    bucket = MemoryBucket()
    for number in range(PAGE + 1):
        bucket.write(f"{PREFIX}/{junk.format(number)}", b"x")
    for node in ("anna", "carl"):
        bucket.open(node).put_bundle(f"checkpoints/round_5/{node}", fill)
    assert names(bucket, "checkpoints/round_5") == ["anna", "carl"]


def test_a_writer_that_comes_back_removes_its_own_half_checkpoints_and_nothing_where_it_keeps_none() -> None:
    """Where it may write its own objects alone, trying to would keep it from starting."""
    bucket = MemoryBucket()
    bucket.write("checkpoints/anna/~x/ben/0", b"x")
    bucket.write(f"{PREFIX}/~{ID}/0", b"half a checkpoint")
    bucket.write(f"{PREFIX}/~x/ben/~manifest", b"x")
    bucket.open("ben").recover()
    assert len(bucket.names()) == 3
    bucket.open("anna").recover()
    assert bucket.names() == ["checkpoints/anna/~x/ben/0"]


def test_one_file_of_a_checkpoint_is_read_without_the_others() -> None:
    bucket = MemoryBucket()
    bucket.open("anna").put_bundle(PREFIX, fill)
    store = bucket.open()
    assert store.get(f"{PREFIX}/node.json", 10).data == b"{}"
    assert store.facts().spent.received < 500
    for key in (f"{PREFIX}/other.json", "checkpoints/round_6/anna/node.json"):
        with pytest.raises(FileNotFoundError):
            store.get(key, 10)


def test_what_lies_deep_in_a_bundle_is_listed_and_read() -> None:
    def deep(folder: Path) -> None:
        (folder / "model" / "parts").mkdir(parents=True)
        (folder / "model" / "parts" / "weights").write_bytes(b"w")

    bucket = MemoryBucket()
    bucket.open("anna").put_bundle(PREFIX, deep)
    assert names(bucket, f"{PREFIX}/model") == ["parts"]
    assert names(bucket, f"{PREFIX}/model/parts") == ["weights"]
    with bucket.open().open_bundle(PREFIX) as folder:
        assert (folder / "model" / "parts" / "weights").read_bytes() == b"w"


def test_a_bundle_that_was_replaced_leaves_its_data_to_who_reads_it_until_the_next() -> None:
    bucket = MemoryBucket()
    for _ in range(4):
        bucket.open("anna").put_bundle(PREFIX, fill)
    assert len(bucket.names(PREFIX)) == 1 + 2 * 2


@pytest.mark.parametrize(
    ("reason", "data"),
    [
        ("malformed", b"{"),
        ("malformed", b"[" * 100_000),
        ("wrong_version", manifest(version=2)),
        ("wrong_version", manifest(version=0)),
        ("malformed", manifest(id="../../peers")),
        ("malformed", manifest(("../evil", 0, EMPTY))),
        ("malformed", manifest(("/etc/passwd", 0, EMPTY))),
        ("malformed", manifest(("a//b", 0, EMPTY))),
        ("malformed", manifest(("a\\b", 0, EMPTY))),
        ("malformed", manifest(("a\x00", 0, EMPTY))),
        ("malformed", manifest(("x" * 256, 0, EMPTY))),
        ("malformed", manifest(("a", 0, EMPTY), ("a", 0, EMPTY))),
        ("malformed", manifest(("a", 0, EMPTY), ("a/b", 0, EMPTY))),
        ("malformed", manifest(("a", -1, EMPTY))),
        ("oversized", manifest(("a", 2**60, EMPTY))),
        ("oversized", manifest(*[(f"{n}", 0, EMPTY) for n in range(10_001)])),
        ("unreadable", manifest(("a", 0, EMPTY), ("gone", 0, EMPTY))),
        ("unreadable", manifest(("a", 0, "another digest"))),
        ("unreadable", manifest(("a", 5, EMPTY))),
    ],
)
def test_a_strangers_manifest_is_refused(reason: str, data: bytes) -> None:
    bucket = MemoryBucket()
    bucket.write(f"{PREFIX}/~{ID}/0", b"")
    bucket.write(f"{PREFIX}/~manifest", data)
    with pytest.raises(ProtocolError) as caught, bucket.open().open_bundle(PREFIX):
        pass
    assert caught.value.reason == reason
    bucket.open().list(PREFIX)


def test_more_than_the_manifest_says_is_not_taken_in() -> None:
    bucket = MemoryBucket()
    bucket.write(f"{PREFIX}/~{ID}/0", b"x" * 10_000)
    bucket.write(f"{PREFIX}/~manifest", manifest(("a", 5, EMPTY)))
    store = bucket.open()
    with pytest.raises(ProtocolError, match="oversized"), store.open_bundle(PREFIX):
        pass
    assert store.facts().spent.received < 1000


@pytest.mark.parametrize("prefix", ["", "peers", "rollouts/round_0/stage_0", "checkpoints/round_5", "logs/anna"])
def test_a_manifest_where_no_checkpoint_lies_hides_nothing(prefix: str) -> None:
    bucket = MemoryBucket()
    for key in ("peers/anna.json", "rollouts/round_0/stage_0/anna.json", "logs/anna/a.json"):
        bucket.write(key, b"{}")
    bucket.open("anna").put_bundle(PREFIX, fill)
    before = names(bucket, prefix)
    bucket.write(f"{prefix}/~manifest".lstrip("/"), manifest())
    assert before
    assert names(bucket, prefix) == before
