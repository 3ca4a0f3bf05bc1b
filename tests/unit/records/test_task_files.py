"""Files of a run's own tasks: put into its place, fetched by who joins, and believed by their content alone."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from swarm.errors import ConfigError
from swarm.records import task_files
from swarm.records.task_files import localised, publish
from swarm.store.base import Store
from tests.layout import Layout
from tests.unit.node.nodes import run_of

LINES = b'{"question": "1 + 1", "answer": "2"}\n'
SHA256 = hashlib.sha256(LINES).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return run_of(Layout(tmp_path / "place", "exp"), "clock").store


def begun(tmp_path: Path, store: Store) -> None:
    file = tmp_path / "sums.jsonl"
    file.write_bytes(LINES)
    assert publish(store, {"sums": {"dataset": str(file), "sha256": SHA256}, "bf": {}}) == []


def joined(store: Store, cache: Path, said: str = "sums.jsonl", sha256: str = SHA256) -> Path:
    return Path(localised(store, {"sums": {"dataset": said, "sha256": sha256}}, cache)["sums"]["dataset"])


def test_who_joins_needs_nothing_but_the_place_and_fetches_once(tmp_path: Path, store: Store) -> None:
    begun(tmp_path, store)
    cache = tmp_path / "cache"
    found = joined(store, cache)
    assert found.name == "sums.jsonl"
    assert found.read_bytes() == LINES
    store.put(f"tasks/{SHA256}", b"other")
    assert joined(store, cache) == found


def test_a_file_of_that_content_in_the_working_directory_is_taken(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sums.jsonl").write_bytes(LINES)
    assert joined(store, tmp_path / "cache") == tmp_path / "sums.jsonl"


def test_a_file_that_is_not_what_its_name_says_is_never_taken(tmp_path: Path, store: Store) -> None:
    store.put(f"tasks/{SHA256}", LINES.replace(b"2", b"3"))
    with pytest.raises(ConfigError, match=r"tasks\.sums.* is not what its name says"):
        joined(store, tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.jsonl"))


def test_a_file_that_is_nowhere_is_asked_for(tmp_path: Path, store: Store) -> None:
    with pytest.raises(
        ConfigError, match=r"neither in the working directory nor at .*get it from whoever began the run"
    ):
        joined(store, tmp_path / "cache")


@pytest.mark.parametrize(
    "said",
    ["..", "/", "a\nb.jsonl", "\x1b[2J", "x" * 300, "../../../etc/sums.jsonl"],
    ids=["up", "root", "line", "escape", "long", "folders"],
)
def test_a_name_of_a_stranger_makes_no_path(tmp_path: Path, store: Store, said: str) -> None:
    store.put(f"tasks/{SHA256}", LINES)
    with pytest.raises(ConfigError, match="expected a file name"):
        joined(store, tmp_path / "cache", said)


def test_folders_and_large_files_are_left_to_each_node(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_files, "MOST_BYTES", 10)
    (tmp_path / "sums.jsonl").write_bytes(LINES)
    large = {"dataset": str(tmp_path / "sums.jsonl"), "sha256": SHA256}
    folder = {"dataset": str(tmp_path), "sha256": "0" * 64}
    source = {"python": str(tmp_path / "own.py"), "sha256": "1" * 64}
    assert publish(store, {"large": large, "folder": folder, "own": source}) == ["large", "folder"]
    assert store.stat("tasks") is None


def test_a_machine_that_takes_no_more_says_so_and_keeps_no_half_of_a_file(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path, store)

    def full(_from: Path, _to: Path) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(
        ConfigError, match=r"tasks\.sums.*Disk quota exceeded; free space there, or set SWARM_KEY_FOLDER"
    ):
        joined(store, tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
