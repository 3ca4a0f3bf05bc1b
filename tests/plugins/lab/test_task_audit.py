"""`swarm task audit`: what tasks pay to who does not think."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.cli.main import run as swarm

FEW = ["--questions", "6"]


def table_of(tmp_path: Path, scoring: int) -> str:
    file = tmp_path / "settings.toml"
    file.write_text(f'[tasks.coins]\ngym = "coin_flip"\nscoring = {scoring}\n')
    return str(file)


def test_a_task_that_pays_a_constant_in_full_is_named_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert swarm(["task", "audit", "coins", *FEW, "--config", table_of(tmp_path, 1)]) == 1
    said = capsys.readouterr().out
    assert "1.000 '0'" in said
    assert "problem: coins pays who does not think" in said


def test_the_same_task_pays_no_constant_under_the_newest_scoring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert swarm(["task", "audit", "coins", *FEW, "--config", table_of(tmp_path, 2)]) == 0
    assert "problem" not in capsys.readouterr().out
