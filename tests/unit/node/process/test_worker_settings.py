"""Several workers from one set of settings."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.config import Settings
from swarm.errors import ConfigError
from swarm.node.process.worker_settings import readable_name, settings_of_workers
from swarm.wire.keys import is_node_id, node_of


def test_models_are_dealt_out_in_turn_and_everything_else_is_the_same() -> None:
    settings = Settings(node_id="w", model=("x", "y"), seed=7, role="coordinator")
    workers = settings_of_workers(settings, range(3))
    assert [(w.node_id, w.model) for w in workers] == [("w-0", ("x",)), ("w-1", ("y",)), ("w-2", ("x",))]
    assert {(w.seed, w.role) for w in workers} == {(7, "worker")}
    assert settings_of_workers(settings, range(1, 3)) == workers[1:]


def test_workers_without_a_name_get_one_each() -> None:
    assert len({worker.node_id for worker in settings_of_workers(Settings(), range(20))}) == 20


def test_a_name_that_leaves_no_room_for_numbers_is_refused() -> None:
    with pytest.raises(ConfigError, match="too long for 11 workers"):
        settings_of_workers(Settings(node_id="n" * 62), range(11))


# ── names of nodes that were given none ───────────────────────────────────────────────────────────────────────────────
@given(st.integers())
def test_a_generated_name_is_a_node_id_that_people_can_say(seed: int) -> None:
    name = readable_name(Random(seed))
    assert re.fullmatch(r"[a-z]+-[a-z]+-[0-9a-f]{4}", name)
    assert is_node_id(name)
    assert node_of(f"{name}.json") == name
