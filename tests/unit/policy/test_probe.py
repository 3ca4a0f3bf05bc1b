"""The probe measures a real step in a process that may die, and the prediction is near what it measures."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from swarm.config import Settings
from swarm.policy.device_memory import device_memory
from swarm.policy.plan import PROCESS, choose
from swarm.policy.probe import ProbeTask, probe
from swarm.policy.shape import model_shape

TASK = ProbeTask(prompt_tokens=20, new_tokens=4)
TINY = Settings(device="cpu", threads=1, local_groups=1, generations=2)


def interpreter(tmp_path: Path, script: str) -> str:
    """A program in place of Python: what the parent sees of a child is its output and how it ends."""
    file = tmp_path / "python"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return str(file)


def test_the_prediction_is_near_what_a_real_step_holds() -> None:
    settings = Settings(device="cpu", threads=1, max_new_tokens=24)
    plan = choose((model_shape("tiny-qwen2"),), settings, device_memory("cpu"), nodes=1, in_process=False)
    report = probe(settings, ProbeTask(plan.prompt_tokens, plan.new_tokens), os.environ)
    assert report.problem is None
    assert report.loaded is not None
    assert report.update is not None
    assert 0.8 * report.update < plan.node.peak + PROCESS < 2 * report.update
    working = report.update - report.loaded  # without what every process holds
    assert 0.8 * working < plan.node.update + plan.node.gradients < 2 * working


def test_a_child_that_the_kernel_kills_is_reported_with_what_it_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = """echo '{"loaded": 7}'; kill -9 $$"""
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, script))
    report = probe(TINY, TASK)
    assert (report.loaded, report.peak, report.refuted) == (7, None, True)
    assert report.problem == "killed, as the kernel does when memory runs out"


def test_a_child_that_is_too_slow_refutes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, "exec sleep 60"))
    report = probe(TINY, TASK, timeout_s=0.05)
    assert (report.problem, report.refuted) == ("not done after 0.05 s", False)


def test_a_child_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, "echo first >&2; echo it broke >&2; exit 3"))
    assert probe(TINY, TASK).problem == "exit code 3: it broke"


def test_the_child_gets_the_settings_and_none_of_the_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, f"env > {tmp_path}/env"))
    probe(TINY, TASK, {"PATH": os.environ["PATH"], "NUM_GENERATIONS": "64", "SEED": "5"})
    environment = (tmp_path / "env").read_text().splitlines()
    assert "NUM_GENERATIONS=2" in environment
    assert not any(line.startswith("SEED=") for line in environment)


def test_a_model_that_cannot_be_loaded_refutes_the_plan(tmp_path: Path) -> None:
    report = probe(Settings(model=(str(tmp_path),), device="cpu"), TASK)
    assert report.refuted
    assert "cannot be loaded" in (report.problem or "")
