"""What a run over a bucket says of its requests, and that a run in a folder says nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from swarm.records.progress import NodeProgress
from swarm.store.base import Spent
from swarm.views.requests import render_requests, requests_of
from tests.layout import Layout
from tests.unit.views.factories import make_row

ROUND = 60.0
"""Seconds."""


def progress_of(layout: Layout, rounds: int, **asked: int) -> NodeProgress:
    progress = NodeProgress()
    for number in range(rounds):
        row = make_row(layout, "anna", number)
        row = msgspec.structs.replace(row, timestamp=ROUND * number, **asked)
        progress.observe([msgspec.json.encode(row)])
    return progress


ASKED = {"store_writes": 7, "store_lists": 2, "store_reads": 10, "store_sent": 15_000, "store_received": 5_000}


def test_requests_are_told_per_worker_and_round(tmp_path: Path) -> None:
    found = requests_of(
        [progress_of(Layout(tmp_path, "exp"), 4, **ASKED), progress_of(Layout(tmp_path, "exp"), 2, **ASKED)],
        Spent(Counter(get=20, list=6, put=1, delete=9)),
    )
    assert found is not None
    assert (found.workers, found.per_round, found.per_minute) == (2, 19.0, 19.0)
    assert (found.writes_per_round, found.lists_per_round, found.reads_per_round) == (7.0, 2.0, 10.0)
    assert found.bytes_per_round == 20_000
    assert "19.0 a round (7.0 writes, 2.0 listings, 10.0 reads, 20 kB), 19 a minute" in render_requests(found)
    assert "this view so far: 27" in render_requests(found)


def test_a_run_in_a_folder_has_no_requests_to_tell_of(tmp_path: Path) -> None:
    assert requests_of([progress_of(Layout(tmp_path, "exp"), 4)]) is None
    assert render_requests(None) == ""
