"""Which signals are asked twice, and which are one that reached a process by two ways."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from swarm.children import child_environment, code_command

NODE = """
import sys, anyio
from swarm.node.process import system
system.SAME_ASK_SECONDS = float(sys.argv[1])

async def main():
    asked = anyio.Event()
    async def listen():
        await system.on_signals(lambda code: (print("asked", code, flush=True), asked.set()))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await anyio.sleep(0.05)
        print("ready", flush=True)
        await asked.wait()
        sys.stdin.readline()
        await anyio.sleep(0.2)  # a signal that ends the process has done so
        print("saved", flush=True)
        tasks.cancel_scope.cancel()

anyio.run(main)
"""
ENDLESS, NEVER = "1000", "0"


def ends(seconds: str, *signals: signal.Signals) -> tuple[list[str], int]:
    """What a node says that gets these signals before it has saved, and its exit code."""
    command = code_command(NODE, seconds)
    environment = child_environment(os.environ)
    with subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as node:
        assert node.stdout
        assert node.stdin
        said = [node.stdout.readline().strip()]
        for number in signals:
            node.send_signal(number)
            if len(said) == 1:
                said.append(node.stdout.readline().strip())
        rest, _ = node.communicate("go on\n")
    return [*said[1:], *(line for line in rest.split("\n") if line)], node.returncode


@pytest.mark.skipif(sys.platform == "win32", reason="there are no nodes")
def test_a_sigterm_that_comes_by_two_ways_is_one_and_the_node_saves() -> None:
    said, code = ends(ENDLESS, signal.SIGTERM, signal.SIGTERM)
    assert said == ["asked 143", "saved"]
    assert code == 0


@pytest.mark.parametrize(
    ("seconds", "signals"), [(NEVER, (signal.SIGTERM, signal.SIGTERM)), (ENDLESS, (signal.SIGTERM, signal.SIGINT))]
)
def test_who_asks_a_second_time_ends_it_at_once(seconds: str, signals: tuple[signal.Signals, ...]) -> None:
    said, code = ends(seconds, *signals)
    assert "saved" not in said
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143}[signals[1]]


LAST_WORDS = """
import os, signal, sys, threading, anyio
from pathlib import Path
from swarm.logs import configure_logging, get_logger
from swarm.node.process import system
from tests.unit.log_files import log_in

system.LAST_WORDS_SECONDS = 1000.0
reached, real = threading.Event(), os.write

def write(descriptor, data):
    if b"node.killed" in data:
        reached.wait()  # the folder answers once the process has begun to wait for it
    return real(descriptor, data)

def flush(seconds):
    reached.set()
    known(seconds)

os.write, known, system.flush_files = write, system.flush_files, flush
with configure_logging([log_in(Path(sys.argv[1]), "n", "events")], level="error"):
    async def main():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(system.on_signals, lambda _: os.kill(os.getpid(), signal.SIGINT))
            await anyio.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
    anyio.run(main)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no nodes")
def test_last_words_of_a_process_that_is_ended_at_once_are_in_its_log(tmp_path: Path) -> None:
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", LAST_WORDS, str(tmp_path)], cwd=root, env=child_environment(os.environ), check=False
    )
    assert done.returncode == 130
    assert '"event":"node.killed"' in (tmp_path / "events").read_text()
