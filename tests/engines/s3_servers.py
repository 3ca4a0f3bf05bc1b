"""Servers that speak S3 on loopback: moto, one that can be killed, one that lies; a proxy that makes the network bad.

moto needs other versions of what swarm needs, so it has an environment of its own: `.venv-servers`, made by
`make .venv-servers/.installed`, which `make test-engines` does.
"""

from __future__ import annotations

import http.client
import os
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.engines.killable import Killable

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-servers" / "bin" / "python"
MOTO = Path(__file__).parent / "moto_server.py"
BUCKET = "bucket"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "anna", "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_REGION": "us-east-1"}
_SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=a/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=a"
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def ask(port: int, method: str, path: str, body: bytes = b"", headers: Mapping[str, str | bytes] = {}) -> int:
    """One request, as a stranger makes it; the status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, {**_SIGNED, **headers})
        return connection.getresponse().status
    finally:
        connection.close()


@contextmanager
def moto(environ: Mapping[str, str] = {}) -> Iterator[int]:
    """A server with one empty bucket; its port.

    Args:
        environ: more variables for it.
    """
    if not PYTHON.exists():
        pytest.fail(f"{PYTHON} is missing: make .venv-servers/.installed")
    port = free_port()
    server = Killable([PYTHON, MOTO, str(port)], lambda: _takes_a_bucket(port), env={**os.environ, **environ})
    with server.at_work():
        yield port


def _takes_a_bucket(port: int) -> bool:
    return ask(port, "PUT", f"/{BUCKET}") == 200


class DiskServer(Killable):
    """A server that may die and come back with all that it acknowledged (disk_server.py)."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "tests.engines.disk_server", str(self.port), str(folder)]
        own_words = {"stdout": None, "stderr": None}
        super().__init__(command, lambda: _takes_a_bucket(self.port), cwd=ROOT, start_new_session=True, **own_words)

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}/place?endpoint=http://127.0.0.1:{self.port}"


@contextmanager
def on_disk(folder: Path) -> Iterator[DiskServer]:
    """Such a server at work; killed at the end."""
    server = DiskServer(folder)
    with server.at_work():
        yield server


Plan = Callable[[str, str], str]
"""Method and path of a request -> what happens to it: `pass`, `busy`, `forbidden`, `lost`, `cut`, `half`, `slow`."""


class Request(NamedTuple):
    """One that a proxy passed on."""

    who: str
    """The access key that signed it."""
    method: str
    path: str
    sent: int
    """Bytes of its body."""
    received: int
    """Bytes of the answer's."""


Seen = Callable[[Request], None]


class Chances:
    """Faults by chance, out of one seed; counts what happened.

    An object meets at most three faults in a row: whoever tries again as often as a store does gets through.
    """

    def __init__(self, seed: int, **chances: float) -> None:
        self._random = random.Random(seed)
        self._chances = chances
        self.happened: Counter[str] = Counter()
        self._in_a_row: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, method: str, path: str) -> str:
        with self._lock:
            draw, what = self._random.random(), "pass"
            if self._in_a_row[path] >= 3:
                draw = 1.0
            for kind, chance in self._chances.items():
                if draw < chance:
                    what = kind
                    break
                draw -= chance
            self.happened[what] += 1
            self._in_a_row[path] = 0 if what == "pass" else self._in_a_row[path] + 1
            return what


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    plan: Plan
    target: int
    without_conditions = False
    expired: Collection[str] = ()
    seen: Seen

    def _serve(self) -> None:
        what = self.plan(self.command, self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        who = self.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
        if who in self.expired:
            self._answer(400, {}, b"<Error><Code>ExpiredToken</Code></Error>")
            return
        if what == "busy":
            self._answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
            return
        if what == "forbidden":
            self._answer(403, {}, b"<Error><Code>AccessDenied</Code></Error>")
            return
        if what == "cut":
            self._cut()
            return
        if what == "slow":
            time.sleep(0.2)
        status, headers, answer = self._pass_on(body)
        self.seen(Request(who, self.command, self.path, len(body), len(answer)))
        if what == "lost":
            self._cut()
        elif what == "half":
            self._answer(status, headers, answer, cut_at=len(answer) // 2)
            self._cut()
        else:
            self._answer(status, headers, answer)

    def _pass_on(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=120)
        headers = {
            k: v for k, v in self.headers.items() if not (self.without_conditions and k.lower().startswith("if-"))
        }
        try:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], body: bytes, cut_at: int | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        length = headers.get("Content-Length", str(len(body))) if self.command == "HEAD" else str(len(body))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut_at])

    def _cut(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PROPFIND = do_MOVE = do_MKCOL = _serve  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """A client that went away."""


@contextmanager
def between(
    target: int,
    plan: Plan = lambda method, path: "pass",
    *,
    without_conditions: bool = False,
    expired: Collection[str] = (),
    seen: Seen = lambda request: None,
) -> Iterator[int]:
    """A proxy before a server; its port.

    Args:
        seen: told of each request that reached the server.
        expired: access keys that are refused, as those whose session is over; may change.
        without_conditions: the server never hears of If-None-Match: it takes every create, as some do.
    """
    facts: dict[str, object] = {"plan": staticmethod(plan), "seen": staticmethod(seen)}
    facts |= {"target": target, "without_conditions": without_conditions, "expired": expired}
    with _serving(type("Handler", (_Handler,), facts)) as port:
        yield port


class _Gateway(_Handler):
    """Does what https://huggingface.co/docs/hub/storage-buckets-s3 says of https://s3.hf.co."""

    namespace: str
    edge: int
    """Port of what gives the bytes of objects."""

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        inside = path.removeprefix(f"/{self.namespace}")
        is_object = inside.count("/") > 1 and not inside.endswith("/")
        if inside == path:
            self._answer(404, {}, b"<Error><Code>NoSuchBucket</Code></Error>")
        elif self.command == "GET" and not is_object and "list-type=2" not in query:
            self._answer(501, {}, b"<Error><Code>NotImplemented</Code></Error>")
        elif self.command == "GET" and is_object:
            self._answer(302, {"Location": f"http://127.0.0.1:{self.edge}{inside}"}, b"")
        else:
            for name in [name for name in self.headers if name.lower().startswith("x-amz-meta-")]:
                del self.headers[name]
            self.path = inside + (f"?{query}" if query else "")
            super()._serve()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815


@contextmanager
def gateway(target: int, namespace: str) -> Iterator[int]:
    """A gateway to the buckets of one namespace before a server; its port.

    Objects are given by another host, to which nobody sends a signature.
    """
    facts = {"plan": staticmethod(lambda *_: "pass"), "seen": staticmethod(lambda _: None), "target": target}
    edge = type("Edge", (_Edge,), facts)
    with ExitStack() as stack:
        at = stack.enter_context(_serving(edge))
        own = facts | {"namespace": namespace, "edge": at}
        yield stack.enter_context(_serving(type("Gateway", (_Gateway,), own)))


class _Edge(_Handler):
    def _serve(self) -> None:
        if self.headers.get("Authorization"):
            self._answer(400, {}, b"<Error><Code>InvalidArgument</Code></Error>")
            return
        for name, value in _SIGNED.items():
            self.headers[name] = value
        super()._serve()

    do_GET = do_HEAD = _serve  # noqa: N815


@contextmanager
def _serving(kind: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    with _Server(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
