"""A stranger cuts a file while a process loads it: an error or no harm, and never the end of the process (SIGBUS)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

CHECKPOINT = """
import os, sys
from pathlib import Path
from swarm.errors import CheckpointError
from swarm.policy import snapshot
from tests.unit.policy.test_snapshot import identical, some_policy, train, weights_of, write

folder, when = Path(sys.argv[1]), sys.argv[2]
policy = some_policy()
train(policy, 1)
write(policy, folder)
load = snapshot._load

def cut(path):
    if when == "before":
        os.truncate(path, 100)
    found = load(path)
    os.truncate(path, 0)
    return found

snapshot._load = cut
resumed = some_policy()
try:
    resumed.restore(str(folder))
except CheckpointError as error:
    print(f"refused: {error}")
else:
    print("restored", identical(weights_of(resumed), weights_of(policy)))
"""
MODEL = """
import os, sys
from pathlib import Path
from transformers import modeling_utils
from swarm.errors import ModelError
from swarm.policy.model import load_model
from tests.unit.policy.factories import make_model

folder, when = Path(sys.argv[1]), sys.argv[2]
model = make_model()
model.module.save_pretrained(folder)
model.tokenizer.save_pretrained(folder)
file = folder / "model.safetensors"
safe_open, safe_load = modeling_utils.safe_open, modeling_utils._safe_load_bytes

def cut(*given, **named):
    found = safe_open(*given, **named)
    os.truncate(file, 0)
    return found

def cut_and_load(data):
    os.truncate(file, 0)
    return safe_load(data)

def cut_before(event, given):
    if event == "open" and given[0] == str(file):
        os.truncate(file, 100)

if when == "before":
    sys.addaudithook(cut_before)
modeling_utils.safe_open, modeling_utils._safe_load_bytes = cut, cut_and_load
try:
    loaded = load_model(str(folder))
except ModelError as error:
    print(f"refused: {error}")
else:
    print("restored", all(a.equal(b) for a, b in zip(loaded.module.parameters(), model.module.parameters())))
"""


@pytest.mark.parametrize("program", [CHECKPOINT, MODEL], ids=["checkpoint", "model"])
def test_a_file_that_is_cut_after_it_was_opened_is_loaded_whole(program: str, tmp_path: Path) -> None:
    done = run(program, tmp_path, "after")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "restored True\n"


@pytest.mark.parametrize("program", [CHECKPOINT, MODEL], ids=["checkpoint", "model"])
def test_a_file_that_is_cut_before_it_is_read_is_refused(program: str, tmp_path: Path) -> None:
    done = run(program, tmp_path, "before")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("refused: ")
    assert "model" in done.stdout


def run(program: str, folder: Path, when: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, str(folder), when]
    root = Path(__file__).parents[3]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=PATIENCE, check=False)
