"""`swarm status --watch --notify` as a real process tells a real command; webhooks: tests/plugins/notify."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.swarms import daemons, environment, eventually
from tests.layout import Layout
from tests.unit.views.factories import make_experiment, make_peer, make_state, write

pytestmark = pytest.mark.engine

KEEP = """
import sys
with open(sys.argv[1], "ab") as file:
    file.write(sys.stdin.buffer.read())
"""


def alive(layout: Layout, node: str, seconds: float) -> None:
    """Says that a node has beaten so many seconds from now."""
    make_peer(layout, node, status="active", round=3, last_seen=time.time() + seconds)


def silences(messages: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    every = [change for one in messages for change in one["changes"] if change["what"] == "silent"]
    return [(change["node"], change["well"]) for change in every]


def test_a_command_is_told_once_of_each_change(tmp_path: Path) -> None:
    """Of a run in which bob goes silent and comes back."""
    place, kept = tmp_path / "place", tmp_path / "what was told"
    (tmp_path / "keep.py").write_text(KEEP)
    told = shlex.join([sys.executable, str(tmp_path / "keep.py"), str(kept)])

    def got() -> list[dict[str, Any]]:
        return [json.loads(line) for line in kept.read_bytes().splitlines()] if kept.exists() else []

    layout = make_experiment(place, name="demo", rounds=3)
    write(layout.state_file, make_state(layout, round=3, max_rounds=9, updated_at=time.time()))
    alive(layout, "alice", 3600)
    alive(layout, "bob", -3600)
    with daemons() as start:
        start("swarm", environment(place, EXPERIMENT_NAME="demo"), "status", "--watch", "--notify", told)
        eventually(lambda: len(silences(got())) == 1, "the message that bob is silent")
        alive(layout, "bob", 3600)
        eventually(lambda: len(silences(got())) == 2, "the message that bob is back")
    assert silences(got()) == [("bob", False), ("bob", True)]
    assert got()[0]["experiment"] == "demo"
