"""Where an experiment stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.records.finished import NO_REWARDS
from swarm.records.hints import FEW
from swarm.types import RoundKey
from swarm.views import summary
from swarm.views.status import NodeStatus, Status, StatusReader, render
from tests.layout import Layout
from tests.unit.views.factories import (
    START,
    add_row,
    make_experiment,
    make_peer,
    make_rollouts,
    make_round,
    make_state,
    run_of,
    set_clock,
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
    assert "stopped in round 2, 2/9 done (22%): nobody is alive, the clock last moved 4.0s ago" in render(read(layout))
    make_peer(layout, "alice", last_seen=NOW)
    status = read(layout)
    assert (status.round, status.max_rounds, status.finished, status.updated_ago) == (2, 9, False, 4.0)
    assert (status.rollouts, status.rewards) == (1, 1)
    assert "round 2, stage 0, open for 4.0s; 2/9 done (22%); 1 rollout files, 1 rewards" in render(status)


def test_liveness_is_judged_by_the_age_of_the_heartbeat(layout: Layout) -> None:
    make_peer(layout, "alice", last_seen=NOW - 14)
    make_peer(layout, "bob", last_seen=NOW - 16)
    make_peer(layout, "clock", last_seen=NOW - 1, status="stopped")
    make_peer(layout, "dora", last_seen=NOW + 100)  # her clock is ahead of ours
    status = read(layout)
    assert [node.node for node in status.nodes if node.live] == ["alice", "dora"]
    assert node_of(status, "dora").seen_ago == 0.0


def test_a_node_known_from_its_logs_alone_is_shown(layout: Layout) -> None:
    layout.peer_file("bob").unlink()
    assert node_of(read(layout), "bob").status == "?"
    assert "bob" in render(read(layout))


def test_before_the_start_and_with_a_broken_state_it_says_so(layout: Layout, tmp_path: Path) -> None:
    layout.state_file.write_bytes(b'{"round": ')
    assert "cannot be read" in render(read(layout))
    layout.state_file.unlink()
    assert "has not started" in render(read(layout))
    assert "no node has registered" in render(read(Layout(tmp_path, "other")))


@pytest.mark.parametrize(("model", "role"), [("person", "person"), ("tiny-2-gpt2", "generator")])
def test_who_is_waited_for_and_trains_nothing_is_shown_as_what_it_is(layout: Layout, model: str, role: str) -> None:
    make_peer(layout, "alice", model=model, trains=False)
    assert [node.role for node in read(layout).nodes if node.node == "alice"] == [role]


def test_the_table_fits_a_wide_terminal(layout: Layout) -> None:
    make_peer(layout, "n" * 64, phase="p" * 50, status="s" * 50, node_role="r" * 50, round=10**9)
    assert max(map(len, render(read(layout)).splitlines()[3:])) <= 130


def test_workers_that_went_on_without_their_coordinator_are_told_of(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=3)
    write(layout.state_file, make_state(layout, round=1, max_rounds=9, finished=False))
    add_row(layout, "alice", 3, clock="own")
    status = StatusReader(run_of(layout), liveness_timeout=15.0).read(START)
    assert status.alone == ["alice"]
    assert "no coordinator since round 1, 1/9 done: 1 workers went on by themselves" in render(status)


def test_what_makes_a_node_useless_is_said_by_name(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=3)
    for number in range(3, 3 + FEW):
        add_row(layout, "alice", number, late=True)
    status = read(layout)
    assert [(hint.code, hint.nodes) for hint in status.hints] == [("short-rounds", ("alice",))]
    assert "hint     alice: late in 10 of its last 10 rounds" in render(status)
    assert "docs/hints.md#short-rounds" in render(status)
    assert "docs/hints.md#short-rounds" in summary.render(summary.summarise_run(run_of(layout)))


def test_who_hears_nothing_of_a_slow_peer_is_told_its_name_and_both_numbers(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, workers=(), rounds=12)
    set_clock(layout, 12, max_rounds=99, round_interval=60.0)
    nothing = {"pool_groups": 0, "external_groups": 0, "external_wanted": 4, "total_agents": 2}
    for number in range(2, 12):
        add_row(layout, "anna", number, **nothing)
    slow = {"seconds_round": 279.0, "seconds_generate": 200.0, "seconds_train": 78.0, "late": True}
    add_row(layout, "ben", 0, **slow)
    text = render(read(layout))
    assert "hint     anna: received nothing from ben in 10 rounds: ben needs 278 s, a round lasts 60 s" in text
    assert "hint     ben: took part in 1 of 13 rounds: its work takes 278 s, a round lasts 60 s" in text


def test_a_node_that_all_others_refuse_hears_of_it_unless_one_took_its_groups(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, workers=("alice", "bob", "carl"))
    refuses = {"refused_by_peer": {"alice": {"question_mismatch": 12}, "bob": {"stale": 12}}}
    add_row(layout, "carl", 3, **refuses)
    add_row(layout, "alice", 3, accepted_by_peer={"bob": 1})
    (hint,) = read(layout).hints
    assert (hint.code, hint.nodes) == ("refused-everywhere", ("alice",))
    assert "12 times, 12 of them question_mismatch" in hint.evidence


def test_how_far_how_fast_and_how_long_still(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=4)  # of 2 s each
    write(layout.state_file, make_state(layout, round=4, max_rounds=10, updated_at=NOW - 1))
    for node in ("alice", "bob"):
        make_peer(layout, node, last_seen=NOW - 1)
    status = read(layout)
    assert (status.rounds_done, status.seconds_per_round, status.seconds_left) == (4, 2.0, 11.0)
    assert "4/10 done (40%)" in render(status)
    assert "\n2.0s per round, about 11s left\n" in render(status)


STANDS = {
    "as its coordinator says": (NO_REWARDS, 1.0, "worker"),
    "as nobody works": ("", 1.0, "watcher"),
    "as the round is long over": ("", 500.0, "worker"),
}


@pytest.mark.parametrize(("phase", "open_for", "role"), STANDS.values(), ids=STANDS)
def test_a_clock_that_stands_is_shown_as_such_and_promises_no_time(
    tmp_path: Path, phase: str, open_for: float, role: str
) -> None:
    layout = make_experiment(tmp_path, rounds=4)
    moved = NOW - open_for
    write(layout.state_file, make_state(layout, round=4, max_rounds=10, updated_at=moved, round_interval=60.0))
    for node in ("alice", "bob"):
        make_peer(layout, node, last_seen=NOW - 1, node_role=role)
    make_peer(layout, "clock", last_seen=NOW - 1, node_role="coordinator", phase=phase)
    status = read(layout)
    assert status.stands
    assert status.seconds_left is None
    assert "the clock stands in round 4" in render(status)
    assert " left" not in render(status).splitlines()[2]


def test_who_is_waited_for_is_named_and_for_how_long(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=2)
    write(layout.state_file, make_state(layout, round=2, max_rounds=9, updated_at=NOW - 4))
    make_peer(layout, "clock", node_role="coordinator", last_seen=NOW)
    make_peer(layout, "alice", phase="gathering", phase_since=NOW - 3.2, last_seen=NOW - 1)
    make_peer(layout, "bob", phase="generating", last_seen=NOW - 1)
    write(layout.rollout_file(RoundKey(2), "alice"), make_rollouts("alice", RoundKey(2)))
    status = read(layout)
    assert node_of(status, "alice").state == "waits for groups of bob, 3.2s"
    assert node_of(status, "bob").state == "generates its answers"
    assert node_of(status, "clock").state == "waits for alice, bob"
    assert not status.stands
    for node in ("carl", "dora"):
        make_peer(layout, node, phase="gathering", last_seen=NOW)
    assert node_of(read(layout), "dora").state == "waits for groups of bob, carl", "alice's are there"
    assert node_of(read(layout), "clock").state == "waits for alice, bob and 2 more"


def test_before_the_first_round_the_coordinator_waits_for_workers(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    make_peer(layout, "clock", node_role="coordinator", last_seen=NOW)
    make_peer(layout, "alice", status="starting", phase="", registered_at=NOW - 8, last_seen=NOW)
    assert node_of(read(layout), "clock").state == "waits for workers"
    assert "the coordinator waits until its workers are ready and no new one comes" in render(read(layout))
    assert node_of(read(layout), "alice").state == "starts: loads its model, 8.0s"


def test_a_row_that_is_newer_than_the_last_heartbeat_says_where_its_node_is(tmp_path: Path) -> None:
    """In a bucket a node beats once a minute, and its rows come at once."""
    layout = make_experiment(tmp_path, workers=("alice",), rounds=3)
    write(layout.state_file, make_state(layout, round=4, max_rounds=9, updated_at=NOW - 4))
    make_peer(layout, "alice", status="starting", phase="", round=-1, last_seen=NOW - 12)
    add_row(layout, "alice", 3, timestamp=NOW - 5)
    alice = node_of(read(layout), "alice")
    assert alice.round == 3
    assert alice.state == "waits for a round, 5.0s"


def test_a_node_whose_heartbeats_are_missing_is_said_so_by_its_own_pace(layout: Layout) -> None:
    make_peer(layout, "alice", last_seen=NOW - 14, heartbeat_interval=5.0)
    make_peer(layout, "bob", last_seen=NOW - 200, heartbeat_interval=5.0, phase="training")
    assert node_of(read(layout), "alice").seen == "14s (3 beats)"
    assert node_of(read(layout), "bob").state == "silent, 40 heartbeats missed"


def test_why_fewer_external_groups_were_trained_on_than_wanted_is_said_by_count(layout: Layout) -> None:
    make_peer(layout, "alice", last_seen=NOW)
    few = {"external_wanted": 4, "external_groups": 1, "pool_groups": 32, "pool_informative": 1, "peers_heard": 8}
    add_row(layout, "alice", 3, **few, refused_files={"stale": 6})
    text = render(read(layout))
    assert "alice: 1 of 4 external groups: 31 zero advantage, 6 stale" in text
    assert "  1/4  " in text
