"""What a service manager hears of a node, by a real socket."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from swarm.node.process.service import ServiceManager
from swarm.node.process.stopping import run_until_signal
from tests.patience import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no systemd elsewhere")
QUICK = "20000"
"""Microseconds."""


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        monkeypatch.delenv("WATCHDOG_USEC", raising=False)
        yield listener


def heard(listener: socket.socket) -> str:
    return listener.recv(4096).decode()


def all_heard(listener: socket.socket) -> list[str]:
    """What is there to be heard."""
    found = []
    listener.setblocking(False)
    while True:
        try:
            found.append(heard(listener))
        except BlockingIOError:
            listener.settimeout(PATIENCE)
            return found


class Node:
    """Lives until it is stopped."""

    def __init__(self) -> None:
        self.stopped = anyio.Event()

    async def run(self) -> int:
        await self.stopped.wait()
        return 0

    def stop(self, exit_code: int) -> None:
        self.stopped.set()


def test_a_node_says_that_it_runs_and_that_it_ends(manager: socket.socket) -> None:
    said = []

    class Stopped(Node):
        async def run(self) -> int:
            said.append(await anyio.to_thread.run_sync(heard, manager))
            signal.raise_signal(signal.SIGTERM)
            return await super().run()

    assert anyio.run(run_until_signal, Stopped()) == 0
    assert [*said, *all_heard(manager)] == ["READY=1", "STOPPING=1"]


def test_the_watchdog_hears_the_event_loop_and_nothing_of_one_that_hangs(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", QUICK)
    go_on, while_hung = threading.Event(), []

    class Hangs(Node):
        async def run(self) -> int:
            said = [await anyio.to_thread.run_sync(heard, manager) for _ in range(4)]
            assert said == ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]
            listener = threading.Thread(target=listen_to_silence)
            listener.start()
            go_on.wait()  # in the event loop
            assert await anyio.to_thread.run_sync(heard, manager) == "WATCHDOG=1"
            listener.join()
            return 0

    def listen_to_silence() -> None:
        all_heard(manager)  # said before it hung
        manager.settimeout(10 * int(QUICK) / 1e6)
        try:
            while_hung.append(heard(manager))
        except TimeoutError:
            while_hung.append("silence")
        manager.settimeout(PATIENCE)
        go_on.set()

    assert anyio.run(run_until_signal, Hangs()) == 0
    assert while_hung == ["silence"]


def test_a_watch_over_another_process_is_not_ours(manager: socket.socket) -> None:
    address = os.environ["NOTIFY_SOCKET"]

    async def a_moment(pid: int) -> None:
        environ = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": QUICK, "WATCHDOG_PID": "7"}
        with anyio.move_on_after(0.05):
            await ServiceManager(environ, pid).keep_told()

    anyio.run(a_moment, 8)
    assert all_heard(manager) == ["READY=1"]
    anyio.run(a_moment, 7)
    assert all_heard(manager)[:2] == ["READY=1", "WATCHDOG=1"]


def test_a_socket_with_an_abstract_name_is_one_too() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0swarm-test-{os.getpid()}")
        ServiceManager({"NOTIFY_SOCKET": f"@swarm-test-{os.getpid()}"}, 1).tell("READY=1")
        assert all_heard(listener) == ["READY=1"]


@pytest.mark.parametrize("address", ["", "/nowhere/notify", "vsock:2:1"])
def test_where_nobody_listens_a_node_lives_all_the_same(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    monkeypatch.setenv("WATCHDOG_USEC", "rubbish")

    class Short(Node):
        async def run(self) -> int:
            await anyio.sleep(0.01)
            return 7

    assert anyio.run(run_until_signal, Short()) == 7


def test_a_manager_that_does_not_read_holds_no_node_up(manager: socket.socket) -> None:
    told = ServiceManager({"NOTIFY_SOCKET": os.environ["NOTIFY_SOCKET"]}, 1)
    for _ in range(10_000):
        told.tell("WATCHDOG=1")
    assert 0 < len(all_heard(manager)) < 10_000, "the socket was full, and nothing waited"


def test_a_daemon_tells_the_manager_that_started_it(manager: socket.socket, tmp_path: Path) -> None:
    words = (
        "node",
        "--role",
        "coordinator",
        "--path",
        str(tmp_path),
        "--experiment",
        "demo",
        "--expected-workers",
        "2",
    )
    with subprocess.Popen(
        [sys.executable, "-m", "swarm", *words, "--local", "4"],
        env=os.environ | {"WATCHDOG_USEC": QUICK},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as node:
        assert [heard(manager), heard(manager)] == ["READY=1", "WATCHDOG=1"]
        node.terminate()
        assert node.wait() == 143
    assert all_heard(manager)[-1] in ("STOPPING=1", "WATCHDOG=1")
