"""docs/development.md is right: what it names exists, its rooms are those of the tree, and a round passes its route."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.swarms import environment
from tests.patience import PATIENCE
from tests.sizes import budgets, rooms
from tests.unit.development_page import ROOT, Named, named_in, problem, recipes, route, section

PROFILER = """
import os, sys, threading
if "ROUTE" in os.environ:
    file = os.open(os.environ["ROUTE"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    seen = set()
    def profile(frame, event, argument):
        code = frame.f_code
        if event == "call" and code not in seen:
            seen.add(code)
            _, ours, path = code.co_filename.partition("/swarm/")
            if ours:
                os.write(file, f"{path}:{code.co_qualname}\\n".encode())
    threading.setprofile(profile)
    sys.setprofile(profile)
"""
"""A sitecustomize.py: each process writes every function of the package that it calls, once, as it calls it."""


def test_every_path_and_name_of_the_map_exists() -> None:
    asked = named_in(section("## Where is ...")) + named_in(section("## A round, from question to update"))
    assert len(asked) > 80
    assert [said for named in asked if (said := problem(named, ROOT / "swarm"))] == []


def test_a_path_or_name_that_is_gone_is_seen() -> None:
    assert problem(Named("node/nowhere.py", ""), ROOT / "swarm")
    assert problem(Named("policy/gradient.py", "Optimizer.leap"), ROOT / "swarm")
    assert not problem(Named("policy/gradient.py", "Optimizer.step"), ROOT / "swarm")


def test_every_room_has_a_line_and_a_budget() -> None:
    there = {room for room in rooms(ROOT) if room.startswith("swarm")}
    assert {room for room in budgets(ROOT) if room.startswith("swarm")} == there


def test_the_budgets_add_up_to_a_core_of_40000_lines_and_plugins_of_14000() -> None:
    given = budgets(ROOT)
    plugins = sum(lines for room, lines in given.items() if room.startswith("swarm/plugins/"))
    core = sum(lines for room, lines in given.items() if room.startswith("swarm")) - plugins
    assert core <= 40_000
    assert plugins <= 14_000
    assert given["tests"] == 50_000


def test_a_recipe_has_six_lines_at_most() -> None:
    assert set(recipes()) == {*("a loss", "a task family", "a store", "a column", "a setting", "a command", "a plugin")}
    assert {name: len(steps) for name, steps in recipes().items() if not 2 <= len(steps) <= 6} == {}


@pytest.mark.engine
def test_a_round_passes_the_functions_of_the_route(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(PROFILER)
    called = tmp_path / "called"
    learning = {"NUM_TRAIN_SAMPLES": 3, "NUM_GENERATIONS": 8, "SWARM_MAX_NEW_TOKENS": 24}
    env = environment(tmp_path / "run", MAX_ROUNDS=2, **learning)
    env |= {"ROUTE": str(called), "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    up = [sys.executable, "-m", "swarm", "up", "--nodes", "2", "--in-process"]
    done = subprocess.run(up, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = set(called.read_text().splitlines())
    assert [str(named) for named in route() if str(named) not in passed] == []
