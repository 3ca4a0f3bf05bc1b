"""Aha moments: the first sustained crossing, the lag behind the first node, and whose groups came before it."""

from __future__ import annotations

import math
import sys
from importlib.util import find_spec, module_from_spec

import pandas as pd
import pytest

from swarm.plugins.lab.facts.tables import BEST_CONSTANT
from swarm.plugins.study.analysis.learned import OTHERS, OWN, by_knowledge, learned_from_others, taught
from swarm.plugins.study.analysis.propagation import (
    crossings,
    first_sustained,
    learners,
    meetings,
)
from tests.plugins.study.analysis.frames_by_hand import make_metrics, make_task_rows

LATE, LATER = [0.0] * 3 + [1.0] * 12, [0.0] * 6 + [1.0] * 9
"""Meetings whose trailing mean of three is at least 0.5 from the fifth, and from the eighth on."""


def place(rewards: list[float], sustained: int = 2) -> int | None:
    return first_sustained(pd.Series(rewards), threshold=0.5, window=2, sustained=sustained)


@pytest.mark.parametrize(
    ("rewards", "crossed"),
    [
        ([0.0, 0.0, 1.0, 1.0, 1.0], 2),  # means 0, 0.5, 1, 1 from the second meeting on
        ([0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0], 4),  # a high mean that does not last
        ([1.0, 1.0, 1.0, 1.0], 1),  # the first full window
        ([0.0, 0.0, 1.0, 1.0], None),  # too short to show it
        ([1.0], None),
        ([], None),
    ],
)
def test_it_crosses_where_the_mean_reaches_the_threshold_and_stays(rewards: list[float], crossed: int | None) -> None:
    assert place(rewards) == crossed


def test_a_meeting_is_a_round_in_which_the_node_had_the_task() -> None:
    rows = make_metrics([[0.1], [0.2]]).assign(task_rewards=[{"sums": 0.5, "bits": 1.0}, {"bits": 0.0}])
    found = meetings(rows)[["task", "node_id", "round", "reward"]].to_numpy().tolist()
    assert found == [["bits", "alice", 0, 1.0], ["bits", "alice", 1, 0.0], ["sums", "alice", 0, 0.5]]


def test_the_lag_is_in_rounds_though_the_crossing_is_judged_by_meetings() -> None:
    found = crossings(make_task_rows({"bob": LATER, "alice": LATE, "carol": [0.0] * 15}, every=3))
    assert found[["node_id", "round", "lag"]].to_numpy().tolist() == [["alice", 12, 0], ["bob", 21, 9]]
    assert not found["from_start"].any()


def test_a_node_that_knew_the_task_is_marked_and_is_no_learner_though_it_came_late() -> None:
    rows = make_task_rows({"alice": LATE, "bob": [1.0] * 15})
    found = crossings(rows).set_index("node_id")
    assert found.loc["bob", ["round", "from_start", "lag"]].tolist() == [2, True, 0]
    assert learners(rows, crossings(rows))["node_id"].tolist() == ["alice"]
    rows = pd.concat([make_task_rows({"alice": LATE}), make_task_rows({"bob": [1.0] * 15}, every=3)], ignore_index=True)
    crossed = crossings(rows)
    assert crossed[["node_id", "lag", "from_start"]].to_numpy().tolist() == [["alice", 0, False], ["bob", 2, True]]
    assert learners(rows, crossed).empty
    nobody = make_task_rows({"alice": [0.0] * 15})
    assert crossings(nobody).empty
    assert learners(nobody, crossings(nobody)).empty


def test_tasks_and_runs_have_their_own_first_nodes() -> None:
    rows = pd.concat(
        [
            make_task_rows({"alice": LATE}, "sums"),
            make_task_rows({"bob": LATER}, "bits"),
            make_task_rows({"bob": LATER}, "sums", seed=2),
        ],
        ignore_index=True,
    )
    assert crossings(rows)["lag"].tolist() == [0, 0, 0]


def as_taught(**groups: int) -> pd.DataFrame:
    """alice crosses in round 4; bob in round 7, after seven rounds with as many groups of each peer; carol never."""
    rows = make_task_rows({"alice": LATE, "bob": LATER, "carol": [0.0] * 15})
    by_task = {peer: {"sums": number, "bits": 1} for peer, number in groups.items()}
    return rows.assign(external_by_peer_task=[by_task] * len(rows))


def test_groups_on_the_task_itself_are_counted() -> None:
    rows = as_taught(alice=2, carol=1)
    (found,) = learners(rows, crossings(rows)).to_dict("records")
    assert (found["node_id"], found["round"], found["lag"], found["earlier"]) == ("bob", 7, 3, 1)
    assert (found["groups"], found["from_earlier"]) == (21, 14)
    assert (found["share"], found["chance"]) == (pytest.approx(2 / 3), 0.5)
    together = make_task_rows({"alice": LATE, "bob": LATER, "carol": LATER})
    both = learners(together, crossings(together))
    assert both[["node_id", "earlier"]].to_numpy().tolist() == [["bob", 1], ["carol", 1]], "not from each other"


# ── specialists ─────────────────────────────────────────────────────────────────────────────────────────────────────
RUN = {"configuration": "together", "seed": 1, "experiment": "a"}


def row_of(node: int, round_: int, rewards: dict[str, float], tagged: float = 1.0, **more: object) -> dict[str, object]:
    return {
        **RUN,
        "node_id": f"n{node}",
        "round": round_,
        "model": f"specialist-{node}-qwen2",
        "task_rewards": {f"facts/{table}": reward for table, reward in rewards.items()},
        "task_tag_rates": {f"facts/{table}": tagged for table in rewards},
        "external_by_peer_task": {},
        **more,
    }


def test_own_tables_and_those_of_others_are_told_apart_and_held_against_the_best_constant() -> None:
    metrics = pd.DataFrame(
        [row_of(1, 0, {"amber": 0.4, "cedar": 0.1}, 0.5), row_of(2, 0, {"amber": 0.3, "cedar": 0.5}, 1.0)]
    )
    found = by_knowledge(metrics).set_index("whose")
    assert found.loc[OWN, "above_constant"] == pytest.approx((0.4 + 0.5) / 1.5 - BEST_CONSTANT)
    assert found.loc[OTHERS, "above_constant"] == pytest.approx((0.1 + 0.3) / 1.5 - BEST_CONSTANT)
    assert found.loc[OWN, "tagged"] == pytest.approx(0.75)


def test_what_was_learned_is_that_of_the_last_ten_rounds() -> None:
    rounds = [row_of(1, round_, {"cedar": 1.0 if round_ >= 5 else 0.0, "amber": 1.0}) for round_ in range(15)]
    assert learned_from_others(pd.DataFrame(rounds)).tolist() == [1.0 - BEST_CONSTANT]
    assert learned_from_others(pd.DataFrame(rounds[:10])).tolist() == [0.5 - BEST_CONSTANT]


def test_a_run_without_specialists_has_none_of_it() -> None:
    metrics = pd.DataFrame([row_of(1, 0, {"amber": 1.0}, model="tiny-2-qwen2")])
    assert learned_from_others(metrics).empty
    assert by_knowledge(metrics).empty
    nobody = taught(metrics, pd.DataFrame(columns=["experiment", "node_id", "task", "round"]))
    assert nobody.empty


def test_a_study_is_read_without_the_lab_as_one_of_no_specialists(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("swarm.plugins.lab")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "swarm.plugins.lab", None)
    spec = find_spec(by_knowledge.__module__)
    assert spec
    assert spec.loader
    without = module_from_spec(spec)
    spec.loader.exec_module(without)
    rows = pd.DataFrame([row_of(1, round_, {"cedar": 1.0, "amber": 1.0}) for round_ in range(3)])
    assert without.by_knowledge(rows).empty
    assert without.learned_from_others(rows).empty
    assert not by_knowledge(rows).empty


def test_groups_count_until_the_node_had_learned_the_task_itself() -> None:
    """Of three nodes the second one knows cedar; the first learned it in round 2."""
    by_peer = {"n2": {"facts/cedar": 3, "facts/amber": 1}, "n3": {"facts/cedar": 1}}
    metrics = pd.DataFrame(
        [row_of(node, round_, {}, external_by_peer_task=by_peer) for round_ in range(4) for node in (1, 3)]
        + [row_of(2, round_, {}) for round_ in range(4)]
    )
    crossed = pd.DataFrame([{"experiment": "a", "node_id": "n1", "task": "facts/cedar", "round": 2}])
    found = taught(metrics, crossed).set_index(["node_id", "task"])
    learned = found.loc[("n1", "facts/cedar")]
    assert learned[["learned", "groups", "from_knowing", "share", "chance"]].tolist() == [2, 8, 6, 0.75, 0.5]
    assert found.loc[("n3", "facts/cedar"), "groups"] == 16
    assert math.isnan(found.loc[("n3", "facts/cedar"), "learned"])
    assert math.isnan(found.loc[("n2", "facts/amber"), "share"])
    assert ("n1", "facts/amber") not in found.index
