"""What may import what, and what a light start leaves out."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "transformers", "numpy", "reasoning_gym")

ANYIO = {
    *("abc", "create_memory_object_stream", "create_task_group", "streams", "CancelScope", "CapacityLimiter", "Event"),
    *("Lock", "lowlevel", "BrokenResourceError", "ClosedResourceError", "WouldBlock"),
}
"""What a node uses of anyio outside its process room: nothing that sleeps, watches a clock, or starts a thread."""


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_imports_point_one_way() -> None:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = run_python("-c", code)
    assert "Contracts: 8 kept, 0 broken." in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("package", ["node", "planner", "policy"])
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
        "swarm.cli.up, swarm.planner.planner",
        "services.coordinator, services.worker, services.workers",
    ],
)
def test_starting_a_node_or_a_command_imports_nothing_heavy(modules: str) -> None:
    done = run_python("-c", f"import sys, {modules}; print([name for name in {HEAVY!r} if name in sys.modules])")
    assert done.stdout == "[]\n", done.stderr


def names_of_anyio(tree: ast.AST) -> set[str]:
    """What a module uses of anyio: imported by name, or as an attribute of it."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="anyio", names=names):
                found |= {name.name for name in names}
            case ast.ImportFrom(module=str(module)) if module.startswith("anyio."):
                found.add(module.split(".")[1])
            case ast.Import(names=names):
                found |= {"an alias of anyio" for name in names if name.name.startswith("anyio") and name.asname}
            case ast.Attribute(value=ast.Name(id="anyio"), attr=name):
                found.add(name)
    return found


def calls_open(tree: ast.AST) -> bool:
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return any(isinstance(called, ast.Name) and called.id in ("open", "input", "print") for called in calls)


@pytest.mark.parametrize("room", ["base", "sharing", "worker", "coordinator"])
def test_a_node_neither_sleeps_nor_starts_threads_nor_opens_files_by_itself(room: str) -> None:
    for file in sorted((ROOT / "swarm" / "node" / room).glob("*.py")):
        tree = ast.parse(file.read_text())
        assert names_of_anyio(tree) <= ANYIO, file
        assert not calls_open(tree) or file.name == "checkpoints.py", file  # which writes into a bundle's local folder


@pytest.mark.parametrize(
    "code",
    [
        "from anyio import to_thread",
        "import anyio.to_thread\nanyio.to_thread.run_sync",
        "import anyio\nanyio.sleep(1)",
        "from anyio import sleep as rest",
        "import anyio as x\nx.sleep(1)",
        "from anyio.to_thread import run_sync",
    ],
)
def test_what_a_node_must_not_use_is_found_however_it_is_written(code: str) -> None:
    assert not names_of_anyio(ast.parse(code)) <= ANYIO
