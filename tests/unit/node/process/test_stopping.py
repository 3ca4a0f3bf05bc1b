"""Which signals are asked twice, and which are one that reached a process by two ways."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from swarm.children import child_environment

if sys.platform == "win32":
    pytest.skip("there are no nodes", allow_module_level=True)

NODE = """
import os, sys, threading, anyio
from pathlib import Path
from swarm.logs import configure_logging, flush_files
from swarm.node.process import system
from tests.unit.log_files import log_in

system.SAME_ASK_SECONDS, system.LAST_WORDS_SECONDS = float(sys.argv[1]), 1000.0
waited_for, write = threading.Event(), os.write

def held_up(descriptor, data):
    if b"node.killed" in data:
        waited_for.wait()  # the folder answers once the process has begun to wait for it
    return write(descriptor, data)

os.write = held_up
system.flush_files = lambda seconds: (waited_for.set(), flush_files(seconds))

async def main():
    asked = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(system.on_signals, lambda code: (print("asked", code, flush=True), asked.set()))
        await anyio.sleep(0.05)
        print("ready", flush=True)
        await asked.wait()
        sys.stdin.readline()
        await anyio.sleep(0.2)  # a signal that ends the process has done so
        print("saved", flush=True)
        tasks.cancel_scope.cancel()

with configure_logging([log_in(Path(sys.argv[2]), "n", "events")], level="error"):
    anyio.run(main)
"""
ENDLESS, NEVER = "1000", "0"


@pytest.mark.parametrize(
    ("seconds", "signals", "said", "code"),
    [
        (ENDLESS, (signal.SIGTERM, signal.SIGTERM), ["asked 143", "saved"], 0),
        (NEVER, (signal.SIGTERM, signal.SIGTERM), ["asked 143"], 143),
        (ENDLESS, (signal.SIGTERM, signal.SIGINT), ["asked 143"], 130),
        (ENDLESS, (signal.SIGINT, signal.SIGINT), ["asked 130"], 130),
    ],
)
def test_a_sigterm_that_comes_by_two_ways_is_one_and_who_asks_a_second_time_ends_it_with_its_last_words(
    tmp_path: Path, seconds: str, signals: tuple[signal.Signals, signal.Signals], said: list[str], code: int
) -> None:
    command = [sys.executable, "-c", NODE, seconds, str(tmp_path)]
    environment = child_environment(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[4])}
    with subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as node:
        assert node.stdout
        assert node.stdout.readline() == "ready\n"
        node.send_signal(signals[0])
        asked = node.stdout.readline().strip()
        node.send_signal(signals[1])
        rest, _ = node.communicate("go on\n")
    assert ([asked, *rest.splitlines()], node.returncode) == (said, code)
    assert ('"event":"node.killed"' in (tmp_path / "events").read_text()) is (code > 0)
