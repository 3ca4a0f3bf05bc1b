"""`swarm up --tasks "my questions.jsonl" --model "./my model"`: own questions and an own model by their names alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.swarms import environment
from tests.patience import PATIENCE

pytestmark = pytest.mark.engine

MODEL = Path(__file__).parents[2] / "swarm" / "assets" / "models" / "tiny-2-qwen2"
QUESTIONS = '{"question": "What is 2 + 3?", "answer": "5"}\n{"question": "What is 4 + 3?", "answer": 7}\n'


def swarm(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command typed in a folder."""
    env = {name: value for name, value in environment(folder / "place").items() if name != "MODEL_NAME"}
    command = [sys.executable, "-P", "-m", "swarm", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_own_questions_and_an_own_model_are_named_and_trained_on(tmp_path: Path) -> None:
    shutil.copytree(MODEL, tmp_path / "my model")
    (tmp_path / "my questions.jsonl").write_text(QUESTIONS)
    named = ("--tasks", "my questions.jsonl", "--model", "./my model", "--nodes", "1")
    done = swarm(tmp_path, "up", *named, "--rounds", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("a round takes about")]
    assert "the clock allows" in line
    (rows,) = (tmp_path / "place").glob("experiments/*/logs/worker-0/metrics.jsonl")
    assert json.loads(rows.read_text())["task_rewards"].keys() == {"dataset/my_questions"}
