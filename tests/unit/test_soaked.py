"""What a soak says of its measures."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.soaked import COST, MIB, Measures, Node, drifts, quarters

FULL = {"rss": 50 * MIB, "descriptors": 12, "watches": 30, "threads": 6, "cpu": 0.0}


def run(*, rounds: int = 4000, every: int = 20, pids: int = 1, **growing: float) -> list[Measures]:
    """A node whose figures grow by so much a round, on top of 50 ms of processor a round, in so many lives."""
    found = []
    for round_ in range(0, rounds + 1, every):
        figures: dict[str, Any] = {name: value + growing.get(name, 0) * round_ for name, value in FULL.items()}
        figures["cpu"] = 0.05 * round_ + growing.get("cpu", 0) * round_**2
        ints = {name: int(value) if name != "cpu" else value for name, value in figures.items()}
        pid = 1 + round_ * pids // (rounds + 1)
        files = {"rewards": 2 * round_, "state": 1, "rollouts": 10 + int(growing.get("files", 0) * round_)}
        found.append(Measures(round_, round_ / 5, {"anna": Node(pid, **ints)}, files, {"metrics.jsonl": 4000 * round_}))
    return found


def test_a_steady_run_drifts_nowhere_and_its_pace_and_cost_are_told() -> None:
    found = quarters(run())
    assert drifts(found) == []
    assert [quarter.pace for quarter in found] == pytest.approx([5.0] * 4)
    assert [quarter.nodes["anna"][COST] for quarter in found] == pytest.approx([0.05] * 4)


@pytest.mark.parametrize(
    ("what", "a_round", "said"),
    [
        ("rss", 10_000, "memory"),
        ("descriptors", 0.01, "descriptors"),
        ("watches", 0.05, "watched folders"),
        ("threads", 0.01, "threads"),
        ("cpu", 1e-5, "processor time per round"),
        ("files", 0.5, "rollouts"),
    ],
)
def test_what_grows_from_quarter_to_quarter_is_named(what: str, a_round: float, said: str) -> None:
    found = drifts(quarters(run(**{what: a_round})))
    assert found
    assert all(said in problem for problem in found)


def test_what_a_new_process_loads_is_no_drift() -> None:
    found = quarters(run(pids=4))
    assert drifts(found) == []
    assert sum(quarter.processes for quarter in found) >= 4
