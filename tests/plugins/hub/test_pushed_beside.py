"""What runs beside a swarm whose models are pushed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from swarm.cli.supervisor import ProgramBeside, programs_beside
from swarm.config import Settings
from swarm.errors import ConfigError

SETTINGS = Settings(path="/p", hub_token="hf_secret", threads=1).with_values({"push_repo": "lab/x"})


def commands(settings: Settings, nodes: int) -> Sequence[ProgramBeside]:
    return programs_beside(settings, [f"worker-{number}" for number in range(nodes)])


def test_each_of_several_workers_is_pushed_to_a_repository_of_its_own_and_no_token_stands_in_a_command() -> None:
    first, second = commands(SETTINGS.with_values({"push_every": 50}), 2)
    assert first.command == (
        "swarm model push worker-0 --repo lab/x-worker-0 --follow --every 50 --path /p --experiment default_experiment"
    )
    assert second.title == "push of worker-1"
    assert dict(first.settings) == {"HUGGINGFACE_ACCESS_TOKEN": "hf_secret"}
    (alone,) = commands(SETTINGS, 1)
    assert "--repo lab/x --follow --path" in alone.command


def test_a_name_that_the_hub_would_not_take_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match=r"SWARM_PUSH_REPO: expected a repository as USER/NAME"):
        commands(SETTINGS.with_values({"push_repo": "lab/.."}), 1)
