"""Reading a folder that others write."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from swarm.errors import ExperimentError
from swarm.folder.records import Tail, count_files, open_experiment, read_metrics, read_peers, read_rows
from swarm.types import RoundKey
from tests.unit.monitor.factories import append, make_experiment, make_row


def test_tail_gives_each_whole_line_once(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    tail = Tail(file)
    assert list(tail.read()) == []
    file.write_bytes(b"one\ntw")
    assert list(tail.read()) == [b"one"]
    assert tail.torn
    file.write_bytes(b"one\ntwo\nthree\n")
    assert list(tail.read()) == [b"two", b"three"]
    assert not tail.torn
    assert list(tail.read()) == []


def test_tail_begins_again_when_the_file_became_shorter(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"one\ntwo\n")
    tail = Tail(file)
    list(tail.read())
    file.write_bytes(b"new\n")
    assert list(tail.read()) == [b"new"]


def test_tail_begins_again_when_the_file_was_cut_behind_its_start(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    first = b"x" * 300
    file.write_bytes(first + b"\n" + b"two\nthree\n")
    tail = Tail(file)
    list(tail.read())
    file.write_bytes(first + b"\nnew\n")
    assert list(tail.read()) == [first, b"new"]


def test_tail_begins_again_when_another_file_took_the_name(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"one\ntwo\n")
    tail = Tail(file)
    list(tail.read())
    (tmp_path / "b").write_bytes(b"uno\ndos\ntres\n")
    (tmp_path / "b").rename(file)
    assert list(tail.read()) == [b"uno", b"dos", b"tres"]


def test_tail_goes_on_when_the_same_file_gets_another_inode(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"one\n")
    tail = Tail(file)
    list(tail.read())
    (tmp_path / "b").write_bytes(b"one\ntwo\n")
    (tmp_path / "b").rename(file)
    assert list(tail.read()) == [b"two"]


def test_an_interrupted_reading_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"one\ntwo\nthree\n")
    tail = Tail(file)
    assert next(iter(tail.read())) == b"one"
    assert list(tail.read()) == [b"two", b"three"]


def test_junk_and_unknown_versions_are_counted_and_left_out(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=2)
    file = layout.metrics_file("alice")
    append(file, b"{not json")
    append(file, b"\xff\xfe")
    append(file, msgspec.json.encode(make_row(layout, "alice", 2, schema_version=99)))
    with file.open("ab") as out:
        out.write(b'{"half')
    rows = read_rows(file)
    assert ([row.round for row in rows.rows], rows.junk, rows.torn) == ([0, 1], 3, True)


def test_metrics_are_read_of_all_nodes_that_have_some(tmp_path: Path) -> None:
    metrics = read_metrics(make_experiment(tmp_path, workers=("alice", "bob"), rounds=2))
    assert {node: len(rows) for node, rows in metrics.items()} == {"alice": 2, "bob": 2}


def test_unreadable_peer_files_are_left_out(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    layout.peer_file("alice").write_bytes(b'{"peer_id": ')
    assert [peer.peer_id for peer in read_peers(layout)] == ["bob", "clock"]


def test_counting_tells_nodes_from_strays(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=1)
    (layout.rollouts / "round_01").mkdir()
    (layout.rollouts / "round_0" / "tmp").mkdir()
    (layout.rollouts_of(RoundKey(0)) / "bob.json.tmp").touch()
    counted = count_files(layout.rollouts)
    assert counted.nodes == {RoundKey(0): {"alice", "bob"}}
    assert {stray.name for stray in counted.strays} == {"round_01", "tmp", "bob.json.tmp"}


def test_an_unknown_experiment_is_refused_with_those_there_are(tmp_path: Path) -> None:
    make_experiment(tmp_path, name="first")
    make_experiment(tmp_path, name="second")
    with pytest.raises(ExperimentError, match="there are first, second"):
        open_experiment(tmp_path, "third")
    with pytest.raises(ExperimentError, match="none at all"):
        open_experiment(tmp_path / "nowhere", "third")


def test_a_fifo_or_a_folder_in_the_place_of_a_log_has_no_lines_and_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    assert list(Tail(tmp_path / "fifo").read()) == []
    assert list(Tail(tmp_path / "folder").read()) == []
