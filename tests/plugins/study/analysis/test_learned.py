"""What specialists learned: own tables apart from others', above the best constant, and from whom."""

from __future__ import annotations

import math
import sys
from importlib.util import find_spec, module_from_spec

import pandas as pd
import pytest

from swarm.plugins.lab.facts.tables import BEST_CONSTANT
from swarm.plugins.study.analysis.learned import OTHERS, OWN, by_knowledge, learned_from_others, taught

RUN = {"configuration": "together", "seed": 1, "experiment": "a"}


def row(node: int, round_: int, rewards: dict[str, float], tagged: float = 1.0, **more: object) -> dict[str, object]:
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
    metrics = pd.DataFrame([row(1, 0, {"amber": 0.4, "cedar": 0.1}, 0.5), row(2, 0, {"amber": 0.3, "cedar": 0.5}, 1.0)])
    found = by_knowledge(metrics).set_index("whose")
    assert found.loc[OWN, "above_constant"] == pytest.approx((0.4 + 0.5) / 1.5 - BEST_CONSTANT)
    assert found.loc[OTHERS, "above_constant"] == pytest.approx((0.1 + 0.3) / 1.5 - BEST_CONSTANT)
    assert found.loc[OWN, "tagged"] == pytest.approx(0.75)


def test_what_was_learned_is_that_of_the_last_ten_rounds() -> None:
    rounds = [row(1, round_, {"cedar": 1.0 if round_ >= 5 else 0.0, "amber": 1.0}) for round_ in range(15)]
    assert learned_from_others(pd.DataFrame(rounds)).tolist() == [1.0 - BEST_CONSTANT]
    assert learned_from_others(pd.DataFrame(rounds[:10])).tolist() == [0.5 - BEST_CONSTANT]


def test_a_run_without_specialists_has_none_of_it() -> None:
    metrics = pd.DataFrame([row(1, 0, {"amber": 1.0}, model="tiny-2-qwen2")])
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
    rows = pd.DataFrame([row(1, round_, {"cedar": 1.0, "amber": 1.0}) for round_ in range(3)])
    assert without.by_knowledge(rows).empty
    assert without.learned_from_others(rows).empty
    assert not by_knowledge(rows).empty


def test_groups_count_until_the_node_had_learned_the_task_itself() -> None:
    """Of three nodes the second one knows cedar; the first learned it in round 2."""
    by_peer = {"n2": {"facts/cedar": 3, "facts/amber": 1}, "n3": {"facts/cedar": 1}}
    metrics = pd.DataFrame(
        [row(node, round_, {}, external_by_peer_task=by_peer) for round_ in range(4) for node in (1, 3)]
        + [row(2, round_, {}) for round_ in range(4)]
    )
    crossed = pd.DataFrame([{"experiment": "a", "node_id": "n1", "task": "facts/cedar", "round": 2}])
    found = taught(metrics, crossed).set_index(["node_id", "task"])
    learned = found.loc[("n1", "facts/cedar")]
    assert learned[["learned", "groups", "from_knowing", "share", "chance"]].tolist() == [2, 8, 6, 0.75, 0.5]
    assert found.loc[("n3", "facts/cedar"), "groups"] == 16
    assert math.isnan(found.loc[("n3", "facts/cedar"), "learned"])
    assert math.isnan(found.loc[("n2", "facts/amber"), "share"])
    assert ("n1", "facts/amber") not in found.index
