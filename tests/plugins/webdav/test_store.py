"""The store in a folder of a WebDAV server keeps every promise of the contract, on a server that itself keeps few."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance import reading, writing  # noqa: F401 - they name the checks
from tests.conformance.checks import CHECKS
from tests.conformance.promises import Check
from tests.plugins.webdav.servers import Dav, DavServer, serving

pytestmark = [pytest.mark.engine]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DavServer]:
    with serving(tmp_path_factory.mktemp("dav")) as server:
        yield server


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_the_store_keeps_its_promise(server: DavServer, check: Check, tmp_path: Path) -> None:
    with ExitStack() as undo:
        check(Dav(server, undo), tmp_path)
