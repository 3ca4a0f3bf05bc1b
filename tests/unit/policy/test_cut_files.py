"""A stranger cuts a file while a process loads it: an error or no harm, and never the end of the process (SIGBUS)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

CHECKPOINT = """
import os
from swarm.errors import CheckpointError
from swarm.policy import snapshot
from tests.unit.policy.test_snapshot import identical, some_policy, train, weights_of, write

policy = some_policy()
train(policy, 1)
write(policy, folder)
load = snapshot.load_file

def cut(path, **options):
    if when == "before":
        os.truncate(path, 100)
    found = load(path, **options)
    os.truncate(path, 0)
    return found

snapshot.load_file = cut
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
from transformers import modeling_utils
from swarm.errors import ModelError
from swarm.policy.model import load_model
from tests.unit.policy.factories import make_model

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


EACH = """
import sys
from pathlib import Path
from tests.unit.policy.test_cut_files import PROGRAMS

for name, program in PROGRAMS.items():
    for when in ("after", "before"):
        print(f"{name} {when}: ", end="")
        folder = Path(sys.argv[1]) / f"{name} {when}"
        folder.mkdir()
        exec(program, {"folder": folder, "when": when})
        sys.stdout.flush()
"""
"""All in one process, because torch takes seconds to import: the end of it is seen as well as that of one of four."""
PROGRAMS = {"checkpoint": CHECKPOINT, "model": MODEL}


@pytest.mark.engine
def test_a_file_that_is_cut_after_it_was_opened_is_loaded_whole_and_before_it_is_read_refused(tmp_path: Path) -> None:
    command, root = [sys.executable, "-c", EACH, str(tmp_path)], Path(__file__).parents[3]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    for name in PROGRAMS:
        assert said[f"{name} after"] == "restored True"
        assert said[f"{name} before"].startswith("refused: ")
        assert "model" in said[f"{name} before"]
