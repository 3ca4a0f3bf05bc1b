"""`swarm inspect`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swarm.cli.main import run
from swarm.tasks.family import QuestionRequest
from swarm.tasks.gym.family import GYM
from swarm.types import Origin, RoundKey
from swarm.wire.messages import GroupInfo, RolloutEntry
from tests.layout import Layout
from tests.unit.views.factories import make_experiment, make_rollouts, write


def look(layout: Layout, *arguments: str) -> int:
    return run(["inspect", *arguments, "--path", str(layout.path), "--experiment", "exp"])


def test_scoring_again_gives_this_machines_rewards_beside_the_claims(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = make_experiment(tmp_path)
    question = GYM.behaviour().make(QuestionRequest.named("calendar_arithmetic", "tiny", 1).origin(GYM.version))
    assert question.answer
    answers = (f"<answer>{question.answer}</answer>", "<answer>none</answer>")
    entries = [RolloutEntry(prompt=question.prompt, response=text, reward=0.5) for text in answers]
    groups = {"0": GroupInfo(task="calendar_arithmetic", origin=question.origin)}
    file = make_rollouts("alice", RoundKey(2), groups=groups, rollouts={"0": entries})
    write(layout.rollout_file(RoundKey(2), "alice"), file)
    assert look(layout, "--score", "--node", "alice", "-o", "json") == 0
    completions = json.loads(capsys.readouterr().out)["groups"][0]["completions"]
    assert [c["claimed_reward"] for c in completions] == [0.5, 0.5]
    assert completions[0]["scored_reward"] == 1.0 > completions[1]["scored_reward"]


def test_what_cannot_be_scored_again_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = make_experiment(tmp_path)
    origin = Origin(task="basic_arithmetic", profile="nowhere", seed=1, index=2, version="0.0.0")
    groups = {"0": GroupInfo(task="basic_arithmetic", origin=origin), "1": GroupInfo(task="basic_arithmetic")}
    two = make_rollouts("alice", RoundKey(2)).rollouts["0"]
    file = make_rollouts("alice", RoundKey(2), groups=groups, rollouts={"0": two, "1": two})
    write(layout.rollout_file(RoundKey(2), "alice"), file)
    assert look(layout, "--score", "--node", "alice") == 0
    text = capsys.readouterr().out
    assert "not scored here" in text
    assert "does not say where its question comes from" in text
