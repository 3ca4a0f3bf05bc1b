"""Real WebDAV servers on loopback, that may die and come back; and stores over them."""

from __future__ import annotations

import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from swarm.plugins.webdav.place import DavObjects, DavStore, Http
from swarm.store.base import Store

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-servers" / "bin" / "python"
CREDENTIALS = {"WEBDAV_USER": "anna", "WEBDAV_PASSWORD": "hunter2"}


class DavServer:
    """One folder of this machine, over WebDAV."""

    def __init__(self, folder: Path, certificate: Path | None = None) -> None:
        if not PYTHON.exists():
            pytest.fail(f"{PYTHON} is missing: make .venv-servers/.installed")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = int(listener.getsockname()[1])
        self.folder = folder
        script = Path(__file__).parent / "wsgidav_server.py"
        self._command = [PYTHON, script, folder, str(self.port), *([certificate] if certificate else [])]
        self._running: subprocess.Popen[bytes] | None = None
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.port}/dav"

    def start(self) -> None:
        """Returns when it answers."""
        devnull = subprocess.DEVNULL
        self._running = subprocess.Popen(self._command, stdout=devnull, stderr=devnull)
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            assert self._running.poll() is None, "the server ended"
            time.sleep(0.05)

    def kill(self) -> None:
        """With -9, in whatever it does."""
        if self._running is not None:
            self._running.kill()
            self._running.wait()


@contextmanager
def serving(folder: Path, certificate: Path | None = None) -> Iterator[DavServer]:
    """A server at work; killed at the end."""
    folder.mkdir(exist_ok=True)
    server = DavServer(folder, certificate)
    try:
        server.start()
        yield server
    finally:
        server.kill()


class Dav:
    """A folder of a server, as tests/conformance/worlds.py has places."""

    logs_wait = True

    def __init__(self, server: DavServer, undo: ExitStack) -> None:
        self._url, self._root = server.url, f"experiments/{uuid.uuid4().hex}"
        self._http = undo.enter_context(Http(CREDENTIALS))

    def open(self, writer: str | None = None) -> Store:
        return DavStore(DavObjects(self._http, self._url, f"{self._root}/.tmp/{writer}"), self._root, writer)

    def cut_power(self, writer: str) -> None:
        pass

    def put_odd(self, key: str, kind: str) -> bool:
        return False


def ask(server: DavServer, method: str, name: str, **options: object) -> httpx.Response:
    """One request, as a stranger makes it who may."""
    with Http(CREDENTIALS) as http:
        return http.request(method, f"{server.url}/{name}", **options)  # type: ignore[arg-type]
