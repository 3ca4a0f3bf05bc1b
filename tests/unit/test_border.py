"""The core works without any of its plugins: each is taken out of a copy of the package, then all of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.distributions import install
from tests.integration.swarms import environment
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
PLUGINS = sorted(file.parent.name for file in (ROOT / "swarm" / "plugins").glob("*/__init__.py"))
ALL = "all of them"
CORE_COMMANDS = """
import importlib, swarm.study, swarm.notebook
from swarm.cli.main import COMMANDS
for command in COMMANDS.values():
    module, _, function = command.function.partition(":")
    getattr(importlib.import_module(f"swarm.cli.{module}"), function)
"""


def project() -> dict[str, dict[str, str]]:
    """Group -> the entry points that the project registers."""
    found: dict[str, dict[str, str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    return found


@pytest.fixture
def without(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with an installed swarm from which a plugin is gone, though its metadata still names it."""
    folder = install(tmp_path / "installed", "swarm-sapo", project())
    shutil.copytree(ROOT / "swarm", folder / "swarm", ignore=shutil.ignore_patterns("__pycache__", "models"))
    (folder / "swarm" / "assets" / "models").symlink_to(ROOT / "swarm" / "assets" / "models")
    for name in PLUGINS if request.param == ALL else [request.param]:
        shutil.rmtree(folder / "swarm" / "plugins" / name)
    return folder


def python(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=folder.parent,
        env={**(env or os.environ), "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


each = pytest.mark.parametrize(
    "without", [*(pytest.param(name, marks=pytest.mark.slow) for name in PLUGINS), ALL], indirect=True
)


@each
def test_without_a_plugin_its_commands_alone_are_gone_which_is_said(without: Path) -> None:
    helped = python(without, "-m", "swarm", "--help")
    assert helped.returncode == 0, helped.stderr
    gone = [name for name in project()["swarm.commands"] if not (without / "swarm" / "plugins" / name).exists()]
    said = re.findall(r"^swarm: (\w+) \(swarm\.commands\) of swarm-sapo cannot be had", helped.stderr, re.MULTILINE)
    assert (said, helped.stderr.count("\n")) == (gone, len(gone))
    imported = python(without, "-c", CORE_COMMANDS)
    assert imported.returncode == 0, imported.stderr


@pytest.mark.engine
@each
def test_without_a_plugin_a_swarm_learns_and_is_whole(without: Path, tmp_path: Path) -> None:
    env = environment(tmp_path / "place", MAX_ROUNDS=2)
    done = python(without, "-m", "swarm", "up", "--nodes", "2", "--in-process", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    valid = python(without, "-m", "swarm", "validate", "--rounds", "2", "--nodes", "2", env=env)
    assert valid.returncode == 0, valid.stdout + valid.stderr


def test_the_contract_of_imports_names_all_of_the_core() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (named,) = (
        contract["source_modules"] for contract in contracts if contract["name"] == "the core imports no plugin"
    )
    folder = ROOT / "swarm"
    packages = {file.parent.name for file in folder.glob("*/__init__.py")} - {"plugins"}
    modules = {file.stem for file in folder.glob("*.py")} - {"__init__"}
    assert {*named} == {f"swarm.{name}" for name in packages | modules}
