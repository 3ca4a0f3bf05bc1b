"""What the type checker refuses: misspelled or wrongly typed columns, and settings with a default of another type."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.test_architecture import run_python

SNIPPET = """
from dataclasses import dataclass
from typing import Annotated

from swarm.config.constraints import setting, whole
from swarm.wire.metrics import MetricsRow


def fill(row: MetricsRow) -> None:
    row.pool_grups = 1
    row.pool_groups = "1"
    row.pool_groups = 1


MetricsRow(timestamp=0.0, round=0, stage=0, node_id="a", experiment="e", my_reward=0.0, total_agents=1, grad_nrom=1.0)


@dataclass
class Settings:
    rounds: Annotated[int, whole(1)] = setting("40", "MAX_ROUNDS")
    groups: Annotated[int, whole(1)] = setting(8, "NUM_TRAIN_SAMPLES")
"""


def test_a_misspelled_or_wrongly_typed_column_or_default_is_a_type_error(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "snippet.py").write_text(SNIPPET, "utf-8")
    done = run_python(
        "-m",
        "mypy",
        "--no-error-summary",
        "--follow-imports=silent",
        f"--cache-dir={tmp_path}",
        str(tmp_path / "snippet.py"),
    )
    errors = [line.partition(": error: ")[2] for line in done.stdout.splitlines()]
    assert [error.rpartition("[")[2] for error in errors] == [
        "attr-defined]",
        "assignment]",
        "call-arg]",
        "assignment]",
    ]
    assert '"pool_grups"' in errors[0]
    assert '"grad_nrom"' in errors[2]
