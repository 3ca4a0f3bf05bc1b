"""A swarm over three real Syncthings: set up by its commands, broken in the middle, attacked at the end.

Figures of 30 rounds are in docs/replicated.md; `python -m tests.plugins.syncthing.replicated` measures them anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.syncthing.replicated import NAMES, run_trial

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("syncthing")]
ROUNDS = 6


def test_three_machines_share_a_run_and_nobody_writes_for_another(tmp_path: Path) -> None:
    found, said = run_trial(tmp_path, ROUNDS)
    for node, heard in found["groups of each peer"].items():
        assert {*heard} == {*NAMES} - {node}, f"{node} trained on groups of {heard}"
    assert found["checkpoints of ben"] == {"lab": False, "ben": True, "eva": False}
    assert not any(found["seen elsewhere"].values()), found
    assert "replicated: this machine is ben, invited by lab; 2 of 2 others are connected" in said
