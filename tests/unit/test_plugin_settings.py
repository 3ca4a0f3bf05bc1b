"""Settings that plugins declare: anybody's work as the core's do, and what cannot be had is said to who asks for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from swarm.config.from_folder import refuse_unsafe
from swarm.config.plugin_settings import KnownSettings, KnownVariables
from swarm.config.settings import Settings
from swarm.errors import ConfigError
from tests.distributions import install
from tests.integration.swarms import environment

GREETING = '''
from __future__ import annotations
from dataclasses import dataclass
from typing import Annotated
from swarm.config.constraints import Text, setting, whole
from swarm.config.plugin_settings import PluginSettings
from swarm.errors import ConfigError

@dataclass(frozen=True, kw_only=True)
class GreetingSettings(PluginSettings):
    section = "Greeting"
    greeting: Text | None = setting(None, "SWARM_GREETING", identity=True)
    """What a node says."""
    greetings: Annotated[int, whole(1)] = setting(1, "SWARM_GREETINGS")
    """How often."""
    greeting_key: Text | None = setting(None, "SWARM_GREETING_KEY", secret=True)
    """Its key."""

    def check(self, settings):
        if self.greetings > settings.max_rounds:
            raise ConfigError("SWARM_GREETINGS: more greetings than rounds; lower it")
'''


@pytest.fixture
def greeting(tmp_path: Path) -> Path:
    """A folder where a package of somebody's own is installed."""
    groups = {"swarm.settings": {"greeting": "greeting_settings:GreetingSettings"}}
    return install(tmp_path / "installed", "greeting", groups, greeting_settings=GREETING)


def python(folder: Path, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code where the package is installed."""
    env = environment(folder.parent / "place", **variables)
    env["PYTHONPATH"] = f"{folder}:{env.get('PYTHONPATH', '')}:{Path(__file__).parents[2]}"
    arguments = [sys.executable, "-c", code]
    return subprocess.run(arguments, cwd=folder.parent, env=env, capture_output=True, text=True, check=False)


def test_a_strangers_plugin_declares_settings_of_its_own(greeting: Path) -> None:
    file = greeting.parent / "run.toml"
    file.write_text('greeting = "hello"\nSWARM_GREETINGS = 2\n')
    words = ["settings", "greeting", "greetings", "--json", "--config", str(file)]
    listed = python(greeting, f"from swarm.cli.main import run; run({words!r})", SWARM_GREETINGS="3")
    assert listed.returncode == 0, listed.stderr
    rows = {row["name"]: row for row in json.loads(listed.stdout)}
    assert [(rows[name]["value"], rows[name]["default"]) for name in rows] == [("hello", None), (3, 1)]
    assert rows["greeting"]["section"] == "Greeting"
    assert rows["greetings"]["source"] == "environment variable SWARM_GREETINGS"
    assert rows["greetings"]["meaning"] == "How often."


REACHES = """
import os
from swarm.config import load_settings, without_settings, given_variables
from greeting_settings import GreetingSettings
s = load_settings({}, os.environ)
assert s.of(GreetingSettings).greeting == s.as_environment()['SWARM_GREETING'] == s.experiment_identity()['greeting']
assert s.as_recorded()['greetings'] == 1 and 'greeting_key' not in s.as_recorded()
assert 'SWARM_GREETING' not in without_settings(os.environ)
assert 'SWARM_GREETING_KEY' not in given_variables(os.environ)
assert s.plugins == ('greeting',)
"""


def test_its_settings_reach_records_children_and_the_experiment(greeting: Path) -> None:
    told = python(greeting, REACHES, SWARM_GREETING="hi", SWARM_GREETING_KEY="secret")
    assert told.returncode == 0, told.stderr


LOADS = "import os; from swarm.config import load_settings; load_settings({}, os.environ)"
READS = "from swarm.config import refuse_unsafe; [refuse_unsafe({'greetings': (n, 'the place')}) for n in (1, 2)]"


@pytest.mark.parametrize(
    ("code", "variables", "said"),
    [
        (LOADS, {"SWARM_GREETINGS": "9", "MAX_ROUNDS": "3"}, ["more greetings than rounds"]),
        (LOADS, {"SWARM_GREETINGS": "0"}, ["SWARM_GREETINGS (greetings) must be a whole number from 1, got '0'"]),
        (READS, {}, ["needs the plugin greeting of greeting. A place cannot turn on code", "type SWARM_GREETINGS=2"]),
    ],
    ids=["its own check", "its range", "said by a place"],
)
def test_what_cannot_work_and_what_a_place_says_is_refused(
    greeting: Path, code: str, variables: dict[str, str], said: list[str]
) -> None:
    refused = python(greeting, code, **variables)
    assert refused.returncode
    assert [part for part in said if part not in refused.stderr] == []


def test_an_unknown_setting_says_which_plugin_cannot_be_had(tmp_path: Path) -> None:
    groups = {"swarm.settings": {"greeting": "gone_settings:GreetingSettings"}}
    folder = install(tmp_path / "installed", "greeting", groups)
    refused = python(folder, "from swarm.cli.main import run; run(['settings'])", SWARM_GREETING="hi")
    assert "unknown setting SWARM_GREETING in the environment" in refused.stderr
    assert "greeting (swarm.settings) of greeting cannot be had" in refused.stderr
    assert "install greeting again" in refused.stderr


@pytest.mark.parametrize(
    ("declaration", "why"),
    [
        ('seed: int = setting(1, "SWARM_OTHER")', "another setting has this name"),
        ('other: int = setting(1, "SWARM_MIRROR")', "another setting has this name, or its variable"),
        ('other: int = setting(1, "OTHER")', "begins with SWARM_"),
        ("other: int = 1", "expected setting"),
        ('other: Annotated[int, whole(2)] = setting(1, "SWARM_OTHER")', ">= 2"),
    ],
)
def test_a_declaration_that_cannot_be_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declaration: str, why: str
) -> None:
    source = (
        "from dataclasses import dataclass\nfrom typing import Annotated\n"
        "from swarm.config.constraints import setting, whole\n"
        "from swarm.config.plugin_settings import PluginSettings\n"
        f"@dataclass(frozen=True, kw_only=True)\nclass Odd(PluginSettings):\n    {declaration}\n"
    )
    module = f"odd_{abs(hash(declaration))}"
    groups = {"swarm.settings": {"odd": f"{module}:Odd"}}
    monkeypatch.syspath_prepend(install(tmp_path, "odd", groups, **{module: source}))
    known = KnownSettings(Settings)
    assert "other" not in known
    assert "seed" in known
    (problem,) = known.problems
    assert why in problem


def test_a_variable_that_no_plugin_has_costs_one_look_at_all_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    known, looks = KnownSettings(Settings), []
    monkeypatch.setattr("swarm.entry_points.found", lambda group: looks.append(group) or {})
    variables = KnownVariables(known, {"SWARM_PRESET": "preset"})
    assert "PATH" not in variables
    assert "SWARM_PATH" in variables
    assert looks == []
    assert "SWARM_NOT_THERE" not in variables
    assert "SWARM_NOT_THERE_EITHER" not in variables
    assert looks == ["swarm.settings"]


def test_what_reaches_out_of_a_place_is_refused_by_its_declaration() -> None:
    with pytest.raises(ConfigError, match="reaches out of the shared place"):
        refuse_unsafe({"mirror": ("/elsewhere", "the place")})
    refuse_unsafe({"mirror": (None, "the place")})
