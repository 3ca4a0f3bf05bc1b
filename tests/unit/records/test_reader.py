"""Following a run: each look takes in what is new, whatever lies there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.records import growing, rows
from swarm.records.files import LARGEST_REGISTRATION, MOST_REGISTRATIONS, read_clock, read_peers
from swarm.records.growing import GrowingLines
from swarm.records.listing import count_files
from swarm.records.liveness import STOPPED, is_alive
from swarm.records.reader import RunReader, snapshot
from swarm.records.rows import read_metrics, read_own_rows, read_rows
from swarm.records.stream import EventStream
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import PeerFile
from tests.layout import Layout
from tests.unit.records.beside import Counting
from tests.unit.views.factories import (
    START,
    add_row,
    append,
    append_events,
    make_event,
    make_experiment,
    make_peer,
    make_round,
    make_row,
    make_state,
    reward_of,
    run_of,
    write,
)


def look(run: Run, reader: RunReader) -> None:
    now = reader.refresh()
    assert now.progress
    assert now.events


def test_a_refresh_reads_only_what_has_come_since_the_one_before(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=50)
    store = Counting(run_of(layout))
    run = Run("exp", store)  # type: ignore[arg-type]
    reader = RunReader(run)
    look(run, reader)
    assert store.bytes > 20_000
    store.bytes = 0
    look(run, reader)
    assert store.bytes == 0
    make_round(layout, "alice", 50)
    look(run, reader)
    assert 0 < store.bytes < 5_000
    assert reader.refresh().progress["alice"].rounds_done == 51


def test_an_experiment_that_was_deleted_and_begun_again_is_read_from_its_beginning(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=5)
    reader = RunReader(run_of(layout))
    look(run_of(layout), reader)
    shutil.rmtree(layout.root)
    layout.logs.mkdir(parents=True)
    add_row(layout, "alice", 0, my_reward=0.5)
    append_events(layout, "alice", make_event("node.starting", START))
    now = reader.refresh()
    assert now.progress["alice"].rewards == {0: 0.5}
    assert now.events["alice"].lines == 1


def test_what_one_look_leaves_the_next_ones_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "MOST_PER_READ", 10)
    layout = make_experiment(tmp_path, rounds=0)
    lines = [b"%d" % number for number in range(100)]
    layout.metrics_file("zoe").parent.mkdir(parents=True)
    layout.metrics_file("zoe").write_bytes(b"\n".join(lines) + b"\n")
    follower = GrowingLines(run_of(layout).store, keys.metrics("zoe"))
    looks = [[line for part in follower.look(most_reads=2) for line in part.records] for _ in range(20)]
    assert [line for one in looks for line in one] == lines
    assert max(map(len, looks)) <= 22


def test_a_node_finds_its_last_row_however_many_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would do the rounds after it a second time."""
    monkeypatch.setattr(growing, "MOST_PER_READ", 3000)
    monkeypatch.setattr(rows, "MOST_ROWS", 4)
    layout = make_experiment(tmp_path, rounds=40)
    with layout.metrics_file("alice").open("ab") as file:
        file.write(b"torn")
    found = read_own_rows(run_of(layout), "alice")
    assert ([row.round for row in found.rows], found.torn) == (list(range(40)), True)
    assert [row.round for row in read_rows(run_of(layout), "alice").rows] == [0, 1, 2, 3]
    assert read_own_rows(run_of(layout), "nobody").rows == []


def test_junk_and_unknown_versions_are_counted_and_left_out(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=2)
    for line in (b"{not json", b"\xff\xfe", msgspec.json.encode(make_row(layout, "alice", 2, schema_version=99))):
        append(layout.metrics_file("alice"), line)
        append(layout.events_file("alice"), line)
    found = read_rows(run_of(layout), "alice")
    assert ([row.round for row in found.rows], found.junk, found.torn) == ([0, 1], 3, False)
    now = snapshot(run_of(layout))
    assert sorted(now.progress["alice"].rewards) == [0, 1]
    assert now.events["alice"].junk == 3


def test_of_a_round_that_was_done_twice_the_last_row_counts_and_rewards_without_bounds_never(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=3)
    for number, reward in ((1, 0.5), (2, 1e300), (3, -1.0)):
        add_row(layout, "alice", number, my_reward=reward)
    counted = [(row.round, row.my_reward) for row in read_metrics(run_of(layout))["alice"]]
    assert counted == [(0, reward_of(0)), (1, 0.5), (2, reward_of(2))]
    assert snapshot(run_of(layout)).progress["alice"].rewards == dict(counted)


def test_a_fifo_a_folder_or_a_link_in_the_place_of_a_file_holds_nothing_and_blocks_nobody(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, workers=("alice", "bob", "carol"), rounds=1)
    for node, put in (("alice", os.mkfifo), ("bob", os.mkdir), ("carol", lambda file: file.symlink_to("/etc/passwd"))):
        for file in (layout.metrics_file(node), layout.events_file(node), layout.peer_file(node)):
            file.unlink()
            put(file)
    layout.state_file.unlink()
    os.mkfifo(layout.state_file)
    now = snapshot(run_of(layout))
    assert sorted(now.peers) == ["clock"]
    assert not any(progress.rewards for progress in now.progress.values())
    assert "not a regular file" in now.problem
    assert EventStream(run_of(layout)).read()[0].node == "clock"


def test_counting_tells_nodes_from_strays(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=1)
    (layout.rollouts / "round_01").mkdir()
    (layout.rollouts / "round_0" / "tmp").mkdir()
    (layout.rollouts_of(RoundKey(0)) / "bob.json.tmp").touch()
    counted = count_files(run_of(layout).store, keys.ROLLOUTS)
    assert counted.nodes == {RoundKey(0): {"alice", "bob"}}
    assert set(counted.strays) == {"rollouts/round_01", "rollouts/round_0/tmp", "rollouts/round_0/stage_0/bob.json.tmp"}


def test_a_registration_that_is_far_too_long_or_speaks_for_another_is_none(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    make_peer(layout, "mallory", incarnation="x" * LARGEST_REGISTRATION)
    write(layout.peer_file("bob"), PeerFile(peer_id="alice", registered_at=1.0, node_role="worker"))
    assert [peer.peer_id for peer in read_peers(run_of(layout))] == ["alice", "clock"]


def test_a_flood_of_registrations_hides_nobody_who_is_known_to_be_alive(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    layout.peers.mkdir(parents=True)
    for node in [f"a-{number:04}" for number in range(MOST_REGISTRATIONS + 5)] + ["zoe"]:
        layout.peer_file(node).write_bytes(encode(PeerFile(peer_id=node, registered_at=1.0, node_role="worker")))
    assert "zoe" not in {peer.peer_id for peer in read_peers(run_of(layout))}
    found = {peer.peer_id for peer in read_peers(run_of(layout), first={"zoe"})}
    assert "zoe" in found
    assert len(found) == MOST_REGISTRATIONS


@pytest.mark.parametrize(
    ("status", "left_at", "believed"), [(STOPPED, 40, False), (STOPPED, 99, True), ("active", 40, True)]
)
def test_a_clock_written_in_the_name_of_a_coordinator_after_it_left_is_none(
    tmp_path: Path, status: str, left_at: int, believed: bool
) -> None:
    """A run of 40 rounds that had ended once counted as one of two million, since a stranger wrote its state last."""
    layout = Layout(tmp_path, "exp")
    state = make_state(layout, round=99, finished=True, max_rounds=99)
    layout.put(layout.state_file, encode(state))
    make_peer(layout, "clock", node_role="coordinator", status=status, round=left_at)
    found = read_clock(run_of(layout))
    assert (found.state == state, found.problem == "") == (believed, believed)
    assert believed or "expected round 40, got 99: clock left at round 40" in found.problem


@pytest.mark.parametrize(
    ("written", "believed"),
    [
        ({"round": 7, "finished": True}, False),
        ({"round": 10, "finished": True}, True),
        ({"round": 10}, False),
        ({"round": 10, "held": True}, True),
        ({"round": 9}, True),
    ],
)
def test_a_clock_that_no_coordinator_can_write_is_none(tmp_path: Path, written: dict[str, Any], believed: bool) -> None:
    """An end before the last round, or a round after it."""
    layout = Layout(tmp_path, "exp")
    state = make_state(layout, max_rounds=10, **written)
    layout.put(layout.state_file, encode(state))
    found = read_clock(run_of(layout))
    assert (found.state == state, found.problem == "") == (believed, believed)
    assert believed or "no coordinator writes round" in found.problem


class Here:
    host = "here"

    def is_running(self, pid: int, started_at: float) -> bool:
        return pid == 1


@pytest.mark.parametrize(
    ("fields", "alive"),
    [
        ({"host": "here", "pid": 1}, True),
        ({"host": "here", "pid": 2, "last_seen": START}, False),
        ({"host": "there", "pid": 2, "last_seen": START - 14}, True),
        ({"host": "there", "pid": 1, "last_seen": START - 16}, False),
        ({"host": "there", "last_seen": START + 1000}, True),
        ({"host": "here", "pid": 1, "status": "stopped"}, False),
    ],
)
def test_a_node_of_this_machine_lives_by_its_process_and_others_by_their_heartbeat(
    fields: dict[str, object], alive: bool
) -> None:
    make: Callable[..., PeerFile] = PeerFile
    peer = make(peer_id="a", registered_at=1.0, node_role="worker", **fields)
    assert is_alive(peer, START, 15.0, Here()) is alive
