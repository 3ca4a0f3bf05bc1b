"""What is believed of the Syncthing of this machine."""

from __future__ import annotations

from typing import Any

import pytest

from swarm.errors import StoreError
from swarm.plugins.syncthing.syncthing import LARGEST_ANSWER, Syncthing
from tests.unit.store.endless import FAR_TOO_MUCH, endless


def test_an_answer_without_end_is_none() -> None:
    with endless() as (port, sent), pytest.raises(StoreError):
        Syncthing("127.0.0.1", port, "key").ask("system/status", dict[str, Any])
    assert LARGEST_ANSWER < sent.bytes < FAR_TOO_MUCH
