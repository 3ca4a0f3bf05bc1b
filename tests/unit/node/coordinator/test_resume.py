"""Where the round clock goes on, whatever became of its file and whoever wrote into the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swarm.node.coordinator.resume import clock_from_traces, resume_point
from swarm.records.files import SMALL_FILE
from swarm.types import RoundKey
from swarm.wire.codec import encode
from tests.layout import Layout
from tests.unit.node.factories import make_ghost, make_peer, make_state, put, put_reward, put_state, run_of

MOST = 100
"""Rounds of the experiment."""


WHOLE = encode(make_state(round=7))
NOT_A_CLOCK = {
    "missing": None,
    "empty": b"",
    "torn": WHOLE[: len(WHOLE) // 2],
    "another version": WHOLE.replace(b'"schema_version":1', b'"schema_version":2'),
    "too big": b" " * SMALL_FILE + WHOLE,
    "by nobody": WHOLE,
    "by a worker": encode(make_state(round=7, updated_by="alice")),
    "by a path": encode(make_state(round=7, updated_by="../peers/alice")),
    "beyond the end": encode(make_state(round=MOST + 1, max_rounds=10**6, updated_by="clock")),
}


@pytest.mark.parametrize("content", NOT_A_CLOCK.values(), ids=NOT_A_CLOCK)
def test_a_state_file_that_is_no_clock_never_gives_round_0_where_folders_show_later_ones(
    layout: Layout, content: bytes | None
) -> None:
    """The coordinator once restarted at round 0, or read a torn state file as round 0."""
    put(layout.peer_file("clock"), encode(make_peer("clock", node_role="coordinator")))
    make_ghost(layout, "alice", rounds=11)
    if content is not None:
        put(layout.state_file, content)
    key, state, problem = resume_point(run_of(layout), MOST)
    assert key == RoundKey(10)
    assert state is None
    assert bool(problem) == (content is not None), "what is damaged is said, what is missing is no damage"


@pytest.mark.parametrize(
    ("rounds", "asked", "says", "key", "believed"),
    [
        (4, MOST, {"round": 7, "stage": 1}, RoundKey(7, 1), True),
        (8, MOST, {"round": 60}, RoundKey(7), False),
        (8, MOST, {"round": MOST, "finished": True}, RoundKey(7), False),
        (21, MOST, {"round": 7}, RoundKey(20), True),
        (7, 5, {"round": 7, "max_rounds": 7, "finished": True}, RoundKey(7), True),
        (7, 5, {"round": 8, "max_rounds": 8, "finished": True}, RoundKey(5), False),
    ],
    ids=[
        *("a whole one", "a jump that no reward bears out", "an end that none bears out"),
        *("one that workers went beyond alone", "more than is asked for now", "more, and nobody did as many"),
    ],
)
def test_a_state_is_believed_where_rewards_bear_it_out_and_never_gone_back_to(
    layout: Layout, rounds: int, asked: int, says: dict[str, Any], key: RoundKey, believed: bool
) -> None:
    make_ghost(layout, "alice", rounds=rounds)
    put_state(layout, **{"max_rounds": MOST} | says)
    found, state, problem = resume_point(run_of(layout), asked)
    assert (found, state is not None, not problem) == (key, believed, believed)
    assert state is None or state.created_at == make_state().created_at
    assert believed or asked < MOST or "expected a reward in one of the 5 rounds before" in problem


def test_where_workers_are_expected_by_name_strangers_rewards_bear_no_state_out(layout: Layout) -> None:
    make_ghost(layout, "alice", rounds=8)
    for fake in ("sybil-0", "sybil-1"):
        make_ghost(layout, fake)
        put_reward(layout, RoundKey(59), fake)
    put_state(layout, max_rounds=MOST, round=60)
    assert resume_point(run_of(layout), MOST)[0] == RoundKey(60)
    assert resume_point(run_of(layout), MOST, frozenset({"alice"}))[:2] == (RoundKey(7), None)


def test_stages_count(layout: Layout) -> None:
    make_ghost(layout, "alice")
    for key in (RoundKey(2), RoundKey(9, 0), RoundKey(9, 1)):
        put_reward(layout, key, "alice")
    assert clock_from_traces(run_of(layout)) == RoundKey(9, 1)


@pytest.mark.parametrize(
    ("rounds", "expected"), [([5], 4), ([5, 90], 4), ([5, 5, 90], 4), ([5, 7, 90], 6), ([3, 5, 7, 90], 4)]
)
def test_no_worker_alone_says_where_the_clock_is(layout: Layout, rounds: list[int], expected: int) -> None:
    for number, done in enumerate(rounds):
        make_ghost(layout, f"node-{number}")
        put_reward(layout, RoundKey(done - 1), f"node-{number}")
    assert clock_from_traces(run_of(layout)) == RoundKey(expected)


def test_what_no_worker_left_is_no_trace(layout: Layout, tmp_path: Path) -> None:
    make_ghost(layout, "alice", rounds=5)
    make_ghost(layout, "never-submitted")
    put(layout.peer_file("clock"), encode(make_peer("clock", node_role="coordinator")))
    layout.rewards_of(RoundKey(999_999_999)).mkdir(parents=True)
    put(layout.rollout_file(RoundKey(80), "alice"), b"{}")
    put(layout.reward_file(RoundKey(70), "alice"), b"{}")
    put(layout.reward_file(RoundKey(71), "alice"), layout.reward_file(RoundKey(4), "alice").read_bytes())
    put_reward(layout, RoundKey(72), "not-registered")
    put_reward(layout, RoundKey(73), "clock")
    for name in ("round_99x", "round_-5", "round_007", "Round_50", "round_5.sync-conflict-1", "round_"):
        (layout.rewards / name / "stage_0").mkdir(parents=True)
    put(layout.rewards / "round_60", b"a file")
    (layout.rewards / "round_61").symlink_to(tmp_path)
    assert clock_from_traces(run_of(layout)) == RoundKey(4)


@pytest.mark.parametrize("gone", ["registration", "last rollouts"])
def test_what_was_cleaned_away_leaves_a_worker_where_its_rewards_are(layout: Layout, gone: str) -> None:
    make_ghost(layout, "alice", rounds=9)
    last = layout.rollout_file(RoundKey(8), "alice")
    (last if gone == "last rollouts" else layout.peer_file("alice")).unlink()
    assert clock_from_traces(run_of(layout)) == RoundKey(8)


def test_traces_never_lead_beyond_the_end(layout: Layout) -> None:
    make_ghost(layout, "alice")
    put_reward(layout, RoundKey(999_999_999), "alice")
    assert resume_point(run_of(layout), MOST)[0] == RoundKey(MOST)
