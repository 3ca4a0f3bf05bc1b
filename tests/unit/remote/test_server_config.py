"""What of a node's settings a generation server cannot do is refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swarm.cli.main import run as swarm
from swarm.config import Settings
from swarm.errors import ConfigError
from swarm.node.process import wiring
from swarm.remote.server_config import server_config
from tests.unit.node.factories import make_settings

URL = "http://127.0.0.1:8000"


def settings(tmp_path: Path, **more: Any) -> Settings:
    return make_settings(tmp_path, **{"generation_server": URL, "adapter": "lora", **more})


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"adapter": "none"}, "expected SWARM_ADAPTER=lora, got none"),
        ({"max_reasoning_tokens": 9}, "expected no SWARM_MAX_REASONING_TOKENS, got 9"),
        ({"temperature": 0.7, "top_p": 0.9}, "expected SWARM_TEMPERATURE=1, or neither SWARM_TOP_P"),
        ({"temperature": 0.7, "top_k": 5}, "got 0.7 with some of them"),
        ({"temperature": 0.7, "min_p": 0.1}, "got 0.7 with some of them"),
        ({"role": "generator"}, "only a worker has it, got NODE_ROLE 'generator'"),
        ({"generation_server": "127.0.0.1:8000"}, "SWARM_GENERATION_SERVER must be a URL"),
        ({"generation_server": "http://u:p@h"}, "SWARM_GENERATION_SERVER must have no user, password"),
        ({"generation_server": "http://far", "generation_server_key": "secret"}, "would go unencrypted to http://far"),
        ({"generation_server_key": "a b"}, "SWARM_GENERATION_SERVER_KEY: what it holds is no key"),
    ],
)
def test_settings_that_no_server_can_honour_are_refused_before_anything_starts(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        wiring.check(settings(tmp_path, **more))
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_swarm_with_such_settings_is_refused_before_any_of_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert swarm(["up", "--path", str(tmp_path / "shared"), "--generation-server", URL]) == 2
    assert "expected SWARM_ADAPTER=lora, got none" in capsys.readouterr().err
    assert not (tmp_path / "shared").exists()


@pytest.mark.parametrize("more", [{}, {"temperature": 0.7}, {"top_p": 0.9}, {"top_k": 5, "min_p": 0.1}])
def test_settings_that_it_can_honour_are_not(tmp_path: Path, more: dict[str, Any]) -> None:
    wiring.check(settings(tmp_path, **more))


def test_a_node_without_a_server_has_none_nor_does_a_clock_with_its_workers_settings(tmp_path: Path) -> None:
    assert server_config(make_settings(tmp_path), "a") is None
    coordinator = settings(tmp_path, role="coordinator")
    wiring.check(coordinator)
    assert server_config(coordinator, "c") is None


@pytest.mark.parametrize("url", [URL, f"{URL}/", f"{URL}/v1", f"{URL}/v1/"])
def test_the_url_may_name_the_api_or_not(tmp_path: Path, url: str) -> None:
    made = server_config(settings(tmp_path, generation_server=url), "a")
    assert made
    assert made.url == URL


def test_nodes_of_other_places_experiments_and_names_have_names_and_folders_of_their_own(tmp_path: Path) -> None:
    made = [
        server_config(settings(tmp_path / place, experiment=experiment, adapter_folder=str(tmp_path)), node)
        for place in ("p", "q")
        for experiment in ("x", "y")
        for node in ("a", "b")
    ]
    assert len({one.prefix for one in made if one}) == len({one.folder for one in made if one}) == 8


def test_adapters_are_kept_out_of_the_shared_folder(tmp_path: Path) -> None:
    made = server_config(settings(tmp_path / "shared", key_folder=str(tmp_path / "private")), "a")
    assert made
    assert made.folder.parent == tmp_path / "private" / "adapters"


@pytest.mark.parametrize(
    ("more", "cap"),
    [
        ({}, 2.0),
        ({"importance_cap": 0.0}, 0.0),
        ({"importance_cap": 5.0}, 5.0),
        ({"generation_server": None}, 0.0),
        ({"generation_server": None, "importance_cap": 5.0}, 5.0),
    ],
)
def test_tokens_of_a_server_are_weighed_unless_somebody_says_otherwise(
    tmp_path: Path, more: dict[str, Any], cap: float
) -> None:
    assert settings(tmp_path, **more).token_weight_cap == cap


def test_the_key_is_shown_nowhere(tmp_path: Path) -> None:
    made = settings(tmp_path, generation_server_key="very-secret")
    assert "very-secret" not in f"{made.as_recorded()}{server_config(made, 'a')}"
