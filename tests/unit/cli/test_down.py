"""`swarm down` ends the swarm that is named, and nobody else."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from swarm.cli import processes as down_module
from tests.patience import PATIENCE
from tests.unit.cli.conftest import Typed

PROGRAM = """
import os, signal, subprocess, sys, time
from swarm.cli.processes import this_process_runs
from swarm.config import Settings
path, experiment, role, does = sys.argv[1:5]
heard = []
def hear(number, frame):
    heard.append(number)
    print("heard", len(heard), flush=True)
    if does == "ends":
        os._exit(143)
signal.signal(signal.SIGTERM, hear)
this_process_runs(Settings(path=path, experiment=experiment), role, [role])
child = None
if role == "up":
    command = [sys.executable, "-c", sys.argv[5], path, experiment, "worker", "stays"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\\n"
print("ready", flush=True)
if child:
    print("node", child.pid, flush=True)
    while not heard:
        time.sleep(0.01)
    child.send_signal(signal.SIGTERM)
    print("node", child.stdout.readline(), end="", flush=True)
    child.kill()
    print("node", child.communicate()[0], end="", flush=True)
    sys.exit(143)
while True:
    signal.pause()
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a process that is registered: `start(experiment, role, does)`."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # other tests' swarms stand in the usual one
    with ExitStack() as started:

        def start(experiment: str, role: str = "worker", does: str = "ends") -> subprocess.Popen[str]:
            command = [sys.executable, "-c", PROGRAM, str(tmp_path), experiment, role, does, PROGRAM]
            process = started.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            started.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            return process

        yield start


@pytest.fixture
def down(typed: Typed, tmp_path: Path) -> Typed:
    return partial(typed, "down", "--path", tmp_path, "--experiment", "mine")


def test_of_two_swarms_the_named_one_is_ended(tmp_path: Path, start: Start, down: Typed) -> None:
    mine, other = [start("mine"), start("mine")], start("other")
    ids = sorted(str(process.pid) for process in mine)
    assert down().out.splitlines() == [f"ending worker (process {pid})" for pid in ids]
    assert [process.wait(PATIENCE) for process in mine] == [143, 143]
    assert other.poll() is None
    assert down().out == (
        f"no process of mine in {tmp_path} runs here as this user; others of yours go on: "
        f"--path {tmp_path} --experiment other\n"
    )


def test_who_does_not_end_in_time_is_killed(start: Start, down: Typed) -> None:
    process = start("mine", "worker", "stays")
    said = down("--timeout", "0.2").out
    assert process.wait(PATIENCE) == -signal.SIGKILL
    assert process.stdout is not None
    assert process.stdout.read() == "heard 1\n"
    assert f"killing worker (process {process.pid}): it did not end within 0.2 s" in said


def test_a_stopped_process_is_asked_as_well(start: Start, down: Typed) -> None:
    process = start("mine")
    process.send_signal(signal.SIGSTOP)
    down()
    assert process.wait(PATIENCE) == 143


def test_nodes_hear_one_signal_where_their_swarm_up_passes_it_on(start: Start, down: Typed) -> None:
    up = start("mine", "up", "passes it on")
    down()
    assert up.wait(PATIENCE) == 143
    assert up.stdout is not None
    said = up.stdout.read()
    assert said.count("node heard 1") == 1, said
    assert "heard 2" not in said


def test_nodes_whose_swarm_up_was_killed_are_ended(start: Start, down: Typed) -> None:
    up = start("mine", "up")
    assert up.stdout is not None
    node = int(up.stdout.readline().split()[1])
    up.kill()
    up.wait(PATIENCE)
    assert Path(f"/proc/{node}").exists()
    down("--timeout", "0.2")
    assert _is_gone(node)


def _is_gone(pid: int) -> bool:
    """It is, or waits to be taken note of by a parent that is not ours."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_one_that_cannot_be_ended_is_told_and_fails(start: Start, monkeypatch: pytest.MonkeyPatch, down: Typed) -> None:
    monkeypatch.setattr(down_module, "KILLED_WITHIN", 0.1)
    monkeypatch.setattr(down_module.Running, "signal", lambda *_: None)
    process = start("mine")
    assert f"worker (process {process.pid}) is still there" in down("--timeout", "0", code=1).out
