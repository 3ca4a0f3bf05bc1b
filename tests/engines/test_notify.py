"""`swarm status --watch --notify` as a real process tells a real command, and a real server on loopback."""

from __future__ import annotations

import json
import shlex
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
Got = Callable[[], list[dict[str, Any]]]


def watched(tmp_path: Path, told: str, got: Got) -> None:
    """Watches a run in which bob goes silent and comes back: who is told hears of it twice."""
    layout = make_experiment(tmp_path, name="demo", rounds=3)
    write(layout.state_file, make_state(layout, round=3, max_rounds=9, updated_at=time.time()))
    alive(layout, "alice", 3600)
    alive(layout, "bob", -3600)
    env = environment(tmp_path, EXPERIMENT_NAME="demo")
    with daemons() as start:
        start("swarm", env, "status", "--watch", "--notify", told)
        eventually(lambda: len(silences(got())) == 1, "the message that bob is silent")
        alive(layout, "bob", 3600)
        eventually(lambda: len(silences(got())) == 2, "the message that bob is back")
    assert silences(got()) == [("bob", False), ("bob", True)]
    assert got()[0]["experiment"] == "demo"


def alive(layout: Layout, node: str, seconds: float) -> None:
    """Says that a node has beaten so many seconds from now."""
    make_peer(layout, node, status="active", round=3, last_seen=time.time() + seconds)


def silences(messages: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    every = [change for one in messages for change in one["changes"] if change["what"] == "silent"]
    return [(change["node"], change["well"]) for change in every]


def test_a_command_is_told_once_of_each_change(tmp_path: Path) -> None:
    (tmp_path / "keep.py").write_text(KEEP)
    kept = tmp_path / "what was told"
    told = shlex.join([sys.executable, str(tmp_path / "keep.py"), str(kept)])
    watched(
        tmp_path / "place",
        told,
        lambda: [json.loads(line) for line in kept.read_bytes().splitlines()] if kept.exists() else [],
    )


def test_a_webhook_is_told_once_of_each_change(tmp_path: Path) -> None:
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            watched(tmp_path / "place", f"http://127.0.0.1:{server.server_port}/hook", lambda: got)
        finally:
            server.shutdown()
            thread.join()
