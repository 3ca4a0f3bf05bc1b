"""The logs of all nodes as one stream."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from swarm.records import growing, stream
from swarm.records.reader import RunReader
from swarm.records.stream import Event, EventStream, WantedEvents
from swarm.views.events import render
from tests.layout import Layout
from tests.unit.views.factories import append, append_events, make_event, make_experiment, run_of


def make_logs(path: Path) -> Layout:
    layout = Layout(path, "exp")
    append_events(layout, "alice", make_event("a.one", 1.0), make_event("a.two", 3.0, "warning"))
    append_events(layout, "bob", make_event("b.one", 2.0, "debug"), make_event("b.two", 4.0, "error"))
    return layout


def names(layout: Layout, wanted: WantedEvents = WantedEvents(), last: int = 50) -> list[str]:  # noqa: B008 - frozen
    return [event.event for event in EventStream(run_of(layout), wanted).read_last(last)]


def test_the_last_n_are_counted_after_the_filter(tmp_path: Path) -> None:
    layout = make_logs(tmp_path)
    assert names(layout, last=2) == ["a.two", "b.two"]
    assert names(layout, WantedEvents(event="*.one"), last=1) == ["b.one"]
    assert names(layout, last=0) == []


def test_the_last_of_a_long_log_are_its_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`logs -n 5` showed events of the first 64 MiB, of a daemon that had run for days."""
    layout = Layout(tmp_path, "exp")
    append_events(layout, "alice", *(make_event(f"number.{number}", float(number)) for number in range(400)))
    monkeypatch.setattr(growing, "MOST_PER_READ", 1024)
    assert layout.events_file("alice").stat().st_size > 2 * growing.MOST_READS * 1024
    assert names(layout, last=2) == ["number.398", "number.399"]


def test_metrics_rows_are_shown_if_asked_for(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, workers=("alice",), rounds=2)
    assert "metrics" not in names(layout)
    stream = EventStream(run_of(layout), WantedEvents(metrics=True, event="metrics"))
    assert [line.split(" ", 1)[1] for line in render(stream.read_last(1))] == [
        "alice        info     metrics round=1 my_reward=0.11 answer_tag_rate=0 cumulative_reward=0.21 "
        "external_groups=0 total_agents=2 seconds_round=2"
    ]


def test_following_finds_new_events_and_new_nodes(tmp_path: Path) -> None:
    layout = make_logs(tmp_path)
    stream = EventStream(run_of(layout), WantedEvents())
    stream.read_last(0)
    assert stream.read() == []
    append_events(layout, "carol", make_event("c.one", 6.0))
    append_events(layout, "alice", make_event("a.three", 5.0))
    assert [(event.node, event.event) for event in stream.read()] == [("alice", "a.three"), ("carol", "c.one")]


def test_a_line_that_is_no_event_is_shown_where_it_stands(tmp_path: Path) -> None:
    layout = make_logs(tmp_path)
    append(layout.events_file("alice"), b'{"torn')
    append(layout.events_file("alice"), b"")
    append_events(layout, "alice", make_event("a.three", 3.5))
    events = EventStream(run_of(layout), WantedEvents()).read_last(9)
    assert [event.event for event in events][2:] == ["a.two", "log.unreadable_line", "a.three", "b.two"]
    assert any("line='{\"torn'" in line or 'line={"torn' in line for line in render(events))


def test_a_file_that_is_no_log_is_read_no_further_and_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve strangers' 700,000 lines of `{}` each cost `export` 70 s and 1.2 GB, `validate` 30 s."""
    monkeypatch.setattr(growing, "MOST_JUNK", 20)
    layout = make_logs(tmp_path)
    append(layout.events_file("mallory"), b"\n".join([b"{}"] * 30 + [b"[" * 30]))
    append_events(layout, "mallory", make_event("m.one", 9.0))
    reader = EventStream(run_of(layout))
    events = [event.event for event in reader.read() if event.node == "mallory"]
    assert events == [""] * 20 + ["log.unread"]
    append_events(layout, "mallory", make_event("m.two", 10.0))
    append_events(layout, "alice", make_event("a.three", 11.0))
    assert [event.event for event in reader.read()] == ["a.three"]
    of_mallory = RunReader(run_of(layout)).events_of("mallory")
    assert of_mallory.lines == 33
    assert of_mallory.junk > 30


def test_a_traceback_is_indented_below_its_event(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    append_events(
        layout, "alice", make_event("x.failed", 1.0, "error", exception="Traceback:\n  File\nValueError: boo")
    )
    first, *rest = render(EventStream(run_of(layout), WantedEvents()).read_last(1))
    assert first.endswith("x.failed")
    assert rest == ["    Traceback:", "      File", "    ValueError: boo"]


def test_lines_without_a_time_stand_behind_the_one_before_them_in_whichever_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = make_logs(tmp_path)
    for line in (b"{}", b'{"event":"a.late"}'):
        append(layout.events_file("alice"), line)
    whole = names(layout)
    assert whole == ["a.one", "b.one", "a.two", "", "a.late", "b.two"]
    assert names(layout, WantedEvents(event="a.*"), last=1) == ["a.late"]
    monkeypatch.setattr(stream._Source.parts, "__defaults__", (99, 40))
    assert names(layout) == whole


def test_what_is_held_of_long_lines_and_many_nodes_is_bounded(tmp_path: Path) -> None:
    """Twenty events of a megabyte by each of four nodes."""
    layout = make_logs(tmp_path)
    for node in range(4):
        append_events(layout, f"m{node}", *[make_event("m.long", 9.0, text="x" * 900_000)] * 20)
    tracemalloc.start()
    events = EventStream(run_of(layout), WantedEvents()).read_last(50)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2**20
    assert peak < 32 * 2**20
    assert {event.event for event in events} == {"m.long"}
    line = next(render(events[-1:]))
    assert "left_out='9000" in line
    assert "x" * 100 not in line


def test_a_flood_is_looked_into_from_its_end_and_what_is_not_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MOST_PARSED", 30)
    monkeypatch.setattr(stream, "LEAST_PARSED", 10)
    layout = make_logs(tmp_path)
    append_events(layout, "mallory", *[make_event("error", 5.0)] * 100, make_event("m.last", 6.0, "error"))
    found = EventStream(run_of(layout), WantedEvents(level="error"))
    assert [event.event for event in found.read_last(9)] == ["b.two", "m.last"]
    assert found.unseen == {"mallory": 91}


@pytest.mark.parametrize("end", [400, stream.END])
def test_the_last_wanted_events_are_found_behind_any_number_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: int
) -> None:
    monkeypatch.setattr(stream, "END", end)
    layout = make_logs(tmp_path)
    for number in range(40):
        append_events(layout, "alice", make_event(f"number.{number}", 5.0 + number, "error" if number == 7 else "info"))
        append(layout.events_file("alice"), b"no event" if number == 3 else b'{"event": "without a time"}')
    assert names(layout, WantedEvents(level="error"), last=2) == ["b.two", "number.7"]
    assert names(layout, WantedEvents(level="warning"), last=3) == ["b.two", "log.unreadable_line", "number.7"]
    assert names(layout, last=3) == ["without a time", "number.39", "without a time"]


def test_who_follows_gets_a_flood_in_parts_and_the_others_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "AT_ONCE", 600)
    monkeypatch.setattr(stream, "LEAST_AT_ONCE", 200)
    layout = make_logs(tmp_path)
    found = EventStream(run_of(layout), WantedEvents())
    found.read_last(0)
    append_events(layout, "mallory", *[make_event("m.one", 5.0)] * 100)
    append_events(layout, "zoe", make_event("z.one", 5.0))
    first = [event.node for event in found.read_on()]
    assert first.count("zoe") == 1
    assert 0 < first.count("mallory") < 10
    rest = iter(lambda: found.read_on(), [])
    assert len(first) + sum(map(len, rest)) == 101


def test_a_time_beyond_any_calendar_is_a_line_all_the_same() -> None:
    event = Event(1e300, "alice", "warning", "x", b"{}")
    assert next(render([event], wide=True)).startswith("????-")
