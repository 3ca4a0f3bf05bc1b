"""A plugin of somebody else's, of less than 60 lines, brings a task family and a sink."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from swarm.cli.main import run as swarm
from swarm.config import Settings, load_settings
from swarm.config.own_code import own_codes
from swarm.errors import ConfigError
from swarm.tasks.registry import Families
from tests.distributions import install
from tests.integration.swarms import environment, rows, well
from tests.layout import Layout
from tests.unit.cli.test_joining import begin

HERE = Path(__file__).parent
FILES = ("pyproject.toml", "coins.py")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path in which the plugin is installed."""
    groups = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["entry-points"]
    folder = install(tmp_path / "site", "coins", groups, coins=(HERE / "coins.py").read_text())
    monkeypatch.syspath_prepend(folder)
    return folder


def test_it_has_less_than_60_lines() -> None:
    assert sum(len((HERE / name).read_text().splitlines()) for name in FILES) < 60


@pytest.mark.usefixtures("site")
def test_its_family_is_named_as_it_registered_and_is_code_of_the_users_own() -> None:
    settings = load_settings({}, {"SWARM_TASK_FAMILIES": "reasoning-gym,coins"})
    assert settings.task_families == ("reasoning-gym", "coins:COINS")
    assert own_codes(settings.task_families) == {"coins:COINS"}
    assert Families(settings.task_families).profiles()["tiny"][-1] == "coins/heads"


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("family", ["coins", "coins:COINS"])
def test_a_place_that_names_it_is_refused_with_what_to_type(
    tmp_path: Path, family: str, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(Layout(tmp_path / "place", "demo"), Settings(), task_families=[family])
    assert swarm(["join", str(tmp_path / "place"), "--dry-run"]) == ConfigError.exit_code
    assert f"type SWARM_TASK_FAMILIES={family} " in capsys.readouterr().err


@pytest.mark.usefixtures("site")
def test_a_sink_that_nobody_registers_is_refused_with_those_that_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert swarm(["sink", "run", "abacus", "--experiment", "demo"]) == ConfigError.exit_code
    assert "expected tensorboard, trackio, wandb, lines, got 'abacus'" in capsys.readouterr().err


@pytest.mark.engine
def test_a_swarm_learns_from_its_questions_and_its_sink_has_every_row(site: Path, tmp_path: Path) -> None:
    env = environment(tmp_path / "place", MAX_ROUNDS=2, SWARM_TASK_FAMILIES="coins", SWARM_PROFILE="tiny")
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(site), env.get("PYTHONPATH"))))
    well(env, "up", "--nodes", "2", "--in-process")
    well(env, "sink", "run", "lines", "--folder", str(tmp_path / "sinks"))
    (kept,) = (tmp_path / "sinks").iterdir()
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert sorted((line["node"], line["key"]) for line in lines) == [
        *(("worker-0", [0, 0]), ("worker-0", [1, 0]), ("worker-1", [0, 0]), ("worker-1", [1, 0]))
    ]
    assert {name for row in rows(tmp_path / "place", "worker-0") for name in row["task_rewards"]} == {"coins/heads"}
