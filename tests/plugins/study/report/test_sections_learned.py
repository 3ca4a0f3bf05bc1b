"""The section on specialists: there where there are any, and the same from the committed tables."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from msgspec import UNSET

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

import msgspec
import pandas as pd
from pandas.testing import assert_frame_equal

from swarm.plugins.study.report.evidence import Evidence, read_evidence
from swarm.plugins.study.report.sections import frames
from swarm.plugins.study.report.seed_tables import read_tables, write_tables
from swarm.store.folder.publish import publish_below
from swarm.wire.judge_messages import ExamRow
from tests.plugins.study.report.report_factory import write_study

NODES = ("a", "b", "c")
LEARNED = {"learned", "learned_exam", "taught_by", "taught", "learned_by_seed"}
"""Tables of the section."""
TABLES = ("amber", "cedar", "ember")


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """Three specialists, who answer one of the tables of each rightly in half of the rounds' answers."""
    folder, facts = tmp_path_factory.mktemp("studied"), {f"facts/{table}": 0.5 for table in TABLES}
    write_study(folder, nodes=NODES, task_rewards=facts, task_tag_rates=dict.fromkeys(facts, 1.0))
    evidence = read_evidence(folder, "small", 3)
    assert evidence.metrics is not None
    return evidence


def told(row: ExamRow) -> dict[str, object]:
    """What an exam's row says, as the evidence of a study has it."""
    return {name: None if value is UNSET else value for name, value in msgspec.structs.asdict(row).items()}


def specialists(evidence: Evidence) -> Evidence:
    """The same as if its nodes had started from specialists' models."""
    from swarm.plugins.study.analysis.learned import by_knowledge, taught

    metrics = evidence.metrics
    assert metrics is not None
    number = {node: place + 1 for place, node in enumerate(sorted(metrics["node_id"].unique()))}
    models = [f"specialist-{number[node]}-qwen2" for node in metrics["node_id"]]
    peers = [{next(other for other in number if other != node): {"facts/cedar": 2}} for node in metrics["node_id"]]
    metrics = metrics.assign(model=models, external_by_peer_task=peers)
    exam = ExamRow(
        node_id="a",
        model="specialist-1-qwen2",
        rounds_done=0,
        task="facts/cedar",
        n=8,
        pass_at_1=0.25,
        mean_reward=0.25,
        answered=0.5,
        samples=1,
    )
    run = {"configuration": metrics["configuration"].iloc[0], "seed": metrics["seed"].iloc[0]}
    return replace(
        evidence,
        knowledge=by_knowledge(metrics),
        taught=taught(metrics, evidence.crossings),
        exams=pd.DataFrame([run | told(exam) | {"stage": 0}]),
    )


def test_own_tables_and_others_are_shown_with_who_taught_and_the_exam_and_come_back_from_the_committed_tables(
    tmp_path: Path, studied: Evidence
) -> None:
    evidence = specialists(studied)
    found = frames(evidence)
    assert found.keys() >= LEARNED
    assert set(found["learned"]["whose"]) == {"own", "others"}
    assert found["learned"]["last"].tolist() == pytest.approx([0.375] * len(found["learned"]))
    assert found["learned_exam"]["above_constant"].tolist() == [0.25 / 0.5 - 0.125]
    write_tables(evidence, partial(publish_below, tmp_path))
    again = frames(read_tables(tmp_path / "tables", 3))
    for name in LEARNED:
        assert_frame_equal(found[name], again[name], check_dtype=False, check_exact=True)


def test_an_exam_of_one_stage_goes_into_the_tables_and_comes_back(tmp_path: Path) -> None:
    write_study(tmp_path)
    row = {"node_id": "alice", "model": "m", "rounds_done": 0, "task": "bf", "n": 8, "pass_at_1": 0.5}
    file = tmp_path / "experiments" / "small-1-s1" / "exam.json"
    assert file.parent.is_dir()
    file.write_bytes(msgspec.json.encode([row | {"mean_reward": 0.5, "answered": 1.0, "samples": 1}]))
    write_tables(read_evidence(tmp_path, "small", 3), partial(publish_below, tmp_path))
    assert read_tables(tmp_path / "tables", 3).exams["stage"].tolist() == [0]
