"""Names of one's own that some systems keep for devices; names of others are read as ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.cli.main import run
from swarm.config import load_settings
from swarm.config.file_names import why_reserved
from swarm.errors import ConfigError
from swarm.wire import keys


@pytest.mark.parametrize("name", ["CON", "con", "nul.txt", "Aux.b.c", "PRN", "com1", "LPT9.log"])
def test_nobody_begins_a_name_that_windows_keeps_for_a_device(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Windows"):
        load_settings({}, {"NODE_ID": name})
    where = ["--path", str(tmp_path), "--experiment", name]
    assert run(["node", "--role", "coordinator", *where]) == 2
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["console", "nul-0", "com10", "anna.con", "com", "lpt0"])
def test_names_that_only_look_alike_are_taken(name: str) -> None:
    assert not why_reserved(name)
    assert load_settings({}, {"NODE_ID": name}).node_id == name


def test_a_strangers_reserved_name_is_read_as_ever() -> None:
    assert keys.node_of("CON.json") == "CON"
    assert keys.owner_of("rewards/round_0/stage_0/nul.txt.json") == "nul.txt"
