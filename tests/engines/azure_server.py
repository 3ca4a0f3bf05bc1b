"""Azurite, the emulator of Azure's blob storage; `make .venv-servers/.installed` brings it where npm is."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.engines.killable import Killable
from tests.engines.s3_servers import ROOT, free_port

AZURITE = ROOT / ".venv-servers" / "node_modules" / ".bin" / "azurite-blob"
CONTAINER = "box"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The emulator's, which its documentation names."""
CREDENTIALS = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY}


@contextmanager
def azurite(folder: Path) -> Iterator[int]:
    """A server with one empty container; its port."""
    if not AZURITE.exists():
        pytest.skip(f"{AZURITE} is missing: npm was not there when .venv-servers was made")
    port = free_port()
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder)]
    command = [AZURITE, *where, "--skipApiVersionCheck", "--silent", "--disableTelemetry"]
    with Killable(command, lambda: _make_container(port) == 201, cwd=folder).at_work():
        yield port


def _make_container(port: int) -> int:
    """By a request that is signed with the account's key (Microsoft Learn, "Authorize with Shared Key")."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    said = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    text = f"PUT{chr(10) * 12}{said}/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        signed = headers | {"Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"}
        connection.request("PUT", f"/{ACCOUNT}/{CONTAINER}?restype=container", headers=signed)
        return connection.getresponse().status
    finally:
        connection.close()
