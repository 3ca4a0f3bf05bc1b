"""Places as versions before left them are read: bundles and logs byte by byte as they lie, half-done ones too."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance.promises import BIG, BUNDLE, LOG, content, names
from tests.conformance.worlds import Bucket, Folder, World

EVENTS = "logs/anna/training_events.jsonl"
ID, FORMER = "0123456789abcdef" * 2, "f" * 32
BIRTH = "0018c1a5b2c3d4e5f6a7"


def in_folder() -> dict[str, bytes]:
    return {
        f"{BUNDLE}/node.json": b"{}",
        f"{BUNDLE}/model/weights": b"w",
        ".tmp/anna/replaced-checkpoints%2Fround_4%2Fanna/node.json": b"the only copy",
        ".tmp/anna/bundle-00/node.json": b"half",
        LOG: b"one\ntwo\nthr",
        f"{EVENTS}.1": b"old\n",
        EVENTS: b"new\n",
    }


def in_bucket() -> dict[str, bytes]:
    files = [("node.json", b"{}"), ("model/weights", b"w")]
    manifest = {
        "version": 1,
        "id": ID,
        "files": [
            {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for path, data in files
        ],
    }
    return {
        f"{BUNDLE}/~manifest": json.dumps(manifest).encode(),
        **{f"{BUNDLE}/~{ID}/{number}": data for number, (_, data) in enumerate(files)},
        f"{BUNDLE}/~{FORMER}/0": b"of the one before",
        f"checkpoints/round_6/anna/~{FORMER}/0": b"half",
        f"{LOG}~/{BIRTH}-000000000000000": b"one\n",
        f"{LOG}~/{BIRTH}-000000000000004": b"two\nthr",
        EVENTS: b"old\nnew\n",
    }


LAID: dict[str, tuple[type[Folder] | type[Bucket], dict[str, bytes]]] = {
    "folder": (Folder, in_folder()),
    "bucket": (Bucket, in_bucket()),
}


@pytest.fixture(params=LAID)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    kind, laid = LAID[request.param]
    with ExitStack() as undo:
        found = kind(tmp_path, undo)
        for key, data in laid.items():
            found.lay(key, data)
        yield found


def test_a_bundle_is_read_and_half_of_one_is_none(world: World) -> None:
    ben = world.open("ben")
    assert content(ben, BUNDLE) == {"node.json": b"{}", "model/weights": b"w"}
    assert ben.get(f"{BUNDLE}/node.json", BIG).data == b"{}"
    assert names(ben, "checkpoints") == ["round_5"]


def test_logs_are_read_and_go_on(world: World) -> None:
    found = world.open().read_records(LOG)
    assert (found.records, found.torn) == ([b"one", b"two"], True)
    world.open("anna").append_records(LOG, [b"three"], durable=True)
    assert world.open().read_records(LOG, found.cursor).records == [b"three"]
    old = world.open().read_records(EVENTS)
    assert old.records + world.open().read_records(EVENTS, old.cursor).records == [b"old", b"new"]


def test_what_a_death_left_half_done_is_finished_or_removed(world: World) -> None:
    anna = world.open("anna")
    anna.recover()
    assert content(anna, BUNDLE) == {"node.json": b"{}", "model/weights": b"w"}
    if not world.logs_wait:
        assert content(anna, "checkpoints/round_4/anna") == {"node.json": b"the only copy"}
    assert names(anna, ".tmp/anna") == []
    assert "round_6" not in names(anna, "checkpoints")
