"""One question to a model, and a few of each task: with a real, embedded one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swarm.algo.seeds import HELD_OUT_SEEDS
from swarm.cli.main import run
from swarm.judge.asked import why
from swarm.tasks.scoring import GroupScore
from swarm.types import Question
from tests.layout import Layout
from tests.unit.cli.test_joining import begin

SHORT = ["--model", "tiny-2-qwen2-content", "--device", "cpu", "--max-new-tokens", "24"]


def score(reward: float = 0.0, *, answered: bool = True, killed: int = 0, errors: int = 0) -> GroupScore:
    return GroupScore(Question("?", None), (reward,), (answered,), killed, errors)


@pytest.mark.parametrize(
    ("text", "scored", "said"),
    [
        ("4", score(answered=False), "no closed"),
        (f"<answer>{'4' * 2001}</answer>", score(), "longer than 2000"),
        ("<answer>4</answer>", score(killed=1), "killed"),
        ("<answer>4</answer>", score(errors=1), "raised"),
        ("<answer>4</answer>", score(0.3), "said 0.3"),
    ],
)
def test_a_score_comes_with_its_reason(text: str, scored: GroupScore, said: str) -> None:
    assert said in why(text, scored)


def test_it_asks_what_an_experiment_defines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin(Layout(tmp_path, "demo"), profile="tiny-2", task_table={"sums": {"gym": "chain_sum", "scoring": 2}})
    of = ["--path", str(tmp_path), "--experiment", "demo"]
    assert run(["ask", *SHORT, *of, "--task", "sums", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["task"] == "sums"
    assert run(["ask", *SHORT, *of, "--task", "others"]) == 2


def test_a_question_is_shown_as_the_model_gets_it(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["ask", *SHORT, "--task", "base_conversion", "--samples", "2", "--json"]
    assert run(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert HELD_OUT_SEEDS[0] <= found["seed"] < HELD_OUT_SEEDS[1]
    assert found["prompt"]["text"].startswith("<|user|>")
    assert 10 < found["prompt"]["tokens"] < len(found["prompt"]["text"])
    assert len(found["answers"]) == 2
    for answer in found["answers"]:
        assert 0 < answer["tokens"] <= 24
        assert (answer["answer"] is None) == ("no closed" in answer["why"])


def test_what_a_user_says_instead_is_what_the_model_gets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARM_SYSTEM_PROMPT", "You are a calculator.")  # in the user's turn: its template has no other
    monkeypatch.setenv("SWARM_INSTRUCTION", "Write <answer>2, or so.")
    monkeypatch.setenv("SWARM_STOP", "<")
    assert run(["ask", *SHORT, "--task", "bf", "--samples", "8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["prompt"]["text"].startswith("<|user|>You are a calculator.\n\nWrite <answer>2, or so.\n\n")
    assert all(answer["text"].count("<") <= 1 for answer in found["answers"])
    assert any("<" in answer["text"] and answer["finished"] for answer in found["answers"])


def test_a_probe_measures_each_task_and_says_how_long_a_round_would_take(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["probe", *SHORT, "--tasks", "bf", "--questions", "2", "--generations", "2"]
    assert run([*command, "--external", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (one,) = found["measured"]
    assert (one["task"], one["questions"], one["generations"]) == ("bf", 2, 2)
    assert 0 < found["forecast"]["learning"] < 600
    assert run([*command, "--external", "0"]) == 0  # no group of this model's is informative, and none comes from peers
    assert "0.0 s to learn" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask", "--task", "nothing-of-the-kind"], "has no task"),
        (["probe", "--questions", "0"], "--questions"),
        (["probe", "--tasks", "bff"], "bf"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_loaded(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    assert said in capsys.readouterr().err
