"""The store over Azure's emulator, and a swarm over it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from swarm.errors import StoreError
from swarm.store.place import open_place
from tests.conformance import reading, writing  # noqa: F401 - they name the checks
from tests.conformance.checks import CHECKS
from tests.conformance.worlds import Served
from tests.engines.azure_server import CONTAINER, CREDENTIALS, azurite
from tests.patience import part_a_day

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("azure")]
_count = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of its one account."""
    with azurite(tmp_path_factory.mktemp("azurite")) as port:
        yield f"http://127.0.0.1:{port}/{CREDENTIALS['AZURE_STORAGE_ACCOUNT_NAME']}"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


class Container(Served):
    """A prefix of its own."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"az://{CONTAINER}/place-{next(_count)}?endpoint={endpoint}")


@pytest.mark.parametrize("name", part_a_day([*CHECKS], 3))
def test_the_store_keeps_its_promises_on_azure(server: str, name: str, tmp_path: Path) -> None:
    CHECKS[name](Container(server), tmp_path)


def test_a_listing_of_several_pages_is_whole(server: str) -> None:
    """The emulator begins each one at the first name."""
    world = Container(server)
    anna, names = world.open("anna"), [f"node-{number:04}.json" for number in range(1100)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: anna.put(f"peers/{name}", b"", durable=False), names))
    found, after = list[str](), ""
    while True:
        page = world.open().list("peers", after=after)
        found += [entry.name for entry in page.entries]
        if not (after := page.next):
            break
    assert found == names


def test_a_wrong_key_and_a_container_that_is_not_there_are_said(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="there is no such container"):
        open_place(f"az://nothing/place?endpoint={server}").store("demo", "anna").put("experiment.json", b"{}")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmc=")
    with pytest.raises(StoreError, match="403"):
        Container(server).open("anna").put("experiment.json", b"{}")
