"""Names of nodes that were given none."""

from __future__ import annotations

import re
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from swarm.node.process.worker_settings import readable_name
from swarm.wire.keys import is_node_id, node_of


@given(st.integers())
def test_a_generated_name_is_a_node_id_that_people_can_say(seed: int) -> None:
    name = readable_name(Random(seed))
    assert re.fullmatch(r"[a-z]+-[a-z]+-[0-9a-f]{4}", name)
    assert is_node_id(name)
    assert node_of(f"{name}.json") == name
