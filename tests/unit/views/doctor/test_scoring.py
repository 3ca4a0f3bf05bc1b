"""Which bars stand around the scoring of peers' answers."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from swarm.tasks.bars import Bar
from swarm.views.doctor import machine
from tests.unit.views.doctor.patients import OK, WARNING

UP, DOWN = Bar("landlock", True, "ABI 6"), Bar("seccomp", False, "needs a kernel that filters")


def test_what_is_up_is_told_in_one_row_and_each_that_is_not_with_its_reason() -> None:
    found = list(machine.judge_bars([UP, DOWN]))
    assert [(finding.check, finding.verdict, finding.measured) for finding in found] == [
        ("bars", OK, "landlock (ABI 6)"),
        ("seccomp", WARNING, "not up: needs a kernel that filters"),
    ]
    assert [finding.verdict for finding in machine.judge_bars([DOWN])] == [WARNING]


def test_a_real_child_is_asked_about_all_bars() -> None:
    bars = machine.measure_bars()
    assert not isinstance(bars, str), bars
    assert [bar.name for bar in bars] == ["privileges", "capabilities", "landlock", "seccomp"]
    assert all(bar.detail for bar in bars)


def silent(*_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.CompletedProcess([], -9, b"", b"")


def late(*_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
    raise subprocess.TimeoutExpired("python", 30)


@pytest.mark.parametrize("ends", [silent, late])
def test_a_child_that_cannot_tell_is_a_finding_and_no_crash(monkeypatch: pytest.MonkeyPatch, ends: Any) -> None:
    monkeypatch.setattr(machine.subprocess, "run", ends)
    (found,) = machine.judge_bars(machine.measure_bars())
    assert (found.verdict, found.measured[:33]) == (WARNING, "the child that puts them up faile")
