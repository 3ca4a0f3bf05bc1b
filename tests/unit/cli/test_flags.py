"""Flags, the environment, a file and defaults become settings, in that order."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from swarm.cli.flags import as_settings, command_again
from swarm.cli.main import run
from swarm.cli.run_flags import NodeFlags, RunFlags
from swarm.cli.settings import list_settings
from swarm.config.settings import FIELDS


def test_every_flag_is_a_setting_or_a_source_of_settings() -> None:
    flags = {f.name: f.name for f in fields(NodeFlags) if f.name not in ("config", "preset")}
    assert set(as_settings(NodeFlags(**flags))) <= {*FIELDS}  # type: ignore[arg-type]


def test_flags_are_named_as_users_say_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_MODE", raising=False)
    line = (
        "settings --json --rounds 7 --local 3 --external 5 --generations 4 --model a,b --learning-rate 0.1 --seed 9 "
        "--round-interval 2.5 --checkpoint-interval 0 --threads 2 --device cpu --node-id n1 --role coordinator "
        "--log-level debug --test --profile paper --tasks bf,arc_1d"
    )
    assert run(line.split()) == 0
    values = {row["name"]: row["value"] for row in json.loads(capsys.readouterr().out)}
    expected = {"max_rounds": 7, "local_groups": 3, "external_groups": 5, "model": ["a", "b"], "test_mode": True}
    assert values.items() >= (expected | {"checkpoint_interval": 0, "tasks": ["bf", "arc_1d"]}).items()


def test_the_list_says_where_each_value_came_from(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text("MAX_ROUNDS = 9\n")
    environ = {"SEED": "1", "SWARM_PATH": "/x", "HUGGINGFACE_ACCESS_TOKEN": "secret", "TEST_MODE": "true"}
    rows = list_settings(NodeFlags(role="coordinator", config=str(file)), environ)
    sources = {row.name: row.source for row in rows}
    assert len(rows) == len(FIELDS)
    assert sources["role"] == "command line"
    assert sources["seed"] == "environment variable SEED"
    assert sources["path"] == "environment variable SWARM_PATH"
    assert sources["max_rounds"] == str(file)
    assert sources["local_groups"] == "TEST_MODE"
    assert sources["external_groups"] == "default"
    assert "secret" not in repr(rows)


def test_the_list_says_what_came_from_a_preset_even_where_it_is_the_default_and_test_mode_beats_it() -> None:
    environ = {"SWARM_PRESET": "paper", "SWARM_KL_WEIGHT": "0.1"}
    rows = {row.name: row for row in list_settings(NodeFlags(generations=4), environ)}
    assert (rows["learning_rate"].value, rows["learning_rate"].source) == (1e-3, "preset paper")
    assert (rows["clip_low"].value, rows["clip_low"].source) == (0.2, "preset paper")
    assert rows["kl_weight"].source == "environment variable SWARM_KL_WEIGHT"
    assert rows["generations"].source == "command line"
    assert rows["seed"].source == "default"
    rows = {row.name: row for row in list_settings(NodeFlags(preset="paper", test=True), {})}
    assert (rows["max_rounds"].value, rows["max_rounds"].source) == (3, "TEST_MODE")
    assert rows["learning_rate"].source == "preset paper"


def test_the_command_that_goes_on_names_the_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_PRESET", "paper")
    assert command_again(["swarm", "up"], RunFlags()) == "SWARM_PRESET=paper swarm up"
    monkeypatch.delenv("SWARM_PRESET")
    assert command_again(["swarm", "up"], RunFlags(preset="paper")) == "swarm up --preset paper"


def test_the_command_that_goes_on_names_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEED", "7")
    flags = RunFlags(experiment="e x", test=False, learning_rate=0.1, rounds=3)
    again = command_again(["swarm", "up", "--force"], flags, without=("rounds",))
    assert again.endswith("swarm up --force --experiment 'e x' --no-test --learning-rate 0.1")
    assert "SEED=7 " in again
    assert command_again(["swarm", "up"], None).endswith("swarm up")
