"""Rows of a run handed to a sink, once and in their order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from swarm.plugins.sinks import feed as module
from swarm.plugins.sinks.base import BEFORE_ALL, SinkRun, sink_run
from swarm.plugins.sinks.feed import Feed
from swarm.types import RoundKey
from swarm.wire.messages import ExperimentFile
from tests.layout import Layout
from tests.unit.views.factories import append, make_experiment, make_row, run_of, write


class Memory:
    """A sink that keeps what was flushed."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, RoundKey, Mapping[str, float]]] = []
        self.taken: list[tuple[str, RoundKey, Mapping[str, float]]] = []

    def written(self, node: str) -> RoundKey:
        return max((key for name, key, _ in self.kept if name == node), default=BEFORE_ALL)

    def row(self, node: str, key: RoundKey, at: float, values: Mapping[str, float]) -> None:
        self.taken.append((node, key, values))

    def flush(self) -> None:
        self.kept += self.taken
        self.taken = []

    def close(self) -> None:
        self.flush()

    def rounds(self, node: str) -> list[int]:
        return [key.round for name, key, _ in self.kept if name == node]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return make_experiment(tmp_path, rounds=3)


def add(layout: Layout, *rounds: int, node: str = "alice", reward: float = 0.5, stage: int = 0) -> None:
    for number in rounds:
        row = make_row(layout, node, number, my_reward=reward, stage=stage)
        append(layout.metrics_file(node), msgspec.json.encode(row))


def test_what_is_new_comes_once_for_each_node(layout: Layout) -> None:
    sink = Memory()
    feed = Feed(run_of(layout), sink)
    assert feed.pump()
    assert not feed.pump()
    add(layout, 3, 4)
    assert feed.pump()
    assert (sink.rounds("alice"), sink.rounds("bob"), feed.rows) == ([0, 1, 2, 3, 4], [0, 1, 2], 8)


def test_what_a_sink_lost_comes_again(layout: Layout) -> None:
    sink = Memory()
    Feed(run_of(layout), sink).pump()
    sink.kept = sink.kept[:1]
    Feed(run_of(layout), sink).pump()
    assert sink.rounds("alice") == [0, 1, 2]


def test_of_rounds_that_were_redone_the_last_row_counts_and_what_was_handed_over_stays(layout: Layout) -> None:
    add(layout, 1, 2, reward=0.75)
    sink = Memory()
    feed = Feed(run_of(layout), sink)
    feed.pump()
    assert [values["my_reward"] for name, _, values in sink.kept if name == "alice"][1:] == [0.75, 0.75]
    add(layout, 2, 3, reward=0.25)
    feed.pump()
    assert sink.rounds("alice") == [0, 1, 2, 3]


def test_stages_come_in_their_order(layout: Layout) -> None:
    add(layout, 3, stage=1)
    add(layout, 3)
    sink = Memory()
    Feed(run_of(layout), sink).pump()
    assert [key for _, key, _ in sink.kept if key.round == 3] == [RoundKey(3), RoundKey(3, 1)]


def test_lines_that_are_no_rows_and_nodes_without_any_do_no_harm(layout: Layout) -> None:
    for line in (b"junk", b"{}", b'{"round": 1e400}', b"\xff\xfe", b"[" * 5000):
        append(layout.metrics_file("alice"), line)
    append(layout.metrics_file("mallory"), b"junk")
    sink = Memory()
    Feed(run_of(layout), sink).pump()
    assert sink.rounds("alice") == [0, 1, 2]


def test_a_file_that_became_another_one_is_not_handed_over_twice(layout: Layout) -> None:
    sink = Memory()
    feed = Feed(run_of(layout), sink)
    feed.pump()
    layout.metrics_file("alice").unlink()
    add(layout, 0, 1, 2, 3)
    feed.pump()
    assert sink.rounds("alice") == [0, 1, 2, 3]


def test_a_flood_of_nodes_is_bounded_and_counted(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NODES", 2)  # of alice, bob and clock
    add(layout, 0, node="zoe")
    sink = Memory()
    feed = Feed(run_of(layout), sink)
    feed.pump()
    assert feed.left_out == {"clock", "zoe"}
    assert sink.rounds("zoe") == []


# ── what a sink is opened for ───────────────────────────────────────────────────────────────────────────────────────
def begun(layout: Layout, created_at: float = 1_700_000_000.0, **identity: object) -> SinkRun:
    file = ExperimentFile(experiment_name="exp", created_at=created_at, created_by="clock", identity=identity)
    write(layout.experiment_file, file)
    return sink_run(run_of(layout), Path("/sinks"))


def test_a_run_is_known_by_its_name_and_when_it_was_begun(layout: Layout) -> None:
    assert begun(layout).name == "exp-20231114-221320"
    assert sink_run(run_of(make_experiment(layout.path, name="other")), Path("/sinks")).name == "other"


def test_what_a_stranger_says_of_it_is_bounded(layout: Layout) -> None:
    of = begun(layout, 1e300, max_stages=10**9, seed=7, **{"x\x1b" + "y" * 999: "z" * 999, "list": [1], "flag": True})
    assert (of.name, of.stages) == ("exp", 1)
    assert of.config["seed"] == 7
    assert "list" not in of.config
    assert max(len(f"{name}{value}") for name, value in of.config.items()) <= 400
    layout.experiment_file.write_text("{")
    assert sink_run(run_of(layout), Path("/sinks")).name == "exp"


def test_steps_are_rounds_or_count_stages() -> None:
    one, three = SinkRun("e", "e", Path()), SinkRun("e", "e", Path(), stages=3)
    assert one.step(RoundKey(7)) == 7
    keys = [RoundKey(0), RoundKey(0, 2), RoundKey(5, 1)]
    assert [three.key(three.step(key)) for key in keys] == keys
