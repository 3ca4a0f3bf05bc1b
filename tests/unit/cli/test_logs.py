"""What `swarm logs` prints, beside what its screens and views/test_events hold."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import pytest

from tests.layout import Layout
from tests.unit.cli.conftest import Typed
from tests.unit.views.factories import append, append_events, make_event


@pytest.fixture
def look(typed: Typed, tmp_path: Path) -> Typed:
    return partial(typed, "logs", "--path", tmp_path, "--experiment", "exp")


def make_logs(path: Path) -> float:
    """Events of two hours, two hours and ten minutes ago, and of now; three of each."""
    now = time.time()
    for ago, name in ((7800.0, "old"), (7200.0, "middle"), (0.0, "new")):
        append_events(Layout(path, "exp"), "alice", *(make_event(f"{name}.said", now - ago + n) for n in range(3)))
    return now


def test_since_shows_nothing_earlier(tmp_path: Path, look: Typed) -> None:
    make_logs(tmp_path)
    for since, expected in (("1h", ["new.said"]), ("125m", ["middle.said", "new.said"]), ("2020-01-01", None)):
        said = look("--since", since, "-o", "json").out
        names = dict.fromkeys(json.loads(line)["event"] for line in said.splitlines())
        assert list(names) == (expected or ["old.said", "middle.said", "new.said"])


def test_more_since_then_than_are_shown_is_said(tmp_path: Path, look: Typed) -> None:
    events = [make_event("a.said", time.time(), number=number) for number in range(1001)]
    append_events(Layout(tmp_path, "exp"), "alice", *events)
    captured = look("--since", "1h")
    assert len(captured.out.splitlines()) == 1000
    assert "the last 1000 since then" in captured.err


def test_a_line_without_a_time_belongs_to_the_one_before_it(tmp_path: Path, look: Typed) -> None:
    make_logs(tmp_path)
    append(Layout(tmp_path, "exp").events_file("alice"), b"no JSON")
    assert look("--since", "1h", "-o", "json").out.splitlines()[-1] == "no JSON"


def test_json_has_every_line(tmp_path: Path, look: Typed) -> None:
    make_logs(tmp_path)
    assert len(look("--json").out.splitlines()) == len(look("-o", "json").out.splitlines()) == 9
