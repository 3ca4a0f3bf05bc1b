"""What is missing without a trace is missed: by what was asked for, by what the run recorded, by who names it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.types import RoundKey
from swarm.views.run_records import Expected
from swarm.views.validate import ValidationReport, validate
from swarm.wire import keys
from tests.layout import Layout
from tests.unit.views.factories import (
    START,
    append,
    append_events,
    make_event,
    make_experiment,
    make_peer,
    make_row,
    run_of,
)

WORKERS = ("alice", "bob", "carol", "dora")
COUNT, EXTERNAL = "rounds and workers expected", "external groups expected"


def check(layout: Layout, *, partial: bool = False, **expected: Any) -> ValidationReport:
    return validate(run_of(layout), partial=partial, expected=Expected(**expected))


def failed(report: ValidationReport) -> dict[str, tuple[str, ...]]:
    return {check.name: check.problems for check in report.checks if not check.ok}


def remove_all_traces(layout: Layout, node: str) -> None:
    for found in [*layout.root.rglob(f"{node}.json"), *layout.root.rglob(node)]:
        shutil.rmtree(found) if found.is_dir() else found.unlink()


def says_expected(layout: Layout, workers: object, node: str = "clock") -> None:
    append_events(layout, node, make_event("coordinator.ready", START, expected_workers=workers))


def with_rows(layout: Layout, node: str, rounds: int = 3, **fields: Any) -> None:
    rows = [msgspec.json.encode(make_row(layout, node, number, local_groups=4, **fields)) for number in range(rounds)]
    layout.metrics_file(node).write_bytes(b"\n".join(rows) + b"\n")


# ── workers ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_worker_that_left_no_trace_is_missed_where_the_run_recorded_how_many_there_were(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, workers=WORKERS)
    says_expected(layout, 4)
    assert check(layout).ok
    remove_all_traces(layout, "dora")
    (problem,) = failed(check(layout))[COUNT]
    assert "expected rows of 4 workers" in problem
    assert "got those of 3: alice, bob, carol" in problem


def test_a_worker_that_was_expected_by_name_is_missed_by_name(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, workers=WORKERS)
    says_expected(layout, list(WORKERS))
    remove_all_traces(layout, "dora")
    assert "dora" in failed(check(layout))[COUNT][0]


@pytest.mark.parametrize("said", [1, -1, True, "four", [1], {}])
def test_fewer_than_there_were_and_what_is_no_number_of_workers_expect_nothing(layout: Layout, said: object) -> None:
    says_expected(layout, said)
    says_expected(layout, 10**9, node="bob")  # who does not lead
    assert check(layout).ok


@pytest.mark.parametrize(("asked", "number"), [("nodes", 2), ("rounds", 3)])
def test_the_number_of_workers_or_rounds_that_is_asked_for_is_the_number(
    layout: Layout, asked: str, number: int
) -> None:
    says_expected(layout, 2)
    assert [check(layout, **{asked: number + more}).ok for more in (-1, 0, 1)] == [False, True, False]


# ── rounds ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_worker_that_ended_before_the_rounds_asked_for_is_named(layout: Layout) -> None:
    with_rows(layout, "bob", rounds=2)
    for file in (layout.rollout_file(RoundKey(2), "bob"), layout.reward_file(RoundKey(2), "bob")):
        file.unlink()
    assert check(layout).ok
    (problem,) = failed(check(layout, rounds=3))[COUNT]
    assert problem.startswith(str(layout.metrics_file("bob")))
    assert "got the last one of round 1" in problem


# ── external groups ─────────────────────────────────────────────────────────────────────────────────────────────────
def test_external_groups_that_were_asked_for_were_wanted_in_every_round_and_trained_on(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, workers=("alice", "bob", "carol"))
    with_rows(layout, "alice", external_wanted=4, external_groups=1)
    with_rows(layout, "bob", external_wanted=4)
    with_rows(layout, "carol", external_wanted=0)
    assert EXTERNAL not in failed(check(layout))
    none_heard, none_wanted = failed(check(layout, external=4))[EXTERNAL]
    assert none_heard.startswith(str(layout.metrics_file("bob")))
    assert "got none in 3 rounds" in none_heard
    assert none_wanted.startswith(str(layout.metrics_file("carol")))
    assert "expected 4" in none_wanted
    assert "in 3 rounds in all" in none_wanted


# ── starts ──────────────────────────────────────────────────────────────────────────────────────────────────────────
STARTED = "nodes that were started"


def starts(layout: Layout, node: str, rounds_done: int = 0, role: str = "worker") -> None:
    start = {"timestamp": START, "node_id": node, "experiment": "exp", "incarnation": "i", "settings": {}}
    line = start | {"rounds_done": rounds_done, "role": role}
    append(layout.root / keys.starts(node), msgspec.json.encode(line))


def test_a_worker_whose_start_alone_is_left_is_missed(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, workers=WORKERS)
    starts(layout, "dora")
    assert check(layout).ok
    remove_all_traces(layout, "dora")
    starts(layout, "dora")
    (problem,) = failed(check(layout))[STARTED]
    assert problem.startswith(str(layout.metrics_file("dora")))
    assert check(layout, partial=True).ok, "it was killed at its start, and comes back"


@pytest.mark.parametrize(
    ("role", "end", "said"),
    [
        ("worker", [make_event("node.finished", START, reason="missed", rounds_done=0)], "all rounds were over"),
        ("generator", [make_event("node.finished", START, reason="stopped", rounds_done=0)], "before its first round"),
        ("evaluator", [make_event("process.failed", START, error="no disk")], "it failed before its first round"),
        ("worker", [], "it was killed, or still runs"),
    ],
)
def test_no_run_is_whole_in_which_somebody_was_started_and_did_nothing(
    layout: Layout, role: str, end: list[dict[str, Any]], said: str
) -> None:
    append_events(layout, "dora", make_event("node.starting", START), *end)
    starts(layout, "dora", role=role)
    (problem,) = failed(check(layout))[STARTED]
    assert said in problem
    assert STARTED not in failed(check(layout, partial=True))


def test_who_only_registered_or_came_to_look_did_not_have_to_do_anything(layout: Layout) -> None:
    make_peer(layout, "dora")
    starts(layout, "ella", role="person")
    starts(layout, "clock", role="coordinator")
    assert STARTED not in failed(check(layout))


def test_who_counts_the_coordinator_among_the_nodes_is_told_how_they_are_counted(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, workers=WORKERS)
    make_peer(layout, "clock", node_role="coordinator")
    (problem,) = failed(check(layout, nodes=5))[COUNT]
    assert "a coordinator trains nothing and is not counted: --nodes 4" in problem
    (problem,) = failed(check(layout, nodes=7))[COUNT]
    assert "--nodes 4" not in problem


def test_a_worker_that_was_started_after_some_rounds_has_rows(layout: Layout) -> None:
    append_events(layout, "dora", make_event("node.starting", START))
    starts(layout, "dora")
    starts(layout, "dora", rounds_done=2)
    assert "started with 2 rounds behind it" in failed(check(layout))[STARTED][0]


def test_a_run_that_goes_on_may_have_fewer_rounds_and_workers_that_have_just_come(layout: Layout) -> None:
    says_expected(layout, 2)
    layout.metrics_file("bob").unlink()
    for prefix in (keys.REWARDS, keys.ROLLOUTS):
        for file in (layout.root / prefix).rglob("bob.json"):
            file.unlink()
    assert COUNT not in failed(check(layout, partial=True, nodes=2, rounds=3))
    assert COUNT in failed(check(layout, nodes=2))
