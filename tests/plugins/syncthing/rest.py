"""A server that answers as Syncthing does where a replicated folder is set up, and remembers what it was told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

KEY = "the-key-of-the-interface"
DEVICE = "-".join(["LLLLLLL"] * 8)


class Told:
    """What the server was told."""

    def __init__(self) -> None:
        self.config: dict[str, dict[str, Any]] = {}
        """Path of a folder or device -> its settings."""
        self.answers: dict[str, Any] = {"system/status": {"myID": DEVICE}}
        self.status = 200
        self.keys: list[str | None] = []


@contextmanager
def rest(home: Path) -> Iterator[Told]:
    """The server, and its configuration in a home."""
    told = Told()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix("/rest/").partition("?")[0]
            found = told.config.get(path, told.answers.get(path))
            self._answer(found, 404 if found is None and path.startswith("config/") else told.status)

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.config[self.path.removeprefix("/rest/")] = json.loads(body)
            self._answer(None, told.status)

        def _answer(self, found: object, status: int) -> None:
            told.keys.append(self.headers["X-API-Key"])
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        configure(home, f"127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()


def configure(home: Path, address: str, key: str = KEY) -> None:
    home.mkdir(exist_ok=True)
    text = f'<configuration><gui tls="false"><address>{address}</address><apikey>{key}</apikey></gui></configuration>'
    (home / "config.xml").write_text(text)
