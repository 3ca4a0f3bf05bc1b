"""What a frame of `swarm top` shows, as text."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.plugins.top.frame import buckets, render, sparkline
from swarm.plugins.top.reader import TopReader
from swarm.views.groups import columns_of
from tests.layout import Layout
from tests.objects import KINDS, bounded, put
from tests.unit.views.factories import START, append, make_experiment, make_peer, make_row, run_of, set_clock

WALL = START + 12.0


def make_live(path: Path) -> Layout:
    """A run of two workers in its fourth round, in which bob has missed heartbeats."""
    layout = make_experiment(path)
    set_clock(layout, 3, max_rounds=10, updated_at=WALL - 5.0)
    beating = {"status": "active", "heartbeat_interval": 2.0, "round": 3}
    make_peer(layout, "clock", node_role="coordinator", last_seen=WALL, **beating)
    training = {"phase": "training", "phase_since": WALL - 4.0, **beating}
    for node, other, seen, reward in (("alice", "bob", 0.5, 0.5), ("bob", "alice", 9.0, 0.25)):
        make_peer(layout, node, last_seen=WALL - seen, **training)
        fields: dict[str, Any] = {"external_by_peer": {other: 3}, "external_groups": 3, "external_wanted": 4}
        fields |= {"local_groups": 4, "executor_busy": 0.75, "pool_groups": 5, "pool_informative": 3, "peers_heard": 1}
        fields |= {"memory_allocated": 5 * 10**9, "memory_total": 10**10, "memory_free": 25 * 10**8}
        append(layout.metrics_file(node), msgspec.json.encode(make_row(layout, node, 2, my_reward=reward, **fields)))
    return layout


def look(layout: Layout, wall: float = WALL) -> str:
    reader = TopReader(run_of(layout), liveness_timeout=60.0)
    return render(reader.look(wall).frame, 130).replace(str(layout.path), "PLACE")


def test_a_frame_as_text(tmp_path: Path) -> None:
    assert look(make_live(tmp_path)) == (
        "exp: 3 of 3 nodes alive, in PLACE\n"
        "round 3, stage 0, open for 5.0s; 3/10 done (30%); 0 rollout files, 0 rewards\n"
        "2.0s per round, 0 tokens per second, about 12s left\n"
        "reward 0.375 (0.250 to 0.500)  ▂▃▆  0 to 0.5\n"
        "\n"
        "node   state                           seen  round  reward  curve  I/J  busy  learns from       memory\n"
        "alice  trains, 4.0s                    0.5s      3   0.500  ▂▃█    4/4   75%  bob 3        5.0 GB, 75%\n"
        "bob    trains, 4.0s          9.0s (4 beats)      3   0.250  ▂▃▅    4/4   75%  alice 3      5.0 GB, 75%\n"
        "clock  waits for alice, bob            0.0s      3       -           -     -                         -\n"
        "\n"
        "alice trained on 3 of 4 external groups: 2 zero advantage\n"
        "bob trained on 3 of 4 external groups: 2 zero advantage"
    )


def test_no_line_is_wider_than_the_terminal(tmp_path: Path) -> None:
    layout = make_live(tmp_path)
    frame = TopReader(run_of(layout), liveness_timeout=60.0).look(WALL).frame
    for width in (20, 40, 80, 130):
        assert max(map(columns_of, render(frame, width).split("\n"))) <= width


def test_a_run_that_nobody_joined_yet_is_a_frame(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    set_clock(layout, 0, max_rounds=3)
    layout.peer_file("clock").unlink()
    assert "no node has registered" in look(layout)


def test_one_node_in_full_has_curves_tasks_and_teachers(tmp_path: Path) -> None:
    layout = make_live(tmp_path)
    row = make_row(
        layout, "alice", 3, task_rewards={"bf": 0.5}, external_by_peer={"bob": 2}, refused_files={"ragged": 2}
    )
    append(layout.metrics_file("alice"), msgspec.json.encode(row))
    reader = TopReader(run_of(layout), liveness_timeout=60.0)
    now = reader.look(WALL)
    text = reader.node_text(now, "alice", 100)
    for words in (
        "alice: worker",
        "trains, 4.0s",
        "my_reward",
        "bf",
        "by publisher: bob 5",
        "refused of peers: ragged 2",
    ):
        assert words in text
    assert reader.node_text(now, "eve", 100) == "eve: not there"


@pytest.mark.parametrize("kind", KINDS)
def test_odd_objects_stop_no_look(kind: str, tmp_path: Path) -> None:
    layout, outside = make_live(tmp_path / "place"), tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    for place in (layout.metrics_file("bob"), layout.events_file("bob"), layout.peer_file("bob"), layout.state_file):
        put(kind, place, outside)
    with bounded():
        reader = TopReader(run_of(layout), liveness_timeout=60.0)
        assert "alice" in render(reader.look(WALL).frame, 130)
        assert reader.groups_text("", 100)
        assert reader.events_text("")


def test_curves_have_gaps_where_nothing_was_measured_and_means_where_room_is_short() -> None:
    assert sparkline([0.0, 0.5, 1.0, math.nan, 2.0], 9, 1.0) == "▁▅█ █"
    assert buckets([1.0, 3.0, math.nan, math.nan, 5.0, math.nan], 3)[::2] == [2.0, 5.0]
    assert sparkline([1.0] * 1000, 16, 1.0) == "█" * 16
    assert sparkline([0.0], 4, 0.0) == "▁"
    assert sparkline([], 4, 1.0) == ""


def test_the_newest_answers_and_the_last_events_are_text(tmp_path: Path) -> None:
    reader = TopReader(run_of(make_live(tmp_path)), liveness_timeout=60.0)
    assert "alice/2/0/0" in reader.groups_text("alice", 100)
    assert "bob/2/0/0" not in reader.groups_text("alice", 100)
    assert "round.finished" in reader.events_text("alice")
    assert "bob " in reader.events_text("")
