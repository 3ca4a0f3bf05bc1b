"""All extras in one environment, `.venv-extras`: `make .venv-extras/.installed`, as `make test-engines` does."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-extras" / "bin" / "python"
OF_DEVELOPERS = {"dev", "engines", "bench"}
IMPORTED = (
    "matplotlib, pandas, pyarrow, scipy, cryptography, obstore, zstandard, math_verify, submitit, "
    "verifiers.v1, peft, starlette, uvicorn, textual, tensorboard, trackio, wandb"
)


def run(*arguments: str) -> str:
    if not PYTHON.exists():
        pytest.fail(f"{PYTHON} is missing: make .venv-extras/.installed")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ended = subprocess.run([PYTHON, *arguments], cwd=ROOT, env=environ, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_every_extra_is_in_the_environment_of_all() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    (line,) = [
        line for line in (ROOT / "Makefile").read_text("utf-8").splitlines() if "$(EXTRAS)/bin/pip install" in line
    ]
    assert {*line.partition("[")[2].partition("]")[0].split(",")} == {*extras} - OF_DEVELOPERS


def test_they_are_installed_and_imported_together_beside_one_torch() -> None:
    assert "No broken requirements" in run("-m", "pip", "check")
    said = run("-W", "ignore", "-c", f"import torch, {IMPORTED}; print(torch.__file__)")
    assert said.splitlines()[-1].startswith(str(ROOT / ".venv" / "lib"))


def test_environments_of_the_real_library_are_asked() -> None:
    said = run("-m", "pytest", "-p", "no:cacheprovider", "tests/plugins/verifiers/test_environments.py")
    assert "skipped" not in said, said
