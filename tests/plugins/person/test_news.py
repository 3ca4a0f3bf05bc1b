"""What a person hears of earlier answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
import pytest

from swarm.cli.main import run
from swarm.config.settings import CadenceTable
from swarm.errors import StoreError
from swarm.node.base.context import NodeContext
from swarm.node.worker.worker import Worker
from swarm.plugins.person import answer as module
from swarm.plugins.person.news import GroupNews
from swarm.plugins.person.person import Person
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.views.factories import append, make_experiment, make_round, make_row, run_of


def test_rewards_and_who_trained_on_them_are_told_once_and_what_was_before_is_not(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=2)
    _trains(layout, "bob", 2, ["alice/1/0/0"])
    news = GroupNews(run_of(layout), "alice")
    assert news.look() == []
    make_round(layout, "alice", 2)
    append(layout.metrics_file("alice"), _row(layout, "alice", 2, local_groups=1))
    _trains(layout, "bob", 3, ["alice/2/0/0", "carol/2/0/0", "alice/x/0/0", "junk", "alicex/2/0/0"])
    append(layout.metrics_file("bob"), b"no row")
    assert news.look() == ["round 2: your answers earned 1.00 0.00", "round 2: bob trained on your answers"]
    assert news.look() == []


def test_answers_that_came_too_late_and_those_that_are_gone_are_said_to_be(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=1)
    news = GroupNews(run_of(layout), "alice")
    append(layout.metrics_file("alice"), _row(layout, "alice", 0, local_groups=1, late=True))
    append(layout.metrics_file("alice"), _row(layout, "alice", 9, local_groups=1))
    late, gone = news.look()
    assert "earned 1.00 0.00, and came too late" in late
    assert "cannot be read" in gone


def test_what_strangers_say_of_other_rounds_is_not_told_nor_anything_twice(tmp_path: Path) -> None:
    """A stranger's row of a million names would fill the terminal."""
    layout = make_experiment(tmp_path, rounds=2)
    news = GroupNews(run_of(layout), "alice")
    _trains(layout, "bob", 2, [f"alice/{number}/0/0" for number in range(50_000)])
    assert news.look() == [f"round {number}: bob trained on your answers" for number in range(3)]
    _trains(layout, "bob", 3, ["alice/2/0/0"])
    assert news.look() == []


def test_of_many_peers_a_few_are_named(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=2)
    news = GroupNews(run_of(layout), "alice")
    for number in range(20):
        _trains(layout, f"p{number:02}", 2, ["alice/1/0/0"])
    assert news.look() == ["round 1: p00, p01, p02, p03, p04, 15 others trained on your answers"]


def _row(layout: Layout, node: str, number: int, **columns: object) -> bytes:
    return msgspec.json.encode(make_row(layout, node, number, **columns))


def _trains(layout: Layout, node: str, number: int, names: list[str]) -> None:
    append(layout.metrics_file(node), _row(layout, node, number, trained_on=names))


def test_without_a_terminal_it_says_what_to_do_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["answer", str(tmp_path)]) == 2
    assert "swarm join --role generator" in capsys.readouterr().err


@pytest.mark.anyio
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
