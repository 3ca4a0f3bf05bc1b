"""What `swarm logs` prints, beside what its screens and views/test_events hold."""

from __future__ import annotations

import json
import shutil
import subprocess
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


def test_the_format_for_lnav_reads_what_nodes_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", "--lnav-format"]) == 0
    form = json.loads(capsys.readouterr().out)["swarm_log"]
    fields = {part["field"] for part in form["line-format"] if isinstance(part, dict)} - {"__timestamp__"}
    event = make_event("a.said", 1.0) | {"node_id": "alice"}
    assert {*fields, form["timestamp-field"], form["level-field"], form["body-field"], form["opid-field"]} == {*event}


@pytest.mark.skipif(shutil.which("lnav") is None, reason="Debian's package lnav is not installed")
def test_lnav_accepts_the_format_and_tells_time_level_and_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["logs", "--lnav-format"])
    (tmp_path / "swarm_log.json").write_text(capsys.readouterr().out)
    append_events(Layout(tmp_path, "exp"), "alice", make_event("a.said", 1_700_000_000.5, "warning", round=3))
    log = Layout(tmp_path, "exp").events_file("alice")

    def lnav(*arguments: str) -> str:
        environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "TZ": "UTC"}
        done = subprocess.run(
            ["lnav", *arguments], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout + done.stderr

    lnav("-i", str(tmp_path / "swarm_log.json"))
    assert "error" not in lnav("-C")
    line = lnav("-n", str(log)).splitlines()[0]
    assert line.split() == ["2023-11-14T22:13:20.500", "alice", "warning", "a.said"]
    query = ";SELECT log_level, log_body, node_id, round FROM swarm_log"
    assert lnav("-n", "-c", query, "-c", ":write-csv-to -", str(log)).splitlines()[1] == "warning,a.said,alice,3"
