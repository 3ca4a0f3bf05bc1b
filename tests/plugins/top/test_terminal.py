"""`swarm top` in a real terminal (tmux) beside a live swarm: what it shows, its keys, another size, no colours."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.swarms import LIGHT, daemons, environment, eventually
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="Debian's package tmux is not installed"),
]
ENDLESS = {"MAX_ROUNDS": 100_000, "SWARM_EXPECTED_WORKERS": 2}


class Terminal:
    """A program in a terminal of a tmux server of its own."""

    def __init__(self, socket: Path, env: dict[str, str], *command: str) -> None:
        there = {name: value for name, value in env.items() if name not in ("COLUMNS", "LINES")}  # of another terminal
        self._socket, self._env = socket, there | {"TERM": "xterm-256color"}
        size = ("-x", "130", "-y", "30")
        self.tmux("-f", os.devnull, "new-session", "-d", *size, f"{shlex.join(command)}; echo it ended with $?; cat")

    def tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *arguments],
            env=self._env, capture_output=True, text=True, timeout=PATIENCE, check=True,
        )  # fmt: skip
        return done.stdout

    def screen(self, *flags: str) -> str:
        return self.tmux("capture-pane", "-p", *flags)

    def press(self, key: str, until: str) -> str:
        """Press a key; the screen once it shows a text."""
        self.tmux("send-keys", key)
        return self.shows(until)

    def shows(self, text: str) -> str:
        seen = ""

        def shown() -> bool:
            nonlocal seen
            seen = self.screen()
            return text in seen

        try:
            eventually(shown, f"{text!r} on the screen")
        except AssertionError as error:
            raise AssertionError(f"{error}; it shows:\n{seen}") from None
        return seen


@contextmanager
def terminal(socket: Path, env: dict[str, str], *command: str) -> Iterator[Terminal]:
    opened = Terminal(socket, env, *command)
    try:
        yield opened
    finally:
        opened.tmux("kill-server")


def test_top_follows_a_live_swarm_in_a_terminal_with_its_keys(tmp_path: Path) -> None:
    env = environment(tmp_path / "place", **ENDLESS)
    looking = {key: value for key, value in env.items() if key not in ENDLESS}
    with daemons() as start, terminal(tmp_path / "socket", looking, sys.executable, "-m", "swarm", "top") as at:
        start("swarm", env | {"NODE_ROLE": "coordinator", "NODE_ID": "clock"}, "node")
        for node in ("anna", "bert"):
            start(LIGHT, env | {"NODE_ID": node})
        at.shows("3 of 3 nodes alive")
        at.shows("/100000 done")
        for name in ("anna", "bert", "clock", "learns from", "q quit"):
            at.shows(name)
        assert at.press("Enter", "anna: worker").count("my_reward") <= 1
        at.press("Escape", "3 of 3 nodes alive")
        for key, words in (("r", "── anna/"), ("l", "round.completed"), ("?", "choose a node")):
            at.press(key, words)
            at.press("Escape", "3 of 3 nodes alive")
        at.tmux("resize-window", "-x", "70", "-y", "20")
        eventually(lambda: len(at.screen().rstrip("\n").split("\n")) <= 20, "the smaller size")
        small = at.shows("3 of 3 nodes alive")
        assert max(map(len, small.split("\n"))) <= 70
        at.press("q", "it ended with 0")
