"""Which signals are asked twice, and which are one that reached a process by two ways."""

import os
import signal
import subprocess
import sys

import pytest

from swarm.children import child_environment, code_command

NODE = """
import sys, anyio
from swarm.node.process import stopping
stopping.SAME_ASK_SECONDS = float(sys.argv[1])

async def main():
    asked = anyio.Event()
    async def listen():
        await stopping.on_signals(lambda code: (print("asked", code, flush=True), asked.set()))
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
    ("seconds", "signals"),
    [
        (NEVER, (signal.SIGTERM, signal.SIGTERM)),
        (ENDLESS, (signal.SIGINT, signal.SIGINT)),
        (ENDLESS, (signal.SIGTERM, signal.SIGINT)),
    ],
)
def test_who_asks_a_second_time_ends_it_at_once(seconds: str, signals: tuple[signal.Signals, ...]) -> None:
    said, code = ends(seconds, *signals)
    assert "saved" not in said
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143}[signals[1]]
