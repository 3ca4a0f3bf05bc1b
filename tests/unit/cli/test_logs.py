"""What `swarm logs` prints, beside what its screens and views/test_events hold."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from swarm.cli.main import run
from tests.layout import Layout
from tests.unit.views.factories import append, append_events, make_event


def look(path: Path, *arguments: str) -> int:
    return run(["logs", *arguments, "--path", str(path), "--experiment", "exp"])


def make_logs(path: Path) -> float:
    """Events of two hours, two hours and ten minutes ago, and of now; repeated three times each."""
    now = time.time()
    for ago, name in ((7800.0, "old"), (7200.0, "middle"), (0.0, "new")):
        append_events(Layout(path, "exp"), "alice", *(make_event(f"{name}.said", now - ago + n) for n in range(3)))
    return now


def test_since_shows_nothing_earlier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_logs(tmp_path)
    for since, expected in (("1h", ["new.said"]), ("125m", ["middle.said", "new.said"]), ("2020-01-01", None)):
        assert look(tmp_path, "--since", since, "-o", "json") == 0
        names = dict.fromkeys(json.loads(line)["event"] for line in capsys.readouterr().out.splitlines())
        assert list(names) == (expected or ["old.said", "middle.said", "new.said"])


def test_more_since_then_than_are_shown_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [make_event("a.said", time.time(), number=number) for number in range(1001)]
    append_events(Layout(tmp_path, "exp"), "alice", *events)
    assert look(tmp_path, "--since", "1h") == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1000
    assert "the last 1000 since then" in captured.err


def test_a_line_without_a_time_belongs_to_the_one_before_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_logs(tmp_path)
    append(Layout(tmp_path, "exp").events_file("alice"), b"no JSON")
    assert look(tmp_path, "--since", "1h", "-o", "json") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no JSON"


def test_text_has_repeats_as_one_line_and_json_has_every_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_logs(tmp_path)
    assert look(tmp_path) == 0
    lines = [line.split(maxsplit=3)[3] for line in capsys.readouterr().out.splitlines()]
    assert [line.partition(",")[0] for line in lines] == [
        *("old.said", "old.said x 2 more", "middle.said", "middle.said x 2 more", "new.said", "new.said x 2 more")
    ]
    assert look(tmp_path, "-o", "json") == look(tmp_path, "--json") == 0
    assert len(capsys.readouterr().out.splitlines()) == 18
