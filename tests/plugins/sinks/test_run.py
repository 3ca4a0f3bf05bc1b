"""`swarm sink run`, until a run is over or once."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.cli.main import run
from swarm.cli.processes import EndRequest
from swarm.plugins.sinks import run as module
from swarm.plugins.sinks.base import BEFORE_ALL, SinkRun, sink_run
from swarm.plugins.sinks.feed import LONGEST_NAME, MOST_ENTRIES, Feed, name_of, values_of
from swarm.plugins.sinks.run import GRACE, LONGEST_PAUSE
from swarm.types import RoundKey
from swarm.wire.messages import ExperimentFile
from tests.layout import Layout
from tests.unit.views.factories import append, make_experiment, make_round, make_row, run_of, set_clock, write


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


class Days:
    """A clock that goes on by waiting alone, sinks that fail, and what happens at each look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.sink = Memory()
        self.failures: list[Exception] = []
        self.pauses: list[float] = []
        self.then: Iterator[object] = iter(())
        self.asked = EndRequest()
        monkeypatch.setattr(module, "time", self)
        monkeypatch.setattr(module, "open_sink", self._open)
        monkeypatch.setattr(module, "refuse_kinds", lambda *_: None)
        monkeypatch.setattr(EndRequest, "wait", self._wait)

    def monotonic(self) -> float:
        return self.now

    def _wait(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)
        next(self.then, None)

    def _open(self, kind: str, of: SinkRun) -> Memory:
        if self.failures:
            raise self.failures.pop(0)
        return self.sink


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = make_experiment(tmp_path / "here", rounds=3)
    write(layout.experiment_file, ExperimentFile(experiment_name="exp", created_at=1.7e9, created_by="c", identity={}))
    return layout


@pytest.fixture
def days(monkeypatch: pytest.MonkeyPatch) -> Days:
    return Days(monkeypatch)


def sink(layout: Layout, *how: str, folder: Path | None = None) -> int:
    where = ["--path", str(layout.path), "--experiment", layout.experiment]
    return run(["sink", "run", "tensorboard", *where, "--folder", str(folder or layout.path.parent / "sinks"), *how])


def test_a_run_is_followed_until_it_has_been_over_for_a_while(layout: Layout, days: Days) -> None:
    set_clock(layout, 3, max_rounds=5, finished=False)

    def live() -> Iterator[None]:
        make_round(layout, "alice", 3)
        yield
        set_clock(layout, 4, max_rounds=4, finished=True)
        yield
        make_round(layout, "bob", 3)  # who was the last to write

    days.then = live()
    assert sink(layout) == 0
    assert days.sink.rounds("alice") == days.sink.rounds("bob") == [0, 1, 2, 3]
    assert days.now >= GRACE


def test_a_sink_that_fails_is_said_opened_again_and_nothing_is_doubled(
    layout: Layout, days: Days, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flush, refusals = days.sink.flush, iter([ValueError("no")])

    def flush_or_not() -> None:
        for error in refusals:
            days.sink.taken = []
            raise error
        flush()

    days.failures = [OSError("disk full")] * 9
    monkeypatch.setattr(days.sink, "flush", flush_or_not)
    assert sink(layout) == 0
    assert days.sink.rounds("alice") == [0, 1, 2], "a row that is refused halfway comes again"
    assert days.pauses[:7] == [2, 4, 8, 16, 32, 64, LONGEST_PAUSE]
    said = capsys.readouterr().err
    assert "tensorboard takes no rows: OSError: disk full; the run goes on" in said
    assert "[SWARM-SINK]" in said


def test_who_is_asked_to_end_hands_over_what_there_is_and_says_how_the_rest_would_come(
    layout: Layout, days: Days, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_clock(layout, 3, max_rounds=5, finished=False)
    monkeypatch.setattr(EndRequest, "is_set", lambda _: True)
    assert sink(layout) == 0
    assert days.sink.rounds("alice") == [0, 1, 2]
    days.failures = [OSError("disk full")]
    assert sink(layout) == 1
    assert "swarm sink run tensorboard --path" in capsys.readouterr().err


def test_a_run_that_has_not_said_what_it_is_is_waited_for(layout: Layout, days: Days) -> None:
    set_clock(layout, 3, max_rounds=5, finished=False)
    file = layout.experiment_file.read_bytes()
    layout.experiment_file.unlink()

    def live() -> Iterator[None]:
        assert days.sink.kept == []
        layout.experiment_file.write_bytes(file)
        yield
        set_clock(layout, 3, max_rounds=3, finished=True)

    days.then = live()
    assert sink(layout) == 0
    assert days.sink.rounds("alice") == [0, 1, 2]


def test_a_run_that_goes_on_is_handed_over_once_as_far_as_it_is_there(
    layout: Layout, days: Days, capsys: pytest.CaptureFixture[str]
) -> None:
    set_clock(layout, 3, max_rounds=5, finished=False)
    assert sink(layout, "--once") == 0
    assert "tensorboard has 6 more rows of exp" in capsys.readouterr().out
    assert sink(layout, "--once") == 0
    assert "tensorboard has 0 more rows of exp" in capsys.readouterr().out
    assert days.pauses == []


def test_the_place_is_not_written_to_and_takes_no_sink(
    layout: Layout, days: Days, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file: file.stat().st_mtime_ns for file in layout.path.rglob("*")}
    assert sink(layout, "--once") == 0
    assert sink(layout, "--once", folder=layout.path / "sinks") == 2
    assert "is in the shared place" in capsys.readouterr().err
    assert {file: file.stat().st_mtime_ns for file in layout.path.rglob("*")} == before


def test_a_kind_that_there_is_not_or_whose_library_is_missing_is_refused(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--path", str(layout.path), "--experiment", "exp"]
    assert run(["sink", "run", "mlflow", *where]) == 2
    monkeypatch.setattr("swarm.plugins.sinks.opening.find_spec", lambda _: None)
    capsys.readouterr()
    assert run(["sink", "run", "wandb", *where]) == 2
    assert 'pip install "wandb' in capsys.readouterr().err


# ── rows handed to a sink, once and in their order ──────────────────────────────────────────────────────────────────
def add(layout: Layout, *rounds: int, node: str = "alice", reward: float = 0.5, stage: int = 0) -> None:
    for number in rounds:
        row = make_row(layout, node, number, my_reward=reward, stage=stage)
        append(layout.metrics_file(node), msgspec.json.encode(row))


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


def test_stages_come_in_their_order_and_a_file_that_became_another_one_does_not_come_twice(layout: Layout) -> None:
    add(layout, 3, stage=1)
    add(layout, 3)
    sink = Memory()
    feed = Feed(run_of(layout), sink)
    feed.pump()
    assert [key for _, key, _ in sink.kept if key.round == 3] == [RoundKey(3), RoundKey(3, 1)]
    layout.metrics_file("bob").unlink()
    add(layout, 0, 1, 2, 3, node="bob")
    feed.pump()
    assert sink.rounds("bob") == [0, 1, 2, 3]


def test_lines_that_are_no_rows_and_nodes_without_any_do_no_harm(layout: Layout) -> None:
    for line in (b"junk", b"{}", b'{"round": 1e400}', b"\xff\xfe", b"[" * 5000):
        append(layout.metrics_file("alice"), line)
    append(layout.metrics_file("mallory"), b"junk")
    sink = Memory()
    Feed(run_of(layout), sink).pump()
    assert sink.rounds("alice") == [0, 1, 2]


def test_a_flood_of_nodes_is_bounded_and_counted(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.plugins.sinks.feed.MOST_NODES", 2)  # of alice, bob and clock
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


# ── a row as names and finite numbers ───────────────────────────────────────────────────────────────────────────────
def values_named(**fields: Any) -> dict[str, float]:
    return values_of(make_row(Layout(Path("/nowhere"), "exp"), "anna", 3, **fields))


def test_numbers_and_flags_keep_their_columns_names_and_tables_have_one_for_each_entry() -> None:
    known = {"late": True, "reward_given_tagged": 0.25}
    found = values_named(my_reward=0.5, task_rewards={"bf": 0.5}, external_by_peer_task={"ben": {"bf": 3}}, **known)
    expected = {"my_reward": 0.5, "late": 1.0, "reward_given_tagged": 0.25, "task_rewards/bf": 0.5}
    assert {name: found[name] for name in expected} == expected
    assert not {"round", "stage", "timestamp", "model", "node_id", "trained_on"} & {*found}, "where the row stands"
    assert not any(name.startswith("external_by_peer_task") for name in found), "a table in a table"
    assert "reward_given_tagged" not in values_named(), "what is missing is no zero"
    assert {*values_named(stage=2)} == {f"stage_2/{name}" for name in values_named()}
    flood = values_named(task_rewards={f"t{n}": 0.5 for n in range(5000)})
    assert sum(name.startswith("task_rewards/") for name in flood) == MOST_ENTRIES


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 10**400])
def test_what_is_no_finite_number_is_left_out(number: float) -> None:
    found = values_named(loss=number, task_rewards={"bf": number, "arc": 0.5})
    assert "loss" not in found
    assert [name for name in found if name.startswith("task_rewards/")] == ["task_rewards/arc"]


@given(st.text(), st.floats() | st.integers())
def test_whatever_a_stranger_writes_names_are_harmless_and_numbers_finite(name: str, number: float) -> None:
    found = values_named(loss=number, task_rewards={name: number})
    assert all(re.fullmatch(r"[A-Za-z0-9_./-]+", one) for one in found)
    assert all(math.isfinite(one) for one in found.values())
    assert 0 < len(name_of(name)) <= LONGEST_NAME
