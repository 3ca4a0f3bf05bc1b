"""Several workers from one set of settings."""

from __future__ import annotations

import pytest

from swarm.config import Settings
from swarm.errors import ConfigError
from swarm.node.process.worker_settings import settings_of_workers


def test_models_are_dealt_out_in_turn_and_everything_else_is_the_same() -> None:
    settings = Settings(node_id="w", model=("x", "y"), seed=7, role="coordinator")
    workers = settings_of_workers(settings, 3)
    assert [(w.node_id, w.model) for w in workers] == [("w-0", ("x",)), ("w-1", ("y",)), ("w-2", ("x",))]
    assert {(w.seed, w.role) for w in workers} == {(7, "worker")}


def test_workers_without_a_name_get_one_each() -> None:
    assert len({worker.node_id for worker in settings_of_workers(Settings(), 20)}) == 20


def test_a_name_that_leaves_no_room_for_numbers_is_refused() -> None:
    with pytest.raises(ConfigError, match="too long for 11 workers"):
        settings_of_workers(Settings(node_id="n" * 62), 11)
