"""Settings that are tables: said at once or key by key, and one value to whoever reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from swarm.cli.main import run
from swarm.config import Settings, load_settings
from swarm.config.constraints import as_text, choices
from swarm.config.settings import FIELDS
from swarm.errors import ConfigError
from tests.unit.test_config import load, refusal, toml

KEYS = [(name, *at) for name, at in FIELDS.tables.by_flat_name.items()]


def from_file(tmp_path: Path, text: str, environ: dict[str, str] | None = None, **flags: Any) -> Settings:
    return load_settings(flags, environ or {}, toml(tmp_path, text))


def test_a_table_is_said_at_once_or_key_by_key(tmp_path: Path) -> None:
    at_once = load({"SWARM_LIMITS": '{"max_peers": 9, "peer_groups": 3}'})
    assert (at_once.limits.max_peers, at_once.limits.peer_groups) == (9, 3)
    assert at_once == load({"SWARM_MAX_PEERS": "9", "SWARM_PEER_GROUPS": "3"})
    assert at_once == from_file(tmp_path, "[limits]\nmax_peers = 9\npeer_groups = 3")
    assert at_once == from_file(tmp_path, "limits.max_peers = 9\nSWARM_PEER_GROUPS = 3")
    assert at_once == from_file(tmp_path, "max_peers = 9\npeer_groups = 3")


def test_a_value_that_is_no_table_is_that_of_the_main_key(tmp_path: Path) -> None:
    lora = load({"SWARM_ADAPTER": "lora", "SWARM_ADAPTER_RANK": "8"})
    assert (lora.adapter.kind, lora.adapter.rank, lora.adapter.alpha) == ("lora", 8, 32.0)
    assert lora == load({"SWARM_ADAPTER": '{"kind": "lora", "rank": 8}'})
    assert lora == load(adapter='{"kind": "lora", "rank": 8}')
    assert lora == from_file(tmp_path, 'adapter = {kind = "lora", rank = 8}')


def test_each_key_is_taken_from_the_source_that_counts_most(tmp_path: Path) -> None:
    file = '[adapter]\nkind = "lora"\nrank = 4\nalpha = 8.0'
    found = from_file(tmp_path, file, {"SWARM_ADAPTER": '{"rank": 6, "alpha": 9.0}'}, adapter='{"alpha": 10.0}')
    assert (found.adapter.kind, found.adapter.rank, found.adapter.alpha) == ("lora", 6, 10.0)


@pytest.mark.parametrize("name", [name for name, *_ in KEYS])
def test_a_record_of_before_tables_and_a_variable_of_then_mean_the_same_now(name: str) -> None:
    table, key = FIELDS.tables.by_flat_name[name]
    assert name in Settings().as_recorded()
    f = FIELDS[name]
    options = f.type if f.default is not None else get_args(f.type)[0]
    others = [choice for choice in choices(options) if choice != f.default]
    value = others[0] if others else "4.5" if isinstance(f.default, float) else "70000"
    value = "7" if name in ("adapter_rank", "peer_groups", "max_peers", "weight_decay") else value
    found = load({f"SWARM_{name.upper()}": value})
    assert found.as_environment() == {f"SWARM_{name.upper()}": as_text(found.value(name))}
    assert getattr(getattr(found, table), key) == found.value(name) != Settings().value(name)
    assert Settings().with_values({name: found.value(name)}) == found


NO_TABLE = "SWARM_LIMITS (limits) must be a JSON object; in a settings file a table, of max_file_bytes, peer"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"max_peer": 1}', ["SWARM_LIMITS (limits) has no key 'max_peer'", "did you mean 'max_peers'?"]),
        ('{"x": 1}', ["; expected some of max_file_bytes, peer_groups"]),
        ('{"max_peers": 0}', ["SWARM_MAX_PEERS (limits.max_peers) must be a whole number from 1 to 65536, got 0 from"]),
        *((text, [NO_TABLE]) for text in ("9", "[1]", '{"max_peers": 9', "max_peers=9")),
    ],
)
def test_what_is_no_table_or_has_a_wrong_key_is_refused_by_its_name(text: str, said: list[str]) -> None:
    message = refusal({"SWARM_LIMITS": text})
    assert [part for part in [*said, "from the environment variable SWARM_LIMITS"] if part not in message] == []


def test_a_wrong_value_of_the_main_key_is_refused_as_the_tables(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"SWARM_ADAPTER \(adapter\) must be one of none, lora, got 'whole' from"):
        from_file(tmp_path, 'adapter = "whole"')


def test_a_key_with_two_values_is_refused_in_one_source_alone(tmp_path: Path) -> None:
    both = {"SWARM_LIMITS": '{"max_peers": 9}', "SWARM_MAX_PEERS": "8"}
    assert "limits.max_peers has two values, from the environment variable SWARM_LIMITS and from" in refusal(both)
    assert load(both | {"SWARM_MAX_PEERS": "9"}).limits.max_peers == 9
    assert from_file(tmp_path, "max_peers = 7", {"SWARM_LIMITS": '{"max_peers": 9}'}).limits.max_peers == 9


def test_a_table_has_one_line_and_each_key_an_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["settings", "--adapter", '{"kind": "lora", "rank": 8}']) == 0
    lines = capsys.readouterr().out.splitlines()
    (shown,) = [line for line in lines if line.startswith("  adapter ")]
    assert '{"kind":"lora","rank":8}' in shown
    assert not [line for line in lines if "adapter_rank" in line or "max_peers " in line]
    for word in ("limits", "SWARM_LIMITS", "max_peers", "limits.max_peers", "SWARM_MAX_PEERS"):
        assert run(["settings", word]) == 0
        assert "limits.max_peers\n  Peers whose files are read in one round" in capsys.readouterr().out
