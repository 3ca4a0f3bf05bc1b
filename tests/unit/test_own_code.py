"""Code is imported where this user named it, and nowhere else: what was read in a place is text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from swarm.algo import registry as algorithms
from swarm.algo.advantages import SCALINGS
from swarm.cli.main import run as swarm
from swarm.config import Settings, load_settings
from swarm.config.names import ADVANTAGE_SCALINGS, DATASET_SCORERS, TASK_FAMILIES
from swarm.config.own_code import names_code, of_the_user, own_codes
from swarm.errors import ConfigError
from swarm.provenance import code_digest, own_modules
from swarm.tasks.dataset.scorers import SCORERS
from swarm.tasks.registry import FAMILIES, Families, complete
from swarm.tasks.scoring import Scorer
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.cli.test_joining import begin
from tests.unit.test_border import project

BAIT = "bait_for_own_code"
FUNCTION = f"{BAIT}:thing"
TABLES = {
    "a file": {"t": {"python": f"{BAIT}.py", "sha256": "a" * 64}},
    "an environment": {"t": {"verifiers": BAIT, "sha256": "a" * 64, "source_sha256": "a" * 64}},
    "a scorer": {"t": {"dataset": "q.jsonl", "sha256": "a" * 64, "scorer": FUNCTION, "scorer_sha256": "a" * 64}},
}
NAMED: dict[str, tuple[str, Any]] = {
    **{name: (name, FUNCTION) for name in ("sampler", "adaptive_rule", "loss", "advantage_scaling")},
    "a family": ("task_families", [FUNCTION]),
    "a module": ("task_families", [BAIT]),
    "a module's __main__": ("task_families", [f"{BAIT}.__main__"]),
    **{what: ("task_table", table) for what, table in TABLES.items()},
}
"""Whatever selects code -> a setting, and a value that names the bait."""


@pytest.fixture
def sprung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """A package on the path that leaves a trace where it is run, however it is; whether it was, here or in a child."""
    trace, folder = tmp_path / "trace", tmp_path / "on_the_path"
    package = folder / BAIT
    package.mkdir(parents=True)
    bait = f"open({str(trace)!r}, 'w').close()\ndef thing(*_): ...\n"
    for file in (package / "__init__.py", package / "__main__.py", tmp_path / f"{BAIT}.py"):
        file.write_text(bait)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWARM_PATH", str(tmp_path / "place"))
    monkeypatch.setenv("SWARM_KEY_FOLDER", str(tmp_path / "keys"))
    return lambda: trace.exists() or any(name.startswith(BAIT) for name in sys.modules)


def test_what_needs_nobodys_word_is_what_the_registries_have() -> None:
    assert {*TASK_FAMILIES} == FAMILIES.keys() | project()["swarm.tasks"].keys()
    assert {*DATASET_SCORERS} == SCORERS.keys()
    assert set(ADVANTAGE_SCALINGS) == set(SCALINGS)


# ── whose word it is ────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("what", NAMED)
def test_code_is_the_users_own_by_flag_variable_and_file_and_by_nothing_else(what: str, tmp_path: Path) -> None:
    name, value = NAMED[what]
    if name == "adaptive_rule":
        return  # of no use by itself
    variable = {"task_families": "SWARM_TASK_FAMILIES", "task_table": "SWARM_TASK_TABLE"}.get(name)
    variable = variable or f"SWARM_{name.upper()}"
    text = json.dumps(value) if isinstance(value, dict) else ",".join(value) if isinstance(value, list) else value
    file = tmp_path / "mine.toml"
    file.write_text(f"{name} = {json.dumps(text)}\n")
    for loaded in (
        load_settings({name: value}, {}),
        load_settings({}, {variable: text}),
        load_settings({}, {}, str(file)),
    ):
        assert own_codes(getattr(loaded, name))
        assert not [*names_code(name, getattr(loaded, name))]
    for loaded in (load_settings({}, {}, base={name: (value, "a place")}), load_settings({}, {}, **{name: value})):
        assert not own_codes(getattr(loaded, name))
        assert [*names_code(name, getattr(loaded, name))]


def test_our_own_names_are_nobodys_code() -> None:
    for name, value in (("loss", "gspo"), ("task_families", ("dataset", "facts")), ("sampler", "uniform")):
        assert not own_codes(of_the_user(name, value))
        assert not [*names_code(name, value)]


# ── registries ──────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("what", NAMED)
def test_no_registry_imports_what_nobody_here_named(what: str, sprung: Callable[[], bool]) -> None:
    name, value = NAMED[what]
    if name == "task_table":
        attempts: list[Callable[[], object]] = [lambda: Families((), value), lambda: complete(value, Path.cwd())]
    elif name == "task_families":
        attempts = [lambda: Families(value)]
    else:
        attempts = [lambda: getattr(algorithms, name)(value)]
    for attempt in attempts:
        with pytest.raises(ConfigError, match="names code that you did not name yourself"):
            attempt()
    assert not sprung()
    assert code_digest(own_modules(Settings(**{name: value})), judged=False) == code_digest(judged=False)
    assert not sprung(), "it was looked for, which imports the packages above a module"


@pytest.mark.parametrize("what", ["a family", "a module's __main__", *TABLES])
def test_no_scoring_server_imports_what_its_node_was_not_told_by_a_user(what: str, sprung: Callable[[], bool]) -> None:
    name, value = NAMED[what]
    families, tasks = (value, {}) if name == "task_families" else ((), value)

    async def start() -> None:
        with anyio.fail_after(PATIENCE):
            async with Scorer(1, families, tasks):
                pass

    with pytest.raises(ConfigError, match="names code that you did not name yourself"):
        anyio.run(start)
    assert not sprung()


@pytest.mark.parametrize("what", NAMED)
def test_no_child_is_handed_as_its_users_word_what_came_from_a_place(what: str) -> None:
    name, value = NAMED[what]
    read = load_settings({}, {}, base={"adaptive": (True, "a place"), name: (value, "a place")}, external_groups=4)
    with pytest.raises(ConfigError, match="If you know that code, type "):
        read.as_environment()


def test_a_child_is_handed_what_the_user_named() -> None:
    own = load_settings({"loss": "mine:loss", "task_families": "reasoning-gym,mine:FAMILY"}, {})
    again = load_settings({}, own.as_environment())
    assert own_codes([again.loss, again.task_families]) == {"mine:loss", "mine:FAMILY"}


# ── doors ───────────────────────────────────────────────────────────────────────────────────────────────────────────
SMALL = Settings(local_groups=2, external_groups=2, generations=2)
NODE = ["node", "--experiment", "demo", "--node-id", "ann"]


@pytest.mark.parametrize(
    ("what", "words"), [*((what, ["join", "place", "--dry-run"]) for what in NAMED), ("a family", NODE)]
)
def test_who_joins_an_experiment_that_names_code_is_told_so_and_runs_none(
    what: str, words: list[str], sprung: Callable[[], bool], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name, value = NAMED[what]
    begin(Layout(tmp_path / "place", "demo"), SMALL, adaptive=name == "adaptive_rule", **{name: value})
    assert swarm(words) == ConfigError.exit_code
    assert not sprung()
    said = capfd.readouterr().err
    assert "If you know that code, type " in said


def test_a_node_goes_on_with_a_family_of_its_users_own_once_that_is_said_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWARM_PATH", str(tmp_path))
    begin(Layout(tmp_path, "demo"), SMALL, task_families=["tests.unit.tasks.sums:SUMS"], profile="tiny")
    words = ["join", str(tmp_path), "--dry-run"]
    assert swarm(words) == ConfigError.exit_code
    typed = "SWARM_TASK_FAMILIES=tests.unit.tasks.sums:SUMS"
    assert f"type {typed}" in capfd.readouterr().err
    monkeypatch.setenv(*typed.split("="))
    assert swarm(words) == 0
