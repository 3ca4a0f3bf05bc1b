"""Two nodes that begin an experiment at once end in one, on every store: each signs with the id that the other has."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from swarm.node.base.experiment import claim_experiment, read_experiment
from swarm.node.process.host import this_process
from swarm.records.files import id_of
from swarm.signing.birth import STANDS_FOR, Birth
from swarm.signing.known_keys import KnownKeys
from swarm.store.base import Store
from swarm.store.run import Run
from tests.conformance.worlds import WORLDS
from tests.layout import Layout
from tests.unit.node.nodes import make_context

NODES = ("anna", "ben")


class Machine:
    """Of one node, with a memory and a wall clock of its own."""

    def __init__(self, tmp: Path, node: str, store: Store) -> None:
        self._now = 0.0
        self._ctx = replace(
            make_context(Layout(tmp, "demo"), node, clock="own"), run=Run("demo", store), process=this_process()
        )
        self.memory = KnownKeys(tmp / node, "place", "demo")
        self._birth = Birth("demo", "place", partial(id_of, self._ctx.run), self.memory, lambda: self._now)

    def claim(self) -> None:
        claim_experiment(self._ctx)

    def id_after_a_while(self) -> str | None:
        for _ in range(2):
            self._birth.look()
            self._now += STANDS_FOR
        self._birth.look()
        return self._birth.id


class Overwriting:
    """A store like a bucket that creates nothing exclusively: of two who write at once, the last one stays."""

    def __init__(self, inner: Store, before: Callable[[], object]) -> None:
        self._inner = inner
        self._before = before

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        self._before()
        self._inner.put(key, data, durable=durable)


def born_in(reader: Store) -> str:
    made = read_experiment(Run("demo", reader))
    assert made is not None
    assert isinstance(made.id, str)
    return made.id


@pytest.mark.parametrize("world", WORLDS)
def test_two_births_at_once_are_one(world: str, tmp_path: Path) -> None:
    with ExitStack() as undo:
        place = WORLDS[world](tmp_path, undo)
        machines = [Machine(tmp_path, node, place.open(node)) for node in NODES]
        with ThreadPoolExecutor(len(machines)) as threads:
            list(threads.map(Machine.claim, machines))
        id_ = born_in(place.open())
        assert [machine.id_after_a_while() for machine in machines] == [id_] * len(machines)
        assert [machine.memory.ids() for machine in machines] == [[id_]] * len(machines)


def test_two_births_are_one_where_a_place_has_no_sure_winner(tmp_path: Path) -> None:
    with ExitStack() as undo:
        place, both = WORLDS["memory"](tmp_path, undo), Barrier(len(NODES))
        stores = [Overwriting(place.open(node), both.wait) for node in NODES]  # each has found nothing there
        machines = [Machine(tmp_path, node, store) for node, store in zip(NODES, stores, strict=True)]  # type: ignore[arg-type]
        with ThreadPoolExecutor(len(machines)) as threads:
            list(threads.map(Machine.claim, machines))
        id_ = born_in(place.open())
        assert [machine.id_after_a_while() for machine in machines] == [id_] * len(machines)
