"""Where the round clock goes on, whatever became of its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.errors import ProtocolError
from swarm.folder.records import SMALL_FILE, read_state
from swarm.node.resume import clock_from_traces, resume_point
from swarm.protocol.codec import encode
from swarm.protocol.layout import Layout
from swarm.types import RoundKey
from tests.unit.node.factories import make_state, put


def make_traces(layout: Layout, *keys: RoundKey) -> None:
    """Rewards as a worker left them."""
    for key in keys:
        put(layout.reward_file(key, "alice"), b"{}")


WHOLE = encode(make_state(round=7))
NOT_A_CLOCK = {
    "missing": None,
    "empty": b"",
    "torn": WHOLE[: len(WHOLE) // 2],
    "not JSON": b"\x00\xff\xfe",
    "a list": b"[]",
    "an empty object": b"{}",
    "negative": WHOLE.replace(b'"round":7', b'"round":-1'),
    "round as text": WHOLE.replace(b'"round":7', b'"round":"7"'),
    "another version": WHOLE.replace(b'"schema_version":1', b'"schema_version":2'),
    "too big": b" " * SMALL_FILE + WHOLE,
}


@pytest.mark.parametrize("content", NOT_A_CLOCK.values(), ids=NOT_A_CLOCK)
def test_a_state_file_that_is_no_clock_never_gives_round_0_where_folders_show_later_ones(
    tmp_path: Path, content: bytes | None
) -> None:
    """The coordinator once restarted at round 0, or read a torn state file as round 0."""
    layout = Layout(tmp_path, "exp")
    make_traces(layout, RoundKey(8), RoundKey(9), RoundKey(10))
    if content is not None:
        put(layout.state_file, content)
    key, state, damage = resume_point(layout)
    assert key == RoundKey(10)
    assert state is None
    assert (damage is None) == (content is None), "what is damaged is said, what is missing is no damage"


def test_a_whole_state_file_is_believed(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    put(layout.state_file, encode(make_state(round=7, stage=1)))
    make_traces(layout, RoundKey(3))
    key, state, damage = resume_point(layout)
    assert key == RoundKey(7, 1)
    assert state is not None
    assert state.created_at == make_state().created_at
    assert damage is None


def test_a_new_experiment_begins_at_round_0(tmp_path: Path) -> None:
    assert resume_point(Layout(tmp_path, "exp")) == (RoundKey(0), None, None)


def test_traces_are_rollouts_or_rewards_whichever_went_further(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    make_traces(layout, RoundKey(2), RoundKey(9, 0))
    put(layout.rollout_file(RoundKey(10, 1), "alice"), b"{}")
    assert clock_from_traces(layout) == RoundKey(10, 1)


def test_folders_that_are_no_rounds_leave_no_trace(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    make_traces(layout, RoundKey(4))
    for name in ("round_99x", "round_-5", "round_007", "Round_50", "round_5.sync-conflict-1", "round_"):
        (layout.rewards / name / "stage_0").mkdir(parents=True)
    put(layout.rewards / "round_60", b"a file")
    assert clock_from_traces(layout) == RoundKey(4)


def test_a_reader_is_told_that_the_state_is_torn(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    assert read_state(layout) is None
    put(layout.state_file, WHOLE[:-20])
    with pytest.raises(ProtocolError, match="malformed"):
        read_state(layout)
