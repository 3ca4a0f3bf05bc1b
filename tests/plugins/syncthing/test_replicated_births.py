"""Who gives a replicated experiment its id."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from swarm.errors import StoreError
from tests.conformance.test_births import Machine, born_in
from tests.plugins.syncthing.worlds import ReplicatedFarAway


def test_in_a_replicated_folder_the_host_alone_gives_birth_and_its_members_come_to_its_id(tmp_path: Path) -> None:
    with ExitStack() as undo:
        world = ReplicatedFarAway(tmp_path, undo)
        eva = Machine(tmp_path, "eva", world.as_seen_by("eva", tmp_path / "eva's machine", "eva"))
        with pytest.raises(StoreError, match="lab's"):
            eva.claim()
        assert eva.id_after_a_while() is None
        Machine(tmp_path, "lab", world.open("lab")).claim()
        assert eva.id_after_a_while() == born_in(world.open())
