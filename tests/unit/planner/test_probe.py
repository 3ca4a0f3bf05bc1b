"""The probe measures a real step in a process that may die, and the prediction is near what it measures."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from swarm.config import Settings
from swarm.planner.plan import PROCESS
from swarm.planner.planner import make_plan
from swarm.planner.probe import ProbeReport, ProbeTask, probe, run_steps
from swarm.policy import generator, gradient
from swarm.policy.draw import Sampling
from swarm.policy.generate import sample_in_parts

TASK = ProbeTask(prompt_tokens=20, new_tokens=4)
TINY = Settings(device="cpu", threads=1, local_groups=1, generations=2)


def interpreter(tmp_path: Path, script: str) -> str:
    """A program in place of Python: what the parent sees of a child is its output and how it ends."""
    file = tmp_path / "python"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return str(file)


@pytest.mark.engine
def test_the_prediction_is_near_what_a_real_step_holds() -> None:
    settings = Settings(device="cpu", threads=1, max_new_tokens=24)
    plan = make_plan(settings, 1, in_process=False)
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


class _OutOfMemoryOnce:
    """A function that runs out of memory when it is called for the n-th time, and then works."""

    def __init__(self, works: Callable[..., Any], nth: int) -> None:
        self._works, self._left = works, nth

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self._works(*args, **kwargs)


def steps(settings: Settings = TINY) -> list[ProbeReport]:
    """What the child would tell of its steps."""
    told: list[ProbeReport] = []
    run_steps(settings, TASK, told.append)
    return told


@pytest.mark.parametrize(
    ("module", "function", "nth"),
    [(generator, "sample_in_parts", 1), (generator, "sample_in_parts", 2), (gradient, "stack_rows", 1)],
    ids=["warm-up", "generation", "update"],
)
def test_a_step_that_had_to_be_halved_refutes_the_plan(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, function: str, nth: int
) -> None:
    monkeypatch.setattr(module, function, _OutOfMemoryOnce(getattr(module, function), nth))
    report = steps()[-1]
    assert report.refuted
    assert report.peak is not None, "it got to the end"
    assert "halvings: 1" in (report.problem or "")


def test_a_step_that_fits_refutes_nothing_and_samples_as_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Sampling] = []

    def look(*args: Any, sampling: Sampling, **kwargs: Any) -> Any:
        seen.append(sampling)
        return sample_in_parts(*args, sampling=sampling, **kwargs)

    monkeypatch.setattr(generator, "sample_in_parts", look)
    report = steps(replace(TINY, temperature=0.5, top_p=0.9, top_k=7, min_p=0.01))[-1]
    assert (report.problem, report.refuted) == (None, False)
    assert set(seen) == {Sampling(temperature=0.5, top_p=0.9, top_k=7, min_p=0.01)}


def test_a_model_that_cannot_be_loaded_refutes_the_plan(tmp_path: Path) -> None:
    report = probe(Settings(model=(str(tmp_path),), device="cpu"), TASK)
    assert report.refuted
    assert "it has no config.json" in (report.problem or "")
