"""Where an experiment stands."""

from __future__ import annotations

from pathlib import Path

import msgspec

from swarm.records.hints import FEW
from swarm.views import summary
from swarm.views.status import NodeStatus, Status, StatusReader, render
from tests.layout import Layout
from tests.unit.views.factories import (
    START,
    append,
    make_experiment,
    make_peer,
    make_round,
    make_row,
    make_state,
    run_of,
    write,
)

NOW = START + 110


def read(layout: Layout, now: float = NOW) -> Status:
    return StatusReader(run_of(layout), liveness_timeout=15.0).read(now)


def node_of(status: Status, name: str) -> NodeStatus:
    (found,) = [node for node in status.nodes if node.node == name]
    return found


def test_the_open_round_and_what_it_has_so_far(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=2)
    make_round(layout, "alice", 2)
    write(layout.state_file, make_state(layout, round=2, max_rounds=9, updated_at=NOW - 4))
    status = read(layout)
    assert (status.round, status.max_rounds, status.finished, status.updated_ago) == (2, 9, False, 4.0)
    assert (status.rollouts, status.rewards) == (1, 1)
    assert "round 2 of 9, stage 0, open for 4.0s; 1 rollout files, 1 rewards" in render(status)


def test_liveness_is_judged_by_the_age_of_the_heartbeat(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    make_peer(layout, "alice", last_seen=NOW - 14)
    make_peer(layout, "bob", last_seen=NOW - 16)
    make_peer(layout, "clock", last_seen=NOW - 1, status="stopped")
    make_peer(layout, "dora", last_seen=NOW + 100)  # her clock is ahead of ours
    status = read(layout)
    assert {node.node: node.live for node in status.nodes} == {
        "alice": True,
        "bob": False,
        "clock": False,
        "dora": True,
    }
    assert node_of(status, "dora").seen_ago == 0.0


def test_rewards_and_refusals_come_from_the_metrics(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=0)
    for number in range(2):
        row = make_row(layout, "alice", number, refused_files={"ragged": 1, "oversized": number})
        append(layout.metrics_file("alice"), msgspec.json.encode(row))
    alice = node_of(read(layout), "alice")
    assert (alice.rounds, alice.last_reward, alice.refused_files) == (2, row.my_reward, {"ragged": 2, "oversized": 1})
    assert alice.cumulative_reward == row.cumulative_reward
    assert node_of(read(layout), "clock").last_reward is None


def test_a_second_reading_adds_only_what_is_new(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=2)
    reader = StatusReader(run_of(layout), liveness_timeout=15.0)
    reader.read(NOW)
    make_round(layout, "alice", 2)
    make_round(layout, "carol", 0)
    status = reader.read(NOW)
    assert {node.node: node.rounds for node in status.nodes} == {"alice": 3, "bob": 2, "carol": 1, "clock": 0}


def test_a_node_known_from_its_logs_alone_is_shown(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    layout.peer_file("bob").unlink()
    assert node_of(read(layout), "bob").status == "?"
    assert "bob" in render(read(layout))


def test_before_the_start_and_with_a_broken_state_it_says_so(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    layout.state_file.write_bytes(b'{"round": ')
    assert "cannot be read" in render(read(layout))
    layout.state_file.unlink()
    assert "has not started" in render(read(layout))
    assert "no node has registered" in render(read(Layout(tmp_path, "other")))


def test_a_finished_run_is_said_to_be(tmp_path: Path) -> None:
    assert "finished: 3 of 3 rounds, 10s ago" in render(read(make_experiment(tmp_path)))


def test_words_of_strangers_reach_no_terminal_raw(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    make_peer(layout, "alice", phase="\x1b[31m", status="a\nb", node_role="\x07")
    row = make_row(layout, "alice", 9, refused_files={"\x1b]0;owned": 1})
    append(layout.metrics_file("alice"), msgspec.json.encode(row))
    text = render(read(layout))
    assert not [c for c in text if not c.isprintable() and c != "\n"]
    assert len(text.splitlines()) == 7


def test_the_table_fits_a_wide_terminal(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    make_peer(layout, "n" * 64, phase="p" * 50, status="s" * 50, node_role="r" * 50, round=10**9)
    assert max(map(len, render(read(layout)).splitlines()[3:])) <= 130


def test_workers_that_went_on_without_their_coordinator_are_told_of(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=3)
    write(layout.state_file, make_state(layout, round=1, max_rounds=9, finished=False))
    append(layout.metrics_file("alice"), msgspec.json.encode(make_row(layout, "alice", 3, clock="own")))
    status = StatusReader(run_of(layout), liveness_timeout=15.0).read(START)
    assert status.alone == ["alice"]
    assert "no coordinator since round 1 of 9: 1 workers went on by themselves" in render(status)


def test_what_makes_a_node_useless_is_said_by_name(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=3)
    for number in range(3, 3 + FEW):
        append(layout.metrics_file("alice"), msgspec.json.encode(make_row(layout, "alice", number, late=True)))
    status = read(layout)
    assert [(hint.code, hint.nodes) for hint in status.hints] == [("short-rounds", ("alice",))]
    assert "hint     alice: late in 10 of its last 10 rounds" in render(status)
    assert "docs/hints.md#short-rounds" in render(status)
    assert "docs/hints.md#short-rounds" in summary.render(summary.summarise_run(run_of(layout)))


def test_a_node_that_all_others_refuse_hears_of_it_unless_one_took_its_groups(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, workers=("alice", "bob", "carl"))
    refuses = {"refused_by_peer": {"alice": {"question_mismatch": 12}, "bob": {"stale": 12}}}
    append(layout.metrics_file("carl"), msgspec.json.encode(make_row(layout, "carl", 3, **refuses)))
    append(layout.metrics_file("alice"), msgspec.json.encode(make_row(layout, "alice", 3, accepted_by_peer={"bob": 1})))
    (hint,) = read(layout).hints
    assert (hint.code, hint.nodes) == ("refused-everywhere", ("alice",))
    assert "12 times, 12 of them question_mismatch" in hint.evidence
