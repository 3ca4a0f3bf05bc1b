"""A name that there is not is refused, with those that there are and the one that may have been meant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm.cli.main import run
from swarm.records.event_names import EVENTS
from tests.unit.source import trees

ROOT = Path(__file__).parents[3]


pytestmark = pytest.mark.usefixtures("no_settings_from_outside")


# ── experiments ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_many_experiments_only_the_first_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(50):
        (tmp_path / "experiments" / f"run-{number:02}").mkdir(parents=True)
    assert run(["status", "--path", str(tmp_path), "--experiment", "urn-49"]) == 2
    said = capsys.readouterr().err
    assert "run-19 and 30 more; " in said
    assert "did you mean 'run-49'?" in said
    assert "run-20" not in said


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_names_of_events_are_those_that_are_said() -> None:
    assert {name for tree in trees().values() for name in names_said(tree)} == EVENTS


def names_said(tree: ast.Module) -> Iterator[str]:
    """The texts that calls of a logger begin with, and those of problems that are logged once."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        first = [*call.args, *(keyword.value for keyword in call.keywords)] if names(call.func) == "LogOnce" else []
        if isinstance(call.func, ast.Attribute) and names(call.func.value) in ("logger", "log", "get_logger"):
            first = call.args[:1]
        for text in (node for argument in first for node in ast.walk(argument) if isinstance(node, ast.Constant)):
            if isinstance(text.value, str) and re.fullmatch(r"[a-z]+(\.[a-z_]+)?", text.value):
                yield text.value


def names(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else names(node.func) if isinstance(node, ast.Call) else ""
