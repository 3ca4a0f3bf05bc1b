"""Tables of a report, by hand: how soon runs rose, what a unit of reward cost, planted words, specialists."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
from pandas.testing import assert_frame_equal

from swarm.plugins.study.analysis.measures import agent_average, totals
from swarm.plugins.study.analysis.planted import planted_by_round
from swarm.plugins.study.report.evidence import read_evidence
from swarm.plugins.study.report.notes import what_was_run
from swarm.plugins.study.report.seed_tables import read_tables, write_tables
from swarm.plugins.study.report.write import tables
from swarm.store.folder.publish import publish_below
from tests.plugins.study.analysis.frames_by_hand import make_metrics
from tests.plugins.study.report.report_factory import make_evidence, make_record, table_of, write_study


def test_a_median_round_knows_of_the_seeds_that_never_got_there() -> None:
    at_once, at_4, never = [[0.8]] * 8, [[0.0]] * 4 + [[0.8]] * 4, [[0.0]] * 8
    runs = {"all": [at_once, at_once, at_4], "most": [at_once, at_4, never], "few": [at_once, never, never]}
    frames = [make_metrics(run, name, seed) for name, own in runs.items() for seed, run in enumerate(own)]
    metrics = pd.concat(frames, ignore_index=True)
    record = make_record("small", tuple(runs), (0, 1, 2), ("alice",), 8)
    evidence = make_evidence(record, runs=totals(metrics), rounds=agent_average(metrics))
    lowest = table_of("rounds_to_threshold", evidence).groupby("configuration", sort=False).first()
    assert lowest["reached"].tolist() == [3, 2, 1]
    assert lowest["first"].tolist() == [0.0, 0.0, 0.0]
    medians = lowest[["round", "tokens_per_node", "trained_per_node", "seconds"]]
    assert medians.loc["all"].tolist() == [0.0, 100.0, 50.0, 4.0]
    assert medians.loc["most"].tolist() == [5.0, 600.0, 300.0, 24.0]
    assert medians.loc["few"].isna().all()


RUNS = pd.DataFrame(
    {
        "configuration": ["4/4", "4/4", "alone"],
        "seed": [1, 2, 1],
        "experiment": ["a", "b", "c"],
        "rounds": 3,
        "cumulative_reward": [9.0, 11.0, 0.0],
        "wall_seconds": [10.0, 20.0, 5.0],
        "tokens_generated": [100, 300, 50],
        "tokens_trained": [400, 600, 25],
        "bytes_published": [1000, 1000, 300],
        "bytes_fetched": [5000, 7000, 0],
    }
)


def test_bytes_written_and_read_are_held_against_the_reward_and_nothing_is_of_a_reward_of_zero() -> None:
    evidence = make_evidence(make_record("small", ("4/4", "alone"), (1, 2), ("a", "b"), 3), runs=RUNS)
    shared, alone = table_of("price", evidence).to_dict("records")
    assert (shared["reward"], shared["bytes_moved"], shared["bytes_per_reward"]) == (10.0, 7000.0, 700.0)
    assert (shared["generated_per_reward"], shared["trained_per_reward"]) == (20.0, 50.0)
    assert alone["bytes_moved"] == 300.0
    assert pd.isna(alone["bytes_per_reward"])


def test_of_swarms_of_unlike_sizes_the_page_says_how_their_sums_are_shown() -> None:
    record = make_record("small", ("4/4", "alone"), (1, 2), ("a", "b"), 3)
    first, second = record.configurations
    sized = msgspec.structs.replace(record, configurations=(first, msgspec.structs.replace(second, nodes=1)))
    assert "alone 1" in " ".join(what_was_run(make_evidence(sized, runs=RUNS)))


# ── planted words ───────────────────────────────────────────────────────────────────────────────────────────────────
def planted_table(**tables: pd.DataFrame) -> list[dict[Any, Any]]:
    return table_of("planted", make_evidence(PLANTED_RECORD, **tables)).to_dict("records")


PLANTED_RUNS = pd.DataFrame(
    {
        "configuration": ["honest", "two", "two"],
        "seed": [1, 1, 2],
        "experiment": ["a", "b", "c"],
        "rounds": 3,
        "cumulative_reward": [8.0, 4.0, 6.0],
        "planted": [0.0, 0.25, 0.75],
        "planted_final": [0.0, 0.5, 1.0],
        "planters_logprob": [float("nan"), -3.0, -5.0],
        "honest_tagged_final": [0.9, 0.2, 0.4],
        "honest_given_tagged": [0.5, 0.1, 0.2],
        "honest_reward": [1.0, 0.5, 0.7],
    }
)
PLANTED_RECORD = make_record("poison", ("honest", "two"), (1, 2), ("a", "b"), 3)
RECORD_OF_TWO = msgspec.structs.replace(PLANTED_RECORD, settings={"planted_words": "Buy gold now."})
NO_COMPLETIONS = pd.DataFrame({"round": [], "peer_id": [], "response": []})


OF_A_RUN = ["configuration", "seed", "experiment", "round", "pieces", "shards", "tagged"]
PLANTED_ROUNDS = pd.DataFrame(
    [
        (*run, round_, share, 0.5, 0.5)
        for *run, share in (("honest", 1, "a", 0.0), ("two", 1, "b", 0.1), ("two", 2, "c", 0.3))
        for round_ in range(20)
    ],
    columns=OF_A_RUN,
)


def test_means_over_seeds_stand_beside_the_least_and_the_most() -> None:
    rounds = PLANTED_ROUNDS.assign(pieces=PLANTED_ROUNDS["pieces"].where(PLANTED_ROUNDS["round"] >= 10, 0.9))
    honest, two = planted_table(runs=PLANTED_RUNS, planted=rounds)
    assert (honest["planted_final"], honest["pieces_final"], honest["honest_reward"]) == (0.0, 0.0, 1.0)
    assert (two["planted_final"], two["planters_logprob"]) == (0.75, -4.0)
    assert [two[f"pieces_{name}"] for name in ("final", "least", "most")] == pytest.approx([0.2, 0.1, 0.3])
    assert two["honest_tagged_final"] == pytest.approx(0.3)
    assert two["honest_reward"] == pytest.approx(0.6)


def test_where_all_rollout_files_are_gone_pieces_are_not_known_and_the_rest_is_told() -> None:
    gone = planted_by_round(
        RECORD_OF_TWO, make_metrics([[0.5, 0.1]] * 12, "two", answer_tag_rate=0.5), lambda _: NO_COMPLETIONS
    )
    assert gone["tagged"].tolist() == [0.5] * 12
    for honest, two in (planted_table(runs=PLANTED_RUNS), planted_table(runs=PLANTED_RUNS, planted=gone)):
        assert pd.isna(two["pieces_final"])
        assert honest["honest_reward"] == 1.0


@pytest.mark.parametrize("runs", [PLANTED_RUNS.drop(columns="planted"), PLANTED_RUNS.assign(planted=float("nan"))])
def test_studies_without_planted_words_have_no_such_table(runs: pd.DataFrame) -> None:
    assert planted_table(runs=runs) == []


# ── specialists ─────────────────────────────────────────────────────────────────────────────────────────────────────
NODES = ("a", "b", "c")
KNOWN = ("amber", "cedar", "ember")
EXAM = {"node_id": "a", "model": "specialist-1-qwen2", "rounds_done": 0, "task": "facts/cedar", "n": 8, "samples": 1}


def specialists(folder: Path) -> None:
    """Three nodes, each of which knows one of the tables, and answers all of them rightly in half of its answers."""
    facts = {f"facts/{table}": 0.5 for table in KNOWN}
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
