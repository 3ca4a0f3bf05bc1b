"""What may import what, and what a light start leaves out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "transformers", "numpy", "reasoning_gym")


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_imports_point_one_way() -> None:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = run_python("-c", code)
    assert "Contracts: 5 kept, 0 broken." in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("package", ["node", "policy"])
def test_the_map_of_a_large_package_names_every_module(package: str) -> None:
    folder = ROOT / "swarm" / package
    named = set(re.findall(r"[a-z0-9_]+", (folder / "__init__.py").read_text()))
    assert {file.stem for file in folder.rglob("*.py")} - named == {"__init__"}


@pytest.mark.parametrize(
    "modules",
    [
        "swarm.node.coordinator.coordinator, swarm.node.process.daemon",
        "swarm.cli.main",
        "swarm.cli.doctor",
        "swarm.cli.up, swarm.policy.planner",
        "services.coordinator, services.worker, services.workers",
    ],
)
def test_starting_a_node_or_a_command_imports_nothing_heavy(modules: str) -> None:
    done = run_python("-c", f"import sys, {modules}; print([name for name in {HEAVY!r} if name in sys.modules])")
    assert done.stdout == "[]\n", done.stderr
