"""What a report says of specialists, and that the committed tables say the same."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

import msgspec
from pandas.testing import assert_frame_equal

from swarm.plugins.study.report.evidence import read_evidence
from swarm.plugins.study.report.seed_tables import read_tables, write_tables
from swarm.plugins.study.report.write import tables
from swarm.store.folder.publish import publish_below
from tests.plugins.study.report.report_factory import write_study

NODES = ("a", "b", "c")
TABLES = ("amber", "cedar", "ember")
EXAM = {"node_id": "a", "model": "specialist-1-qwen2", "rounds_done": 0, "task": "facts/cedar", "n": 8, "samples": 1}


def specialists(folder: Path) -> None:
    """Three nodes, each of which knows one of the tables, and answers all of them rightly in half of its answers."""
    facts = {f"facts/{table}": 0.5 for table in TABLES}
    groups = {"external_by_peer_task": {"b": {"facts/cedar": 2}}}
    write_study(folder, nodes=NODES, task_rewards=facts, task_tag_rates=dict.fromkeys(facts, 1.0), **groups)
    for number, node in enumerate(NODES, 1):
        for file in folder.glob(f"experiments/*/logs/{node}/metrics.jsonl"):
            file.write_bytes(file.read_bytes().replace(b"tiny-qwen2", b"specialist-%d-qwen2" % number))
    exam = EXAM | {"pass_at_1": 0.25, "mean_reward": 0.25, "answered": 0.5}
    (folder / "experiments" / "small-1-s1" / "exam.json").write_bytes(msgspec.json.encode([exam]))


def test_own_tables_and_others_who_taught_and_the_exam_come_back_from_the_committed_tables(tmp_path: Path) -> None:
    specialists(tmp_path)
    evidence = read_evidence(tmp_path, "small", 3)
    found = tables(evidence)
    assert set(found["learned"]["whose"]) == {"own", "others"}
    assert found["learned"]["last"].tolist() == pytest.approx([0.375] * len(found["learned"]))
    assert found["learned_exam"]["above_constant"].tolist() == [0.25 / 0.5 - 0.125]
    assert (found["taught_by"]["share"] == 1).all()
    write_tables(evidence, partial(publish_below, tmp_path))
    read = read_tables(tmp_path / "tables", 3)
    assert read.exams["stage"].tolist() == [0]
    again = tables(read)
    for name in ("learned", "learned_exam", "taught_by"):
        assert_frame_equal(found[name], again[name], check_dtype=False, check_exact=True)
