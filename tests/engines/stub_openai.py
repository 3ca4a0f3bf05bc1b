"""A server that answers as OpenAI-compatible ones do, on a real socket, with faults by plan.

    with serving(*[throttled(0), good("7")], then=good("8")) as stub: ... stub.url, stub.asked

A fault is a function of a request's handler and its body; the plan is worked off in the order of arrival.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Fault = Callable[["Handler", dict[str, Any]], None]


class Asked(NamedTuple):
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: dict[str, Any]


class Stub(ThreadingHTTPServer):
    """A server of one's own on loopback, with a plan of what it does to requests; it holds what was asked."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, plan: tuple[Fault, ...], then: Fault) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.plan, self.then = deque(plan), then
        self.released = threading.Event()
        """Ends what hangs."""
        self.asked: list[Asked] = []
        self.most_at_once = self._at_once = 0
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error of the stub."""

    def arrived(self, asked: Asked) -> Fault:
        with self._lock:
            self.asked.append(asked)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            return self.plan.popleft() if self.plan else self.then

    def answered(self) -> None:
        with self._lock:
            self._at_once -= 1


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    server: Stub

    def give(self, status: int, body: bytes, declared: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body) if declared is None else declared))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def give_json(self, value: object, status: int = 200, **headers: str) -> None:
        self.give(status, json.dumps(value).encode(), **headers)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, json.loads(content))
        fault = self.server.arrived(asked)
        try:
            fault(self, asked.body)
        finally:
            self.server.answered()


@contextmanager
def serving(*plan: Fault, then: Fault | None = None) -> Iterator[Stub]:
    """A server on a port of its own; `then` is what it does when the plan is over."""
    stub = Stub(plan, then or good())
    thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stub
    finally:
        stub.released.set()
        stub.shutdown()
        thread.join()
        stub.server_close()


def reply_to(
    body: dict[str, Any], text: object, reason: object = "stop", usage: object = None, **message: object
) -> dict[str, Any]:
    """A reply in the form that was asked for."""
    chat = {"message": {"role": "assistant", "content": text, **message}}
    choice = chat if "messages" in body else {"text": text}
    counted = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25} if usage is None else usage
    return {"id": "x", "choices": [{"index": 0, **choice, "finish_reason": reason}], "usage": counted}


def good(text: object = "<answer>7</answer>", reason: object = "stop", **more: Any) -> Fault:
    return lambda handler, body: handler.give_json(reply_to(body, text, reason, **more))


def shaped(value: object) -> Fault:
    """Any JSON with status 200."""
    return lambda handler, body: handler.give_json(value)


def raw(content: bytes, status: int = 200, **headers: str) -> Fault:
    """Any bytes."""
    return lambda handler, body: handler.give(status, content, **headers)


def refused(status: int, message: str = "", **headers: str) -> Fault:
    return lambda handler, body: handler.give_json({"error": {"message": message, "type": "x"}}, status, **headers)


def throttled(seconds: object = None) -> Fault:
    return refused(429, "slow down", **({} if seconds is None else {"retry_after": str(seconds)}))


def killed(handler: Handler, body: dict[str, Any]) -> None:
    """The connection breaks in the middle of a reply."""
    content = json.dumps(reply_to(body, "<answer>7</answer>")).encode()
    handler.give(200, content[:20], declared=len(content))
    handler.close_connection = True


def hanging(handler: Handler, body: dict[str, Any]) -> None:
    """No byte comes before the stub ends."""
    handler.server.released.wait()
    handler.close_connection = True


def dripping(handler: Handler, body: dict[str, Any]) -> None:
    """A space now and then, so that no read ever times out by itself."""
    handler.give(200, b" ", declared=10**6)
    while not handler.server.released.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def huge(handler: Handler, body: dict[str, Any]) -> None:
    """A reply of a gigabyte, as far as anybody reads it."""
    handler.give(200, b" ", declared=2**30)
    for _ in range(2**14):
        handler.wfile.write(b" " * 2**16)


def redirecting(to: str) -> Fault:
    return lambda handler, body: handler.give_json({}, 307, location=to)


def by_form(chat: Fault, completions: Fault, user: Fault | None = None) -> Fault:
    """One fault for chats, one for plain completions, one for chats without a system turn."""

    def decide(handler: Handler, body: dict[str, Any]) -> None:
        one_turn = len(body.get("messages", ())) == 1
        (completions if "prompt" in body else user if user and one_turn else chat)(handler, body)

    return decide
