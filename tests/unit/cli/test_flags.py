"""Flags become settings, which say where they came from, and the command that goes on."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

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


QUICK = {"SEED": "1", "SWARM_PATH": "/x", "HUGGINGFACE_ACCESS_TOKEN": "secret", "TEST_MODE": "true"}
PAPER = {"SWARM_PRESET": "paper", "SWARM_KL_WEIGHT": "0.1"}


@pytest.mark.parametrize(
    ("flags", "environ", "sources"),
    [
        (
            {"role": "coordinator", "config": "s.toml"},
            QUICK,
            {"role": "command line", "seed": "environment variable SEED", "path": "environment variable SWARM_PATH"}
            | {"max_rounds": "s.toml", "local_groups": "TEST_MODE", "external_groups": "default"},
        ),
        (
            {"generations": 4},
            PAPER,
            {"learning_rate": "preset paper", "clip_low": "preset paper", "generations": "command line"}
            | {"kl_weight": "environment variable SWARM_KL_WEIGHT", "seed": "default"},
        ),
        ({"preset": "paper", "test": True}, {}, {"max_rounds": "TEST_MODE", "learning_rate": "preset paper"}),
    ],
)
def test_the_list_says_where_each_value_came_from_even_where_it_is_the_default_and_no_secret(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: dict[str, Any],
    environ: dict[str, str],
    sources: dict[str, str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text("MAX_ROUNDS = 9\n")
    rows = list_settings(NodeFlags(**flags), environ)
    assert {row.name: row.source for row in rows}.items() >= sources.items()
    assert len(rows) == len(FIELDS)
    assert "secret" not in repr(rows)


def test_the_command_that_goes_on_names_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_PRESET", "paper")
    assert command_again(["swarm", "up"], RunFlags()) == "SWARM_PRESET=paper swarm up"
    monkeypatch.delenv("SWARM_PRESET")
    assert command_again(["swarm", "up"], RunFlags(preset="paper")) == "swarm up --preset paper"
    monkeypatch.setenv("SEED", "7")
    flags = RunFlags(experiment="e x", test=False, learning_rate=0.1, rounds=3)
    again = command_again(["swarm", "up", "--force"], flags, without=("rounds",))
    assert again == "SEED=7 swarm up --force --experiment 'e x' --no-test --learning-rate 0.1"
    assert command_again(["swarm", "up"], None) == "SEED=7 swarm up"
