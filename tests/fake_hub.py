"""A Hugging Face Hub of one model on loopback, as far as its client asks one before and while it downloads."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

COMMIT = "c0ffee" + "0" * 34
REFUSALS = {
    "missing": (404, {"X-Error-Code": "RepoNotFound"}),
    "hidden": (401, {"X-Error-Code": "RepoNotFound"}),
    "wrong token": (401, {"X-Error-Message": "Invalid credentials in Authorization header"}),
    "down": (503, {}),
}
"""What it answers to everything, by mode."""


class FakeHub(ThreadingHTTPServer):
    """Serves `name` from a folder; `mode` is `open`, `gated` (names are seen, files are not), `silent` (it takes
    questions and never answers) or one of REFUSALS."""

    daemon_threads = True

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.name, self.folder, self.mode = name, folder, "open"
        self.asked: list[str] = []
        """`METHOD path`, without the query."""
        self.tokens: set[str] = set()
        self.closed = threading.Event()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(BaseHTTPRequestHandler):
    server: FakeHub

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, *, body: bool) -> None:
        hub, path = self.server, self.path.partition("?")[0]
        hub.asked.append(f"{self.command} {path}")
        hub.tokens.add(self.headers.get("Authorization", ""))
        mode = hub.mode if f"/{hub.name}" in path else "missing"
        if mode == "silent":
            hub.closed.wait()
            return
        if mode == "gated" and "/resolve/" in path:
            self._send(403 if "Authorization" in self.headers else 401, b"", {"X-Error-Code": "GatedRepo"}, body)
        elif mode in REFUSALS:
            status, headers = REFUSALS[mode]
            self._send(status, b"{}", headers, body)
        elif "/resolve/" in path:
            self._file(hub.folder / path.rpartition("/")[2], body)
        elif "/tree/" in path:
            files = [{"type": "file", "path": f.name, **_about(f)} for f in sorted(hub.folder.iterdir())]
            self._send(200, json.dumps(files).encode(), {}, body)
        else:
            siblings = [{"rfilename": f.name, **_about(f)} for f in sorted(hub.folder.iterdir())]
            found = {"id": hub.name, "modelId": hub.name, "sha": COMMIT, "siblings": siblings}
            self._send(200, json.dumps(found).encode(), {}, body)

    def _file(self, file: Path, body: bool) -> None:
        if not file.is_file():
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"}, body)
            return
        etag = f'"{_about(file)["oid"]}"'
        self._send(200, file.read_bytes(), {"ETag": etag, "X-Repo-Commit": COMMIT}, body)

    def _send(self, status: int, data: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)


def go_to(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As HF_ENDPOINT does, which the client reads at its import."""
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}/resolve/{revision}/{filename}")


def _about(file: Path) -> dict[str, Any]:
    oid = hashlib.sha1(file.read_bytes()).hexdigest()
    return {"size": file.stat().st_size, "oid": oid, "blobId": oid}


@contextmanager
def fake_hub(name: str, folder: Path) -> Iterator[FakeHub]:
    """The hub, for the block."""
    with FakeHub(name, folder) as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield hub
        finally:
            hub.closed.set()
            hub.shutdown()
            thread.join()
