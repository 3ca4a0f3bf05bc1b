"""News beside a node that a person answers for."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest

from swarm.config.settings import CadenceTable
from swarm.errors import StoreError
from swarm.node.base.context import NodeContext
from swarm.node.worker.worker import Worker
from swarm.plugins.person import answer as module
from swarm.plugins.person.person import Person
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio


async def test_a_place_that_cannot_be_read_for_now_ends_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    told, tries = anyio.Event(), 0

    class News:
        def __init__(self, *_: Any) -> None:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise StoreError("not there for now")

        def look(self) -> list[str]:
            return ["news"]

    class Stub:
        run, node_id, cadence = None, "alice", CadenceTable(reconcile_interval=0.001)

        @property
        def settings(self) -> Stub:
            return self

        def tell(self, _line: str) -> None:
            told.set()

    monkeypatch.setattr(module, "GroupNews", News)
    stub = Stub()
    attended = module._Attended(cast(Worker, stub), cast(Person, stub), cast(NodeContext, stub))
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(attended._tell_news)
            await told.wait()
            tasks.cancel_scope.cancel()
