"""Real WebDAV servers on loopback, that may die and come back; and stores over them."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from swarm.plugins.webdav.place import DavObjects, DavStore, Http
from swarm.store.base import Store
from tests.conformance.worlds import Served
from tests.engines.killable import Killable
from tests.engines.s3_servers import PYTHON, free_port

CREDENTIALS = {"WEBDAV_USER": "anna", "WEBDAV_PASSWORD": "hunter2"}


class DavServer(Killable):
    """One folder of this machine, over WebDAV."""

    def __init__(self, folder: Path, certificate: Path | None = None) -> None:
        if not PYTHON.exists():
            pytest.fail(f"{PYTHON} is missing: make .venv-servers/.installed")
        self.port, self.folder = free_port(), folder
        script = Path(__file__).parent / "wsgidav_server.py"
        command = [PYTHON, script, folder, str(self.port), *([certificate] if certificate else [])]
        super().__init__(command, self._is_reached)
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.port}/dav"

    def _is_reached(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True


@contextmanager
def serving(folder: Path, certificate: Path | None = None) -> Iterator[DavServer]:
    """A server at work; killed at the end."""
    folder.mkdir(exist_ok=True)
    server = DavServer(folder, certificate)
    with server.at_work():
        yield server


class Dav(Served):
    """A folder of a server."""

    def __init__(self, server: DavServer, undo: ExitStack) -> None:
        super().__init__(server.url)
        self._root = f"experiments/{uuid.uuid4().hex}"
        self._http = undo.enter_context(Http(CREDENTIALS))

    def open(self, writer: str | None = None) -> Store:
        return DavStore(DavObjects(self._http, self.url, f"{self._root}/.tmp/{writer}"), self._root, writer)
