"""Connections that nobody pays for: many, half-open, slow. Whoever was let in is answered all the same."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import uvicorn

from swarm.web.connections import MOST, ConnectionRoom, Crowd, room
from tests.integration.swarms import eventually
from tests.patience import PATIENCE
from tests.unit.web.web_factory import a_service, make_shown

FEW = ConnectionRoom(strangers=8, known=8, backlog=64)
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-"
NEVER = 10 * PATIENCE


class Served(NamedTuple):
    """A service that listens."""

    port: int
    cookie: str

    def half_open(self) -> socket.socket:
        one = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        one.sendall(HALF)
        return one

    def asks(self, path: str = "/api/run/exp/standing") -> int:
        """A browser that was let in, with a connection of its own; the status."""
        browser = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            browser.request("GET", path, headers={"Cookie": self.cookie})
            answer = browser.getresponse()
            answer.read()
            return answer.status
        finally:
            browser.close()


@contextmanager
def served(path: Path, most: ConnectionRoom = FEW, to_ask: float = NEVER, to_take: float = NEVER) -> Iterator[Served]:
    make_shown(path)
    service, guard = a_service(path)
    listening = socket.create_server(("127.0.0.1", 0))
    crowd = Crowd(most, to_ask, to_take)
    config = uvicorn.Config(
        service.app,
        http=crowd.protocol,  # type: ignore[arg-type] # called as the class that it takes
        backlog=most.backlog,
        log_level="critical",
        ws="none",
        lifespan="on",
        timeout_keep_alive=int(NEVER),
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    port = listening.getsockname()[1]
    thread.start()
    try:
        browser = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        browser.request("GET", f"/?token={guard.token}")
        cookie = browser.getresponse().headers["Set-Cookie"].partition(";")[0]
        browser.close()
        yield Served(port, cookie)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


def is_closed(one: socket.socket) -> bool:
    """By the other side, whatever was sent before."""
    one.setblocking(False)
    try:
        while one.recv(4096):
            pass
        return True
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_more_strangers_than_there_is_room_for_send_the_first_away_and_a_browser_is_answered(tmp_path: Path) -> None:
    with served(tmp_path) as page, ExitStack() as held:
        strangers = [held.enter_context(page.half_open()) for _ in range(5 * FEW.strangers)]
        eventually(lambda: sum(map(is_closed, strangers)) == 4 * FEW.strangers, "the others are gone")
        assert page.asks() == 200
        assert page.asks("/healthz") == 200
        eventually(lambda: not all(map(is_closed, strangers)), "some are still there")


def test_who_was_let_in_keeps_a_connection_whatever_strangers_come(tmp_path: Path) -> None:
    with served(tmp_path) as page, ExitStack() as held:
        browser = HTTPConnection("127.0.0.1", page.port, timeout=PATIENCE)
        for _ in range(3):
            browser.request("GET", "/api/run/exp/matrix", headers={"Cookie": page.cookie})
            assert browser.getresponse().read()
            own = browser.sock
            for _ in range(3 * FEW.strangers):
                held.enter_context(page.half_open())
            assert browser.sock is own
        browser.close()


def test_asking_for_what_tells_nothing_makes_nobody_known(tmp_path: Path) -> None:
    with served(tmp_path) as page, ExitStack() as held:
        strangers = []
        for _ in range(3 * FEW.strangers):
            one = held.enter_context(socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE))
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert b"200" in one.recv(4096)
            strangers.append(one)
        eventually(lambda: sum(map(is_closed, strangers)) >= 2 * FEW.strangers, "the first are gone")


@pytest.mark.parametrize(
    "sent",
    [b"", HALF, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nslow"],
    ids=["nothing", "half a head", "half a body"],
)
def test_who_does_not_finish_asking_is_sent_away(tmp_path: Path, sent: bytes) -> None:
    with served(tmp_path, to_ask=0.2) as page, socket.create_connection(("127.0.0.1", page.port)) as one:
        one.sendall(sent)
        eventually(lambda: is_closed(one), "it is closed")


def test_drops_of_a_head_gain_no_time(tmp_path: Path) -> None:
    with served(tmp_path, to_ask=0.5) as page, page.half_open() as one:

        def drop() -> bool:
            try:
                one.sendall(b"x")
            except OSError:
                return True
            return is_closed(one)

        eventually(drop, "it is closed although it goes on")


def test_an_answer_that_nobody_takes_is_given_up(tmp_path: Path) -> None:
    with served(tmp_path, to_take=0.2) as page, socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", page.port))
        head = f"GET /static/main.js HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {page.cookie}\r\n\r\n".encode()

        def asks_on() -> bool:
            try:
                one.sendall(head * 50)
            except OSError:
                return True
            return False

        one.settimeout(0.05)
        eventually(lambda: asks_on() and is_gone(page, one), "the connection is closed while nothing is read")


def is_gone(page: Served, one: socket.socket) -> bool:
    """Closed by an abort: what was not read is lost."""
    one.setblocking(False)
    try:
        one.send(b"x")
    except BlockingIOError:
        return False
    except OSError:
        return True
    return False


def test_room_is_a_share_of_the_descriptors_and_the_system_hands_over_a_fraction_of_it_at_a_time() -> None:
    for limit in (64, 256, 1024, 4096, float("inf")):
        found = room(limit)
        assert sum(found) <= max(12, limit * 2 / 3)
        assert found.strangers >= found.backlog
    assert room(1024) == room(float("inf")) == MOST


def test_a_head_of_megabytes_is_refused(tmp_path: Path) -> None:
    with served(tmp_path) as page, page.half_open() as one:
        try:
            for _ in range(64):
                one.sendall(b"x" * 2**16)
            said = one.recv(4096)
        except (OSError, HTTPException):
            said = b"400"
        assert b"400" in said
