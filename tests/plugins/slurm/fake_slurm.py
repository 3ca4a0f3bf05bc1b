"""Slurm's commands as shell scripts that write down what they were given, and say what a test has told them to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SCRIPTS = {
    "sbatch": 'cp "$1" {box}/script; env > {box}/environment\n'
    'if [ -e {box}/refusal ]; then cat {box}/refusal >&2; exit 1; fi\necho "Submitted batch job 7"',
    "squeue": "echo asked >> {box}/asked; [ ! -e {box}/away ] || exit 1; cat {box}/queue 2>/dev/null || true",
    "scancel": 'echo "$@" >> {box}/cancelled',
    "srun": "exit 1",
    "sinfo": "echo short; echo long",
}


def install(box: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The commands, first on PATH, and a home of its own; the folder of what they hear and say."""
    (box / "bin").mkdir(parents=True)
    for name, script in SCRIPTS.items():
        (box / "bin" / name).write_text(f"#!/bin/sh\n{script.format(box=box)}\n")
        (box / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{box / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(box))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return box
