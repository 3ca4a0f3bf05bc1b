"""A server whose answers have no end."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HEAD = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n"
PIECE = b"x" * (1 << 16)
FAR_TOO_MUCH = 1 << 28


class Endless:
    """What it has sent."""

    bytes = 0


@contextmanager
def endless() -> Iterator[tuple[int, Endless]]:
    """Its port, and what it has sent."""
    sent = Endless()

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            with suppress(OSError):
                self.request.sendall(HEAD)
                while sent.bytes < FAR_TOO_MUCH:
                    self.request.sendall(PIECE)
                    sent.bytes += len(PIECE)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], sent
        server.shutdown()
