"""`swarm answer` at a real terminal: a worker trains on what a person typed."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.integration.swarms import daemons, environment, eventually, rollouts, rows, well
from tests.patience import PATIENCE

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("generator")]

ROUNDS = 3
RUN = {"SWARM_TASKS": "basic_arithmetic", "MAX_ROUNDS": ROUNDS, "SWARM_EXPECTED_WORKERS": 2}
SAID = {"SWARM_AWAITED": "True", "SWARM_LICENCE": "CC-BY-4.0", "SWARM_CONSENT": "train"}


class Seat:
    """A terminal with `swarm answer` in it: what it shows, and a keyboard."""

    def __init__(self, env: dict[str, str], *arguments: str) -> None:
        self._keyboard, there = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "swarm", "answer", *arguments],
            env=env, stdin=there, stdout=there, stderr=there, start_new_session=True, close_fds=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(there)
        self.screen = ""
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        with suppress(OSError):  # the terminal is closed
            while data := os.read(self._keyboard, 4096):
                self.screen += data.decode(errors="replace").replace("\r", "")

    def type(self, text: str) -> None:
        os.write(self._keyboard, text.encode())

    def shows(self, text: str) -> str:
        """What comes before a text, and the text."""
        eventually(lambda: text in self.screen or self.process.poll() is not None, f"{text!r} on the screen")
        assert text in self.screen, self.screen
        return self.screen[: self.screen.index(text) + len(text)]


@contextmanager
def seat(env: dict[str, str], *arguments: str) -> Iterator[Seat]:
    taken = Seat(env, *arguments)
    try:
        yield taken
    finally:
        taken.process.kill()
        taken.process.wait()


def answer_of(question: str) -> int:
    terms = re.findall(r"Calculate ([-+ \d]+)\.", question)[-1]
    return sum(int(term.replace(" ", "")) for term in re.findall(r"[-+]? ?\d+", terms))


def test_a_worker_trains_on_the_answers_that_a_person_typed(tmp_path: Path) -> None:
    env = environment(tmp_path, **RUN)
    person = {k: v for k, v in env.items() if k not in RUN} | SAID
    with daemons() as start, seat(person, str(tmp_path), "--name", "me") as at:
        nodes = [start("swarm", env | role, "node") for role in ({"NODE_ROLE": "coordinator"}, {"NODE_ID": "anna"})]
        for number in range(ROUNDS):
            shown = at.shows(f"round {number}, question 1 of 1")
            eventually(lambda shown=shown: "answer 1 of 2:" in at.screen[len(shown) :], "the question")  # type: ignore[misc]
            at.type(f"{answer_of(at.screen)}\n")
            eventually(lambda shown=shown: "answer 2 of 2:" in at.screen[len(shown) :], "the second one")  # type: ignore[misc]
            at.type("no idea\n")
        assert [node.wait() for node in nodes] == [0, 0], [node.output[-2000:] for node in nodes]
        assert at.process.wait(PATIENCE) == 0, at.screen
    assert [len(file["rollouts"]["0"]) for file in rollouts(tmp_path, "me").values()] == [2] * ROUNDS
    trained = {name for row in rows(tmp_path, "anna") for name in row["trained_on"]}
    assert trained == {f"me/{number}/0/0" for number in range(ROUNDS)}
    assert sum(row.get("external_by_consent", {}).get("train", 0) for row in rows(tmp_path, "anna")) == ROUNDS
    assert "licence CC-BY-4.0 (SWARM_LICENCE), consent train" in at.screen
    well(env, "model", "export", "anna", "-o", str(tmp_path / "out"))
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"| CC-BY-4.0 | {ROUNDS} |" in card
    assert (tmp_path / "out" / "model.safetensors").exists()
    assert "your answers earned 1.00 0.00" in at.screen
    assert "anna trained on your answers" in at.screen
    well(env, "validate")
    status = json.loads(well(env, "status", "--json").stdout)
    assert next(node for node in status["nodes"] if node["node"] == "me")["rounds"] == ROUNDS


def test_a_round_goes_on_without_the_person_and_ctrl_c_leaves(tmp_path: Path) -> None:
    env = environment(tmp_path, **RUN | {"SWARM_EXPECTED_WORKERS": 1, "MAX_ROUNDS": 100})
    with daemons() as start, seat({k: v for k, v in env.items() if k not in RUN}, str(tmp_path), "--name", "me") as at:
        start("swarm", env | {"NODE_ROLE": "coordinator"}, "node")
        start("swarm", env | {"NODE_ID": "anna"}, "node")
        at.shows("answer 1 of 2:")
        at.type("half an answer")
        at.shows("is over: it went on without you")
        at.type("\x03")
        assert at.process.wait(PATIENCE) == 130, at.screen
    assert rollouts(tmp_path, "me") == {}
