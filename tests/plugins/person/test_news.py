"""What a person hears of earlier answers."""

from __future__ import annotations

from pathlib import Path

import msgspec

from swarm.plugins.person.news import GroupNews
from tests.layout import Layout
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
