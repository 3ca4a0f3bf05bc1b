"""The store in a folder of a WebDAV server keeps every promise of the contract, on a server that itself keeps few."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance import broken, reading, writing  # noqa: F401 - they name the checks
from tests.conformance.checks import CHECKS
from tests.conformance.promises import Check
from tests.plugins.webdav.servers import Dav, DavServer, serving

pytestmark = [pytest.mark.engine]
BROKEN = (
    broken.WritesInTwoParts,
    broken.AcknowledgesBeforeItWrites,
    broken.ReplacesWhatIsThere,
    broken.HoldsRolloutsBack,
    broken.AppendsInAnyOrder,
    broken.KnowsNoLimit,
    broken.IsStoppedByWhatStandsThere,
    broken.ListsWhatWasThere,
    broken.LetsReadersWrite,
    broken.TakesTheMissingForEmpty,
)
"""One store for each promise, and for readers and errors."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DavServer]:
    with serving(tmp_path_factory.mktemp("dav")) as server:
        yield server


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_the_store_keeps_its_promise(server: DavServer, check: Check, tmp_path: Path) -> None:
    with ExitStack() as undo:
        check(Dav(server, undo), tmp_path)


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_promise_is_noticed(server: DavServer, kind: type[broken.Broken], tmp_path: Path) -> None:
    with ExitStack() as undo, pytest.raises((AssertionError, pytest.fail.Exception)):
        CHECKS[kind.noticed_by[-1]](broken.BrokenWorld(Dav(server, undo), kind), tmp_path)
