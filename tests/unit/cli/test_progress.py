"""The line per round of `swarm up`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.cli.progress import UpProgress, stopping_line
from swarm.records.stream import EventStream
from tests.layout import Layout
from tests.unit.cli.swarms import swarm_of
from tests.unit.views.factories import add_row, append, run_of


def play(layout: Layout, rows: list[tuple[str, int]], capsys: pytest.CaptureFixture[str], **settings: Any) -> list[str]:
    """What is said of each round, if these rows come in one after the other."""
    progress = UpProgress(run_of(layout), swarm_of(**settings))
    for node, number in rows:
        add_row(layout, node, number)
        progress.show_new(wait_for_all=True)
    return [" ".join(line.split()[1:4] + line.split()[-2:]) for line in capsys.readouterr().out.splitlines()]


AHEAD = [("alice", 0), ("alice", 1), ("alice", 2), ("bob", 0), ("bob", 1)]
FAR_AHEAD = [("alice", number) for number in range(4)]
OWN = {"clock": "own", "staleness_window": 2}


@pytest.mark.parametrize(
    ("rows", "settings", "shown"),
    [
        (AHEAD, {}, ["0 1/9 done 1 nodes", "1 2/9 done 1 nodes"]),
        (AHEAD, OWN, ["0 1/9 done 2 nodes", "1 2/9 done 2 nodes"]),
        (FAR_AHEAD, OWN, ["0 1/9 done 1 nodes"]),
    ],
    ids=["a later one has begun", "own clocks within the window", "own clocks beyond the window"],
)
def test_a_round_is_shown_when_all_have_it_or_nobody_else_is_waited_for(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    rows: list[tuple[str, int]],
    settings: dict[str, Any],
    shown: list[str],
) -> None:
    assert play(Layout(tmp_path, "exp"), rows, capsys, **settings) == shown


def test_what_a_stranger_logs_neither_ends_a_round_nor_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its row of the last round comes before the workers' own of the first; one lies in the coordinator's log."""
    layout = Layout(tmp_path, "exp")
    progress = UpProgress(run_of(layout), swarm_of())
    said = {"timestamp": 1.0, "level": "warning", "event": "node.odd"}
    for node in ("mallory", "coordinator"):
        add_row(layout, node, 8, my_reward=1.0)
        append(layout.events_file(node), msgspec.json.encode(said))
    for node in ("alice", "mallory", "bob"):
        add_row(layout, node, 0, my_reward=0.5)
        progress.show_new(wait_for_all=True)
    warning, line = capsys.readouterr().out.splitlines()
    assert "coordinator" in warning
    assert "reward 0.500 (0.500 to 0.500)" in line
    assert line.endswith("2 nodes")


def test_who_loads_what_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = Layout(tmp_path, "exp")
    said = {"timestamp": 1.0, "level": "info", "event": "model.loaded", "model": "m", "device": "cpu", "seconds": 2.5}
    append(layout.events_file("before"), msgspec.json.encode(said))
    progress = UpProgress(run_of(layout), swarm_of())
    append(layout.events_file("alice"), msgspec.json.encode(said))
    progress.show_new()
    progress.show_new()
    (line,) = capsys.readouterr().out.splitlines()
    assert "alice" in line
    assert "model=m device=cpu seconds=2.5" in line


def test_a_round_shows_how_much_was_tagged_and_what_that_was_worth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An eighth of alice's completions and half of bob's, which earned 0.4 and 0.8 each."""
    layout = Layout(tmp_path, "exp")
    progress = UpProgress(run_of(layout), swarm_of())
    for node, tagged, worth in (("alice", 0.125, 0.4), ("bob", 0.5, 0.8)):
        add_row(layout, node, 0, my_reward=tagged * worth, answer_tag_rate=tagged)
    add_row(layout, "bob", 1, my_reward=0.0)
    progress.show_new()
    first, second = capsys.readouterr().out.splitlines()
    assert "reward 0.225 (0.050 to 0.400)  tagged  31% x 0.720  external" in first
    assert "tagged   0% x -      external" in second


def test_ctrl_c_says_how_long_a_step_took_lately(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    progress = UpProgress(run_of(layout), swarm_of())
    assert "no round has shown yet how long a step takes" in stopping_line(progress.pace)
    for node, seconds in (("alice", 2.0), ("bob", 40.0)):
        add_row(layout, node, 0, seconds_generate=seconds, seconds_score=1.0, seconds_train=3.0)
    progress.show_new()
    assert "lately a step took 41s at most" in stopping_line(progress.pace)
    assert "Ctrl-C once more ends them at once" in stopping_line(progress.pace)


def test_where_requests_are_paid_for_what_nodes_logged_is_read_no_more_than_every_minute(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, looks = Layout(tmp_path, "exp"), []
    read = EventStream.read
    monkeypatch.setattr(EventStream, "read", lambda stream: looks.append(stream) or read(stream))
    progress = UpProgress(run_of(layout), swarm_of(path="s3://mine"))
    for number in range(3):
        for node in ("alice", "bob"):
            add_row(layout, node, number)
        progress.show_new(wait_for_all=True)
    assert len(looks) == 1, "for the first minute"
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["0", "1", "2"]


def foreseen(layout: Layout, *rounds: int, **changes: Any) -> UpProgress:
    progress = UpProgress(run_of(layout), swarm_of(model=("gpt2",)))
    for number in rounds:
        for node in ("alice", "bob"):
            add_row(layout, node, number, local_groups=4, finished_rate=1.0, **changes)
        progress.show_new(wait_for_all=True)
    return progress


def test_after_the_first_round_it_is_said_once_how_long_the_others_take_and_what_was_earned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreseen(Layout(tmp_path, "exp"), 0, 1, my_reward=0.5, answer_tag_rate=0.75, zero_advantage_local=0.25)
    first, foresight, second = capsys.readouterr().out.splitlines()
    assert (first.split()[:3], second.split()[:3]) == (["round", "0", "1/9"], ["round", "1", "2/9"])
    assert foresight == (
        "at this pace the other 8 rounds take about 16s; reward per completion 0.500 (0.215 to 0.785), 75% tagged, "
        "100% finished, 6 of 8 groups with a signal"
    )


def test_before_the_first_round_is_over_it_is_said_once_how_long_the_slowest_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = Layout(tmp_path, "exp")
    progress = UpProgress(run_of(layout), swarm_of(model=("gpt2",)))
    for node, answering in (("alice", 2.0), ("bob", 70.0)):
        forecast = {"answering": answering, "learning": 1.0, "interval": 60.0, "answers": 32, "earned": 1}
        said = {"timestamp": 1.0, "level": "warning", "event": "round.forecast", **forecast}
        append(layout.events_file(node), msgspec.json.encode(said))
        progress.show_new(wait_for_all=True)
        progress.show_new(wait_for_all=True)
    takes, earned = capsys.readouterr().out.splitlines()
    assert takes.startswith("a round takes about 71 s on this machine")
    assert "--round-interval 142" in takes
    assert earned == "2 of 64 answers earned a reward"


def test_where_the_first_round_teaches_nothing_the_probe_is_named_and_the_last_round_has_none_to_foresee(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreseen(Layout(tmp_path, "exp"), 0, my_reward=0.0, answer_tag_rate=0.5, zero_advantage_local=1.0)
    assert "`swarm probe --model gpt2` measures" in capsys.readouterr().out.splitlines()[-1]
    foreseen(Layout(tmp_path, "another"), 8)
    assert len(capsys.readouterr().out.splitlines()) == 1
