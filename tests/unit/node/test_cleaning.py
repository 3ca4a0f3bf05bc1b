"""Workers clean up by turns, and say what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from swarm.errors import StoreError
from swarm.node.base.cleaning import Cleaning, is_turn
from swarm.records.retention import Lived
from swarm.wire.codec import encode
from tests.layout import Layout
from tests.unit.node.factories import make_peer, put
from tests.unit.node.nodes import make_context

LIVE = frozenset({"ben", "zoe"})


def lived(rounds: int) -> list[Lived]:
    return [Lived(round_, round_) for round_ in range(rounds)]


def prepared(tmp_path: Path, rounds: int, *, needs: int = 10**6, **more: Any) -> tuple[Layout, Cleaning]:
    layout = Layout(tmp_path, "exp")
    for round_ in range(rounds):
        for node in ("anna", "ben"):
            put(layout.rollouts / f"round_{round_}" / "stage_0" / f"{node}.json", b"{}")
    put(layout.peers / "ben.json", encode(make_peer("ben", needs_from=needs)))
    settings = {"cleanup": True, "keep_last_rounds": 4, "redo_rounds": 10, "checkpoint_interval": 4} | more
    cleaning = Cleaning(make_context(layout, "anna", **settings))
    cleaning.take_up(lived(rounds - 1), [rounds - 1])
    return layout, cleaning


def rounds_of(layout: Layout) -> list[int]:
    return sorted(int(folder.name.removeprefix("round_")) for folder in layout.rollouts.iterdir())


def clean(cleaning: Cleaning, round_: int) -> None:
    cleaning.done(Lived(round_, round_))
    anyio.run(cleaning.after, round_, frozenset(), frozenset({"ben"}))


def test_of_three_nodes_each_has_its_turn_once_in_three_rounds() -> None:
    for round_ in range(6):
        assert sum(is_turn(node, LIVE | {"anna"}, round_) for node in ("anna", "ben", "zoe")) == 1
    assert [is_turn("anna", LIVE, round_) for round_ in range(6)] == [True, False, False] * 2


STOPPED = encode(make_peer("ben", round=9, needs_from=10, status="stopped"))
LEFT: dict[str, tuple[dict[str, Any], tuple[str, bytes] | None, range]] = {
    "what a dead worker needs to redo its rounds": ({"needs": 9}, None, range(9, 20)),
    "nothing for a worker that stopped and saved all it did": ({}, ("ben.json", STOPPED), range(16, 20)),
    "what redoing may need, and no more, for one that cannot be read": ({}, ("eve.json", b"junk"), range(7, 20)),
    "all without the setting": ({"cleanup": False}, None, range(20)),
}
"""What stays -> settings, a registration, and the rounds."""


@pytest.mark.parametrize(("settings", "registered", "left"), LEFT.values(), ids=LEFT)
def test_of_old_rounds_it_leaves(
    tmp_path: Path, settings: dict[str, Any], registered: tuple[str, bytes] | None, left: range
) -> None:
    layout, cleaning = prepared(tmp_path, 20, **settings)
    if registered:
        put(layout.peers / registered[0], registered[1])
    for _ in range(4):  # all stages of a round are one round
        clean(cleaning, 19)
    assert rounds_of(layout) == [*left]


def test_the_last_node_to_end_leaves_as_many_rounds_as_are_asked_for(tmp_path: Path) -> None:
    layout, cleaning = prepared(tmp_path, 21, needs=8)
    beats = list[str]()

    async def beat() -> None:
        beats.append("anna")
        put(layout.peers / "ben.json", encode(make_peer("ben", round=19, needs_from=20)))

    anyio.run(cleaning.at_the_end, beat, frozenset({"ben"}))
    assert rounds_of(layout) == [16, 17, 18, 19, 20]
    assert beats == ["anna"]


def test_how_many_rounds_stay_is_said_at_the_start(tmp_path: Path) -> None:
    with capture_logs() as said:
        prepared(tmp_path, 20, checkpoint_interval=7)
    assert [(line["event"], line["rounds"]) for line in said] == [("cleanup.keeps_more", 7)]


def test_a_place_that_fails_costs_a_line_and_the_next_turn_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, cleaning = prepared(tmp_path, 20)

    def fails(*_: object) -> None:
        raise StoreError("the disk is full")

    with capture_logs() as said, monkeypatch.context() as patch:
        patch.setattr("swarm.store.folder.store.FolderStore.put", fails)
        clean(cleaning, 19)
        clean(cleaning, 20)
    assert [line["event"] for line in said] == ["cleanup.failed"]
    assert rounds_of(layout) == [*range(20)]
    clean(cleaning, 21)
    assert rounds_of(layout) == [18, 19]


def test_what_a_worker_needs_follows_its_checkpoints(tmp_path: Path) -> None:
    cleaning = Cleaning(make_context(Layout(tmp_path, "exp"), "anna", checkpoint_keep=2))
    assert cleaning.needed_from(7) == 0
    for saved in (10, 20, 30):
        cleaning.saved(saved)
    assert cleaning.needed_from(33) == 20
