"""Whoever reads the documented folder with a few lines of his own finds the same groups at every frequency."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.layout import Layout
from tests.unit.node.factories import FakePolicy
from tests.unit.node.nodes import make_worker, play_to_the_end

pytestmark = pytest.mark.anyio
ROUNDS = 2


def read(run: Path) -> Counter[tuple[str, int, str]]:
    """How often each group is found, by node, round and its texts: a reader that knows of nothing but the form."""
    found: Counter[tuple[str, int, str]] = Counter()
    for name in sorted(run.glob("rollouts/round_*/stage_*/*.json")):
        file = json.loads(name.read_text())
        for completions in file["rollouts"].values():
            texts = [completion["response"] for completion in completions]
            found[file["peer_id"], file["round"], json.dumps(texts)] += 1
    return found


async def published(path: Path, frequency: str) -> Counter[tuple[str, int, str]]:
    layout = Layout(path / frequency, "exp")
    settings = {"publish_frequency": frequency, "local_groups": 3, "external_groups": 0}
    for node in ("alice", "bob"):  # one after the other: nothing is waited for
        await play_to_the_end(layout, range(ROUNDS), make_worker(layout, node, FakePolicy(), **settings), node)
    return read(layout.root)


async def test_a_plain_reader_finds_the_same_groups_at_every_frequency_and_each_once(tmp_path: Path) -> None:
    stage, round_, generation = [await published(tmp_path, one) for one in ("stage", "round", "generation")]
    assert generation == stage == round_
    assert (len(stage), set(stage.values())) == (2 * 3 * ROUNDS, {1})
    one_each = sorted(file.name for file in (tmp_path / "generation").rglob("rollouts/round_1/stage_0/*.json"))
    assert one_each == ["alice.0.json", "alice.1.json", "alice.json", "bob.0.json", "bob.1.json", "bob.json"]
