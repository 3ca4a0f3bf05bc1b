"""Whom the nodes refuse, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from swarm.records.progress import MOST_SAID_OF, NodeProgress
from swarm.views.distrust import MOST_LINES, MOST_TOLD, Distrust, distrusted
from swarm.views.status import Status, StatusReader, render
from tests.layout import Layout
from tests.unit.views.factories import START, add_row, make_experiment, run_of


def read(layout: Layout) -> Status:
    return StatusReader(run_of(layout), liveness_timeout=15.0).read(START + 110)


def told(layout: Layout, node: str, *rows: dict[str, Any]) -> None:
    for number, columns in enumerate(rows):
        add_row(layout, node, number, **columns)


def test_a_peer_is_named_with_what_was_refused_why_by_how_many_and_who_quarantined_it(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=0)
    refused = {"refused_by_peer": {"mallory": {"not_drawn": 4}}, "quarantined": ["mallory"]}
    told(layout, "alice", refused, {"refused_by_peer": {"mallory": {"malformed": 1}}, "quarantined": ["mallory"]})
    told(layout, "bob", {**refused, "false_claims": {"mallory": 3, "eve": 2}}, {"quarantined": []})
    status = read(layout)
    assert status.distrusted == [
        Distrust(
            peer="mallory",
            refused={"not_drawn": 8, "malformed": 1},
            refused_by=["alice", "bob"],
            false_claims=3,
            false_claims_by=["bob"],
            quarantined_by=["alice"],
        ),
        Distrust(peer="eve", refused={}, refused_by=[], false_claims=2, false_claims_by=["bob"], quarantined_by=[]),
    ]
    lines = render(status).splitlines()
    (line,) = [line for line in lines if line.startswith("mallory")]
    assert line.split("  ", 1)[1].split() == ["9", "2", "3", "alice", "not_drawn", "8,", "malformed", "1"]
    assert msgspec.json.decode(msgspec.json.encode(status))["distrusted"][0]["peer"] == "mallory"


def test_many_are_cut_off_and_what_is_not_named_is_called_others(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=0)
    flood = {f"flood-{number:02}": {"malformed": 1} for number in range(MOST_LINES)}
    told(layout, "alice", {"refused_by_peer": {"*": {"flood": 99_744}, **flood}})
    text = render(read(layout))
    assert "(others)" in text
    assert "and 1 more (--json shows all)" in text


def test_of_names_without_end_a_bounded_number_is_held_and_an_honest_one_before_them_stays(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=0)
    told(layout, "alice", {"refused_by_peer": {"mallory": {"malformed": 1}}})
    for number in range(5):
        names = [f"{number}-{n}" for n in range(900)]
        told(
            layout,
            "alice",
            {
                "refused_by_peer": {name: {"x": 1} for name in names} | {"l" * 100_000: {"x": 1}},
                "accepted_by_peer": dict.fromkeys(names, 1),
                "false_claims": dict.fromkeys(names, 1),
                "refused_files": dict.fromkeys(names, 1),
            },
        )
    status = read(layout)
    assert "mallory" in {one.peer for one in status.distrusted}
    assert len(status.distrusted) <= 2 * MOST_SAID_OF
    assert max(len(one.peer) for one in status.distrusted) <= 64
    assert len(status.nodes[0].refused_files) <= MOST_SAID_OF


def test_of_invented_names_no_more_are_told_than_a_bounded_number_and_nodes_before_them() -> None:
    liar, honest = NodeProgress(), NodeProgress()
    liar.counts["false_claims"].update({f"invented-{number}": 9 for number in range(2 * MOST_TOLD)})
    honest.counts["false_claims"]["liar"] = 1
    told = distrusted({"liar": liar, "honest": honest})
    assert len(told) == MOST_TOLD
    assert "liar" in {one.peer for one in told}
