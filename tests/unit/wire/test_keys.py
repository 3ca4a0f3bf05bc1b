"""Paths are those of the documented tree, and only safe names are names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.keys import (
    group_file_of,
    is_node_id,
    node_of,
    nodes_by_name,
    owner_of,
    published_in,
    round_of,
    stage_of,
)
from tests.layout import Layout

LAYOUT = Layout(Path("/shared"), "demo")
KEY = RoundKey(17, 2)

PATHS = {
    LAYOUT.experiment_file: "experiment.json",
    LAYOUT.state_file: "state/current_state.json",
    LAYOUT.peer_file("anna"): "peers/anna.json",
    LAYOUT.rollout_file(KEY, "anna"): "rollouts/round_17/stage_2/anna.json",
    LAYOUT.group_file(KEY, "anna", 3): "rollouts/round_17/stage_2/anna.3.json",
    LAYOUT.reward_file(KEY, "anna"): "rewards/round_17/stage_2/anna.json",
    LAYOUT.winners_file(17, "anna"): "winners/round_17/anna.json",
    LAYOUT.judge_question_file(17, "anna"): "judge/questions/round_17/anna.json",
    LAYOUT.judge_answer_file(17, "anna"): "judge/answers/round_17/anna.json",
    LAYOUT.judge_file: "logs/judge/judge.jsonl",
    LAYOUT.exam_file: "exam.json",
    LAYOUT.checkpoint(18, "anna"): "checkpoints/round_18/anna",
    LAYOUT.metrics_file("anna"): "logs/anna/metrics.jsonl",
    LAYOUT.events_file("anna"): "logs/anna/training_events.jsonl",
    LAYOUT.stdout_file("anna"): "logs/anna/stdout.log",
    LAYOUT.temporary("anna"): ".tmp/anna",
}


def test_paths_are_those_of_the_documented_tree() -> None:
    assert {path: str(path.relative_to("/shared/experiments/demo")) for path in PATHS} == PATHS


def test_temporary_names_never_end_in_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(tmp_path, "demo")
    half: list[str] = []
    rename = os.replace

    def look_and_rename(*names: str, **folders: int) -> None:
        half.extend(os.listdir(layout.temporary("anna")))
        rename(*names, **folders)

    monkeypatch.setattr(os, "replace", look_and_rename)
    layout.put(layout.peer_file("anna"), b"{}", "anna")
    assert len(half) == 1
    assert not half[0].endswith(".json")
    assert node_of(half[0]) is None


def test_node_ids_of_safe_letters_are_node_ids() -> None:
    for text in ("anna", "worker-0", "A", "0", "a.b_c-d", "a" * 64, "x..y", "json"):
        assert (is_node_id(text), node_of(f"{text}.json")) == (True, text)


UNSAFE = [
    "", ".", "..", "../anna", "a/b", "/anna", ".anna", "-anna", "_anna", "anna.", "anna.json", "a" * 65, "anna\n",
    "a b", "ännä", "a\\b", "a\x00b", "anna\u202e", "anna.sync-conflict-20260101-120000-ABCDEFG",
    "anna (conflicted copy)", "anna (1)", "~anna", "١",
]  # fmt: skip


OTHER_FILES = ["anna", "anna.tmp", "anna.JSON", "anna.json.tmp", ".json", "json", ".syncthing.anna.json.tmp"]


def test_what_is_unsafe_as_a_file_name_is_no_node_id_and_other_files_speak_for_nobody() -> None:
    assert [text for text in UNSAFE if is_node_id(text) or node_of(f"{text}.json")] == []
    assert [name for name in OTHER_FILES if node_of(name)] == []


@given(st.text(max_size=70))
def test_no_node_id_leads_out_of_its_folder(text: str) -> None:
    if is_node_id(text):
        assert LAYOUT.peer_file(text).resolve().parent == LAYOUT.peers
        assert LAYOUT.temporary(text).resolve().parent == LAYOUT.root / ".tmp"
        assert node_of(LAYOUT.peer_file(text).name) == text


@given(st.integers(0, 999_999_999))
def test_round_folders_give_their_number_back(number: int) -> None:
    assert round_of(LAYOUT.winners_of(number).name) == number
    assert stage_of(LAYOUT.rollouts_of(RoundKey(0, number)).name) == number


def test_a_file_of_the_archive_names_its_round_and_no_other_file_does() -> None:
    named = keys.archived(17, "0123456789abcdef").rpartition("/")[2]
    assert keys.archived_round(named) == 17
    for other in (f"{named}.json", named.replace("17", ""), named.replace("17", "017"), named[:-8], "round_17"):
        assert keys.archived_round(other) is None


def test_what_is_no_plain_number_is_no_round_and_no_stage() -> None:
    for number in ("01", "-1", "x", "", "1.0", "1 ", "+1", "1e3", "١", "1\n", "1234567890", "1.tmp"):
        assert (round_of(f"round_{number}"), stage_of(f"stage_{number}")) == (None, None), number
    assert (round_of("stage_1"), stage_of("round_1"), round_of("xround_1")) == (None, None, None)


def test_a_file_of_one_group_is_its_nodes_and_tells_of_no_node_called_like_it() -> None:
    key = "rollouts/round_17/stage_2/anna-1.b.3.json"
    assert group_file_of(key) == (KEY, "anna-1.b")
    assert owner_of(key) == "anna-1.b"
    assert published_in(key) == (KEY, "anna-1.b")
    assert nodes_by_name("rollouts/round_17/stage_2")("anna-1.b.3.json") is None
    assert nodes_by_name("peers")("qwen2.5.json") == "qwen2.5"


def test_other_names_beside_them_are_those_of_whole_files_and_outside_of_a_stage_there_are_none() -> None:
    for name in ("anna.03.json", "anna.-1.json", "anna.1000000.json", "anna.3b.json", "anna.json"):
        assert group_file_of(f"rollouts/round_17/stage_2/{name}") is None
        assert published_in(f"rollouts/round_17/stage_2/{name}") == (KEY, name.removesuffix(".json"))
    for folders in ("round_x/stage_2", "round_17/x", "round_17/stage_x"):
        assert group_file_of(f"rollouts/{folders}/anna.3.json") is None


SHA = "0f" * 32
WRITERS = {
    keys.STATE: keys.COORDINATOR,
    keys.EXAM: keys.EXAMINER,
    keys.JUDGE_QUESTIONS + "/round_1/anna.json": keys.JUDGE,
    f"tasks/{SHA}": keys.ANYBODY,
    "tasks/mine": None,
    f"tasks/{SHA}/more": None,
    keys.metrics("anna"): "anna",
    keys.checkpoint(1, "anna"): "anna",
    keys.checkpoint(1, "anna") + "/state.json": "anna",
    "logs/.anna/x": None,
    "checkpoints/round_x/anna/state.json": None,
    "checkpoints/round_1/.anna/state.json": None,
    keys.weights(1, "anna"): "anna",
    "weights/round_x/anna.safetensors": None,
    "weights/round_1/anna.json": None,
    "weights/anna.safetensors": None,
    "weights/round_1/.anna.safetensors": None,
    keys.completions(1, "anna"): "anna",
    keys.completions(1, "anna", 2): "anna",
    "completions/round_1/x/anna.json": None,
    "completions/anna.json": None,
    keys.rollout(KEY, "anna"): "anna",
    "rollouts/round_1/anna.json": None,
    "rollouts/round_1/0/1/anna.json": None,
    keys.reward(KEY, "anna"): "anna",
    keys.winners(1, "anna"): "anna",
    keys.peer("anna"): "anna",
    "elsewhere": None,
}


def test_each_key_has_its_writer_and_what_is_no_key_has_none() -> None:
    assert {key: owner_of(key) for key in WRITERS} == WRITERS
