"""What a view holds of rows that name thousands: bounded, said, and nothing of an honest run."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.records import rows as keeping
from swarm.records.reader import snapshot
from swarm.records.rollouts import RolloutFiles
from swarm.records.rows import Keeper, read_rows
from swarm.records.table import Odd
from swarm.types import RoundKey
from swarm.views import validate as validating
from swarm.views.summary import render, summarise_run
from swarm.views.validate import validate
from swarm.wire.messages import MetricsRow
from tests.layout import Layout
from tests.unit.views.factories import append, make_experiment, make_row, run_of

MIB = 2**20
ROWS = 80


def names(row: int, count: int = 500) -> dict[str, int]:
    return {f"peer-{row}-{number:04}-with-a-long-name": 1 for number in range(count)}


def write_rows(layout: Layout, node: str, rows: int, fields: Callable[[int], dict[str, Any]]) -> None:
    lines = [msgspec.json.encode(make_row(layout, node, number, **fields(number))) for number in range(rows)]
    append(layout.metrics_file(node), b"\n".join(lines))


NAMING: dict[str, Callable[[int], dict[str, Any]]] = {
    "peers": lambda row: {"external_by_peer": names(row), "accepted_by_peer": names(row)},
    "tasks": lambda row: {"task_rewards": names(row), "task_tag_rates": names(row)},
    "nested": lambda row: {"external_by_peer_task": {name: names(row, 3) for name in names(row, 120)}},
    "lists": lambda row: {"trained_on": [*names(row)], "quarantined": [*names(row)]},
    "models": lambda row: {"model": f"{row}" * 20_000, "external_by_model": names(row)},
}


@pytest.mark.parametrize("naming", ["nested", "lists", "models"])
def test_names_in_a_strangers_rows_are_held_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, naming: str
) -> None:
    layout = make_experiment(tmp_path, rounds=1)
    write_rows(layout, "mallory", ROWS, NAMING[naming])
    monkeypatch.setattr(keeping, "MOST_OF_WORKER", MIB // 4)
    read_rows(run_of(layout), "mallory")  # what is imported and cached by it
    tracemalloc.start()
    found = read_rows(run_of(layout), "mallory")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.rows) == ROWS
    assert held < 2 * MIB  # ten rows, and a quarter of a MiB after them, in which letters of names alone count


def test_rows_of_2000_rounds_with_64_peers_are_held_whole(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=1)
    peers = [f"worker-{number}.of-some-cluster" for number in range(64)]
    row = make_row(
        layout,
        "alice",
        0,
        accepted_by_peer=dict.fromkeys(peers, 4),
        publish_to_pool=[number / 7 for number in range(64)],
        external_by_peer=dict.fromkeys(peers[:4], 1),
        external_by_peer_task={peer: {"base_conversion": 1} for peer in peers[:4]},
        external_by_model={"Qwen/Qwen2.5-0.5B-Instruct": 4},
        trained_on=[f"{peer}/1999/0/3" for peer in peers[:4]],
        task_rewards=dict.fromkeys(("base_conversion", "arc_1d", "bf", "calendar_arithmetic"), 0.51),
        task_tag_rates=dict.fromkeys(("base_conversion", "arc_1d", "bf", "calendar_arithmetic"), 0.52),
        refused_by_peer={peer: {"late": 1} for peer in peers[:8]},
    )
    line = msgspec.json.encode(row)
    keeper = Keeper(odd := Odd())
    held = [keeper.keep(msgspec.json.decode(line, type=MetricsRow)) for _ in range(2000)]
    assert not odd
    assert held == [row] * 2000


def test_the_first_and_the_last_rows_keep_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "MOST_OF_WORKER", MIB)
    layout = make_experiment(tmp_path, rounds=1)
    write_rows(layout, "mallory", 60, NAMING["tasks"])
    rows, _, _, odd = read_rows(run_of(layout), "mallory")
    named = [bool(row.task_rewards) for row in rows]
    assert all(named[:10])
    assert named[-1]
    assert odd.cut == named.count(False) > 0
    assert [row.my_reward for row in rows] == [make_row(layout, "mallory", n).my_reward for n in range(60)]


def test_one_row_that_names_too_many_keeps_its_numbers(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=1)
    write_rows(layout, "mallory", 1, lambda _: {"task_rewards": {f"{'x' * 1000}{n}": 0.5 for n in range(900)}})
    (row,), _, _, odd = read_rows(run_of(layout), "mallory")
    assert (row.task_rewards, row.my_reward) == ({}, make_row(layout, "mallory", 0).my_reward)
    assert odd.cut == 1


def test_every_view_says_whose_names_were_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "MOST_OF_WORKER", MIB // 4)
    layout = make_experiment(tmp_path)
    write_rows(layout, "mallory", 30, lambda row: NAMING["peers"](row) | {"task_rewards": names(row)})
    cut = summarise_run(run_of(layout)).out_of_range["mallory"].cut
    assert cut > 0
    assert f"mallory: 0 rows left out, 0 clamped, {cut} with more names than are held" in render(
        summarise_run(run_of(layout))
    )
    assert snapshot(run_of(layout)).progress["mallory"].odd.cut == 30  # of the first 300 peers it is held what was said


def test_a_check_that_fails_a_thousand_times_looks_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = make_experiment(tmp_path)
    for number in range(20):
        layout.rollout_file(RoundKey(0), f"mallory-{number:02}").write_text("[]")
    monkeypatch.setattr(validating, "MOST_PROBLEMS", 3)
    opened, read = list[str](), RolloutFiles.read
    monkeypatch.setattr(
        RolloutFiles, "read", lambda files, place, limit: (opened.append(place), read(files, place, limit))[1]
    )
    report = validate(run_of(layout), partial=True)
    check = next(c for c in report.checks if c.name == "rollout files have the documented form")
    assert (len(check.problems), check.more) == (3, 3)
    assert sum("mallory" in place for place in opened) == 6
    assert "and at least 1 more" in validating.render(report)
