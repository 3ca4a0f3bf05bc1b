"""Each recipe of docs/development.md works on a copy of the tree, and names all that changes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from swarm.config import without_settings
from tests.integration.swarms import LIGHT, environment, rows
from tests.patience import PATIENCE
from tests.unit.development_page import ROOT, named_in, recipes

pytestmark = pytest.mark.engine


@dataclass
class Tree:
    """A copy of the repository that a recipe may change."""

    root: Path
    changed: set[str] = field(default_factory=set)

    def write(self, path: str, text: str) -> None:
        """Adds a file."""
        file = self.root / path
        assert not file.exists(), f"{path} is there already"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        self.changed.add(path)

    def edit(self, path: str, pattern: str, replacement: str) -> None:
        """Replaces the one place that matches, from `^` on with all lines."""
        file = self.root / path
        text, count = re.subn(pattern, replacement, file.read_text("utf-8"), count=2, flags=re.MULTILINE)
        assert count == 1, f"{path} has {count} places like {pattern}"
        file.write_text(text, "utf-8")
        self.changed.add(path)

    def run(self, *arguments: str, **variables: str) -> str:
        """Runs Python in the copy; returns what it says."""
        env = without_settings(os.environ) | {"PYTHONPATH": str(self.root), "COLUMNS": "200"} | variables
        command = [sys.executable, *arguments]
        done = subprocess.run(
            command, cwd=self.root, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def make_docs(self) -> None:
        """Carries out `make docs`."""
        self.changed.update(re.findall(r"^written: (.*)$", self.run("-m", "tests.generate"), re.MULTILINE))

    def play_a_round(self, path: Path) -> list[dict[str, object]]:
        """Returns the rows of a real node whose policy needs no torch."""
        env = environment(path, NODE_ID="light", SWARM_CLOCK="own", MAX_ROUNDS=1, LIGHT_STEP=0, PYTHONPATH=self.root)
        command = [sys.executable, "-m", LIGHT]
        subprocess.run(command, cwd=self.root, env=env, check=True, capture_output=True, timeout=PATIENCE)
        return list(rows(path, "light"))

    def is_as_the_recipe_says(self, name: str) -> None:
        """Asserts that the recipe names every file that was changed, and no file that is not there."""
        named = {one.path for step in recipes()[name] for one in named_in(step)}
        unnamed = {
            path for path in self.changed if not any(f"{path}/".startswith(f"{one.rstrip('/')}/") for one in named)
        }
        assert unnamed == set(), "the recipe does not name these"
        assert [path for path in named if not (self.root / path).exists()] == []


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A copy of the package, its tests and its pages; the models in it are links."""
    root = tmp_path / "tree"
    skipped = shutil.ignore_patterns("assets", "*-pytest-*.pyc", "*.egg-info")
    shutil.copytree(ROOT / "swarm", root / "swarm", ignore=skipped)
    (root / "swarm" / "assets").symlink_to(ROOT / "swarm" / "assets")
    shutil.copytree(ROOT / "tests", root / "tests", ignore=skipped)
    (root / "docs").mkdir()
    for page in (ROOT / "docs").glob("*.md"):
        shutil.copy(page, root / "docs")
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, root)
    return Tree(root)


def test_a_loss_is_added(tree: Tree) -> None:
    loss = '''def reinforce(batch: LossInputs, settings: LossSettings) -> TokenLosses:
    """-A logprob. Williams, "Simple statistical gradient-following algorithms", Machine Learning 8 (1992)."""
    return TokenLosses(_weighed_and_penalised(-batch.advantages * batch.logprobs, batch, settings))


'''
    formula = """def reinforced(rows: Sequence[Row], advantages: Sequence[float]) -> list[float]:
    return [-a * n for row, a in zip(rows, advantages, strict=True) for n, _ in row]


"""
    tree.edit("swarm/algo/losses.py", r"^LOSSES: ", rf"{loss}\g<0>")
    tree.edit("swarm/algo/losses.py", r'^    "grpo_masked": .*\n', r'\g<0>    "reinforce": reinforce,\n')
    tree.edit("swarm/config/names.py", r"^LOSSES = .*(?=\))", r'\g<0>, "reinforce"')
    losses = "tests/unit/algo/test_losses.py"
    tree.edit(losses, r"^FORMULAS: ", rf"{formula}\g<0>")
    tree.edit(losses, r'^    "grpo_masked": .*\n', r'\g<0>    "reinforce": (reinforced, 100),\n')
    tree.edit(losses, r"^CLIPPED = .* - \{", r'\g<0>"reinforce", ')
    tree.make_docs()
    assert "docs/settings.md" in tree.changed
    assert "reinforce" in tree.run("-m", "swarm", "settings", "loss", SWARM_LOSS="reinforce")
    tree.run("-m", "pytest", "-n", "0", "-p", "no:cacheprovider", losses, "-k", "reinforce")
    tree.is_as_the_recipe_says("a loss")


def test_a_task_family_is_added(tree: Tree) -> None:
    tree.write("swarm/tasks/sums.py", (ROOT / "tests/unit/tasks/sums.py").read_text("utf-8"))
    tree.edit("swarm/tasks/registry.py", r"^FAMILIES: .*\{\n", r'\g<0>    "sums": "swarm.tasks.sums:SUMS",\n')
    tree.edit("swarm/config/names.py", r"^TASK_FAMILIES = \(", r'\g<0>"sums", ')
    listed = tree.run("-m", "swarm", "task", "list", SWARM_TASK_FAMILIES="sums", SWARM_PROFILE="tiny")
    assert "sums/short" in listed
    contract = "tests/unit/tasks/test_family.py::test_another_process_makes_and_scores_the_same[sums]"
    tree.run("-m", "pytest", "-n", "0", "-p", "no:cacheprovider", contract)
    tree.is_as_the_recipe_says("a task family")


def test_a_store_is_added(tree: Tree, tmp_path: Path) -> None:
    shelf = '''"""A folder whose name ends in `.shelf`."""

from swarm.store.folder.place import FolderPlace
from swarm.store.folder.store import FolderStore


class ShelfStore(FolderStore):
    """As a folder's."""


class ShelfPlace(FolderPlace):
    """Opens such stores."""
'''
    world = '''class Shelf(Folder):
    """A shelf."""

    def open(self, writer: str | None = None) -> Store:
        from swarm.store.shelf import ShelfStore

        return ShelfStore(self.root, writer)


'''
    opened = """    if Path(path).suffix == ".shelf":
        from swarm.store.shelf import ShelfPlace

        return ShelfPlace(Path(path))
"""
    tree.write("swarm/store/shelf.py", shelf)
    tree.edit("swarm/store/place.py", r"^    from swarm.store.folder.place import FolderPlace\n", rf"{opened}\g<0>")
    tree.edit("tests/conformance/worlds.py", r"^WORLDS: .*\{\n", rf'{world}\g<0>    "shelf": Shelf,\n')
    promises = ("tests/conformance/test_stores.py", "-k", "shelf and (whole or winner or record)")
    said = tree.run("-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *promises)
    assert " passed" in said
    (row,) = tree.play_a_round(tmp_path / "place.shelf")
    assert row["round"] == 0
    tree.is_as_the_recipe_says("a store")


def test_a_column_is_added(tree: Tree, tmp_path: Path) -> None:
    (row_file,) = {one.path for one in named_in(recipes()["a column"][1])}
    column = '    groups_asked: Groups = 0\n    """Own groups that were asked for."""\n'
    tree.edit("swarm/wire/metrics.py", r"^    local_groups: Groups = 0\n", rf"{column}\g<0>")
    tree.edit(row_file, r"^( +)local_groups=(len\([\w.]+\)),\n", r"\g<0>\1groups_asked=\2,\n")
    tree.make_docs()
    assert "| `groups_asked` | int64 | groups | Own groups that were asked for. |" in (
        tree.root / "docs/metrics.md"
    ).read_text("utf-8")
    (row,) = tree.play_a_round(tmp_path / "place")
    assert row["groups_asked"] == row["local_groups"] == 2
    tree.is_as_the_recipe_says("a column")


def test_a_setting_is_added(tree: Tree) -> None:
    setting = (
        '    greeting: Text = setting("hello", "SWARM_GREETING", run_flag="greeting")\n    """What is said first."""\n'
    )
    tree.edit("swarm/config/settings.py", r"^    max_rounds: .*\n", rf"{setting}\g<0>")
    tree.make_docs()
    assert "`SWARM_GREETING` | `greeting` | `hello` | `--greeting`" in (tree.root / "docs/settings.md").read_text(
        "utf-8"
    )
    assert "good morning" in tree.run("-m", "swarm", "settings", "greeting", SWARM_GREETING="good morning")
    assert "good night" in tree.run("-m", "swarm", "settings", "greeting", "--greeting", "good night")
    tree.is_as_the_recipe_says("a setting")


def test_a_command_is_added(tree: Tree, tmp_path: Path) -> None:
    greet = '''"""`swarm greet`."""

from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, open_experiment, settings_from
from swarm.cli.say import say


def greet(
    name: str,
    /,
    *,
    loud: Annotated[bool, Parameter(help="In capitals.")] = False,
    experiment_flags: CommonFlags | None = None,
) -> None:
    """Greet somebody in the name of an experiment."""
    run = open_experiment(settings_from(experiment_flags))
    said = f"Hello, {name}, from {run.experiment}!"
    say(said.upper() if loud else said)
'''
    tree.write("swarm/cli/greet.py", greet)
    line = '    "greet": Command("greet:greet", "Greet somebody.", "anna --loud"),\n'
    tree.edit("swarm/cli/main.py", r"^COMMANDS.* = \{\n", rf"\g<0>{line}")
    assert "greet" in tree.run("-m", "swarm", "--help-all")
    help_ = tree.run("-m", "swarm", "greet", "--help")
    assert "In capitals." in help_
    assert "swarm greet anna --loud" in help_
    tree.play_a_round(tmp_path / "place")
    named = ("--path", str(tmp_path / "place"), "--experiment", "test")
    assert tree.run("-m", "swarm", "greet", "anna", "--loud", *named) == "HELLO, ANNA, FROM TEST!\n"
    tree.is_as_the_recipe_says("a command")


def test_a_plugin_is_added_and_the_core_works_without_it(tree: Tree) -> None:
    commands = '''"""Lists the commands of greetings, for `swarm.commands`."""

from swarm.cli.command import Command

COMMANDS = {"hello": Command("swarm.plugins.hello.commands:hello", "Greet somebody.", "anna")}


def hello(name: str, /) -> None:
    """Greet somebody."""
    print(f"Hello, {name}!")
'''
    tree.write("swarm/plugins/hello/__init__.py", '"""Greets."""\n')
    tree.write("swarm/plugins/hello/commands.py", commands)
    registered = 'hello = "swarm.plugins.hello.commands"\n'
    tree.edit("pyproject.toml", r'^\[project.entry-points."swarm.commands"\].*\n', rf"\g<0>{registered}")
    tree.run("-c", "from setuptools import setup; setup()", "-q", "egg_info")
    assert tree.run("-m", "swarm", "hello", "anna") == "Hello, anna!\n"
    assert "hello" in tree.run("-m", "swarm", "--help-all")
    tree.write("tests/plugins/hello/test_hello.py", "")
    tree.is_as_the_recipe_says("a plugin")
    shutil.rmtree(tree.root / "swarm" / "plugins" / "hello")
    assert "Greet somebody." not in tree.run("-m", "swarm", "--help-all")
