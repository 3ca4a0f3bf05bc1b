"""Reading a folder that others write."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from swarm.errors import ExperimentError
from swarm.records import read as records
from swarm.records.read import (
    LARGEST_REGISTRATION,
    MOST_PEERS,
    MOST_PER_LINE,
    MOST_PER_LOOK,
    Tail,
    count_files,
    open_experiment,
    read_metrics,
    read_own_rows,
    read_peers,
    read_rows,
)
from swarm.types import RoundKey
from swarm.wire.codec import encode
from swarm.wire.layout import Layout
from swarm.wire.messages import PeerFile
from tests.unit.node.factories import make_peer, put
from tests.unit.views.factories import append, make_experiment, make_row


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


def peak_of(action: Callable[[], object]) -> int:
    """Bytes of Python objects at the height of an action, above those before it."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_line_that_is_too_long_is_junk_and_the_others_keep_their_numbers(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    longest, longer = b"x" * MOST_PER_LINE, b"y" * (MOST_PER_LINE + 100)
    file.write_bytes(b"\n".join([b"one", longest, longer, longer * 3, b"five", longer]))
    tail = Tail(file)
    assert list(tail.read()) == [b"one", longest, b"", b"", b"five"]
    assert tail.torn
    assert list(tail.read()) == []
    assert tail.torn
    with file.open("ab") as out:
        out.write(longer + b"\nseven\n")
    assert list(tail.read()) == [b"", b"seven"]
    assert not tail.torn


def test_a_long_line_is_not_held_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.touch()
    os.truncate(file, MOST_PER_LOOK - 1)
    with file.open("ab") as out:
        out.write(b"\n{}\n")
    tail = Tail(file)
    assert peak_of(lambda: list(tail.read())) < 4 * MOST_PER_LINE
    assert list(tail.read()) == [b"{}"]


def test_a_sparse_file_of_10_gigabytes_neither_blocks_nor_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "metrics.jsonl"
    file.touch()
    os.truncate(file, 10 * 2**30)
    read: list[int] = []
    take = Tail._take
    monkeypatch.setattr(Tail, "_take", lambda tail, part: (read.append(len(part)), take(tail, part))[1])
    assert peak_of(lambda: read_rows(file)) < 4 * MOST_PER_LINE
    assert MOST_PER_LOOK <= sum(read) <= MOST_PER_LOOK + MOST_PER_LINE


def test_what_one_look_leaves_the_next_ones_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_PER_LOOK", 10)
    file = tmp_path / "a.jsonl"
    lines = [b"%d" % number for number in range(30)]
    file.write_bytes(b"\n".join(lines) + b"\n")
    tail = Tail(file)
    looks = [list(tail.read()) for _ in range(10)]
    assert [line for look in looks for line in look] == lines
    assert max(map(len, looks)) <= 10


@pytest.mark.parametrize("junk", [b"", b"x" * (3 * MOST_PER_LINE) + b"\n"])
def test_a_node_finds_its_last_row_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, junk: bytes
) -> None:
    """Else it would do the rounds after it a second time."""
    monkeypatch.setattr(records, "MOST_PER_LOOK", 3000)
    monkeypatch.setattr(records, "MOST_ROWS", 4)
    file, layout = tmp_path / "metrics.jsonl", Layout(tmp_path, "exp")
    lines = [msgspec.json.encode(make_row(layout, "alice", round_)) + b"\n" + junk for round_ in range(20)]
    file.write_bytes(b"".join(lines) + b"torn")
    found = read_own_rows(file)
    assert [row.round for row in found.rows] == list(range(20))
    assert (found.junk, found.torn) == (20 * bool(junk), True)
    assert read_own_rows(tmp_path / "missing").rows == []


def test_a_new_file_behind_a_long_line_is_read_from_its_beginning(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"x" * (2 * MOST_PER_LINE))
    tail = Tail(file)
    assert list(tail.read()) == []
    file.write_bytes(b"one\ntwo\n")
    assert list(tail.read()) == [b"one", b"two"]


def test_no_more_rows_are_held_than_a_run_can_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_ROWS", 3)
    layout = make_experiment(tmp_path, rounds=5)
    assert [row.round for row in read_rows(layout.metrics_file("alice")).rows] == [0, 1, 2]


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


def test_a_registration_that_is_far_too_long_is_none(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    for node, length in (("alice", 100), ("mallory", LARGEST_REGISTRATION)):
        put(layout.peer_file(node), encode(make_peer(node, incarnation="x" * length)))
    assert [peer.peer_id for peer in read_peers(layout)] == ["alice"]


def test_a_flood_of_registrations_hides_nobody_who_is_known_to_be_alive(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    layout.peers.mkdir(parents=True)
    for node in [f"a-{number:04}" for number in range(MOST_PEERS + 5)] + ["zoe"]:
        layout.peer_file(node).write_bytes(encode(PeerFile(peer_id=node, registered_at=1.0, node_role="worker")))
    assert "zoe" not in {peer.peer_id for peer in read_peers(layout)}
    found = {peer.peer_id for peer in read_peers(layout, first={"zoe"})}
    assert "zoe" in found
    assert len(found) == MOST_PEERS
