"""`swarm task audit`: what tasks pay to who does not think."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.cli.main import run as swarm

FEW = ["--questions", "6"]


def table_of(tmp_path: Path, dataset: str) -> str:
    file = tmp_path / "settings.toml"
    file.write_text(f'[tasks.asked]\ngym = "{dataset}"\n')
    return str(file)


def test_a_task_that_pays_a_constant_in_full_is_named_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert swarm(["task", "audit", "asked", *FEW, "--config", table_of(tmp_path, "syllogism")]) == 1
    assert "problem: asked pays who does not think" in capsys.readouterr().out


def test_a_task_that_pays_no_constant_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert swarm(["task", "audit", "asked", *FEW, "--config", table_of(tmp_path, "coin_flip")]) == 0
    assert "problem" not in capsys.readouterr().out
