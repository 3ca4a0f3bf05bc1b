"""Two nodes of a real model that guess numbers in three turns: what is said, verified, and left by a kill -9."""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import Any

import pytest

from swarm.tasks.python.template import CONVERSATION, SETTINGS
from tests.integration.swarms import events, rollouts, rows
from tests.integration.test_redo import comparable, last_weights, run

pytestmark = pytest.mark.engine

NODES, ROUNDS = ("w0", "w1"), 5


def turns_of(path: Path) -> list[list[str]]:
    """Of every published completion, the replies to its turns."""
    files = [file for node in NODES for file in rollouts(path, node).values()]
    entries: list[dict[str, Any]] = [entry for file in files for group in file["rollouts"].values() for entry in group]
    return [[turn["reply"] for turn in entry.get("turns", [])] for entry in entries]


@pytest.mark.slow
def test_a_swarm_that_converses_ends_after_kills_as_if_nothing_had_happened(tmp_path: Path) -> None:
    (tmp_path / "guess.py").write_text(CONVERSATION.format(name="guess"))
    (tmp_path / "guess.toml").write_text(SETTINGS.format(name="guess"))
    config = ("--config", str(tmp_path / "guess.toml"))
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for path, ends in ((whole, []), (broken, [signal.SIGKILL, signal.SIGKILL])):
        run(path, len(NODES), ends, random.Random(), arguments=config, MAX_ROUNDS=ROUNDS, NUM_TRANSPLANT_TREES=2)
    said = turns_of(whole)
    assert {len(replies) for replies in said} <= {0, 1, 2}
    assert any(len(replies) == 2 for replies in said)
    for node in NODES:
        assert not any(row["refused_files"] for row in rows(whole, node))
        assert all(row["turns_mean"] > 1 for row in rows(whole, node))
        assert not events(broken, node, "rounds.lost")
        assert comparable(broken, node) == comparable(whole, node)
        assert rollouts(broken, node) == rollouts(whole, node)
        assert last_weights(broken, node, ROUNDS) == last_weights(whole, node, ROUNDS)
