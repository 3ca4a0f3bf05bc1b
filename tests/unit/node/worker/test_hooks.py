"""Where a feature may join in a round, each hook seen by what it changes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from swarm.node.worker.context import PublishingHook
from swarm.node.worker.hooks import Hooks, Peers, PluginHooks
from swarm.node.worker.steps import External, OpenedRound, PlayedRound, Seconds
from swarm.types import RoundKey
from swarm.wire.codec import encode
from swarm.wire.messages import RolloutFile
from swarm.wire.metrics import MetricsRow
from tests.distributions import install
from tests.layout import Layout
from tests.unit.node.factories import FakePolicy, make_ghost, make_rollouts, put
from tests.unit.node.nodes import make_worker, released, rollouts_of, rows_of, running, set_clock, until

pytestmark = pytest.mark.anyio

R0 = RoundKey(0)


class Witness:
    """A feature that joins in everywhere."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def draw(self, opened: OpenedRound, drawn: External) -> External:
        self.said.append(f"drawn {len(drawn.groups)} for round {opened.key.round}")
        return replace(drawn, groups=drawn.groups[:1])

    async def update(self, opened: OpenedRound, seconds: Seconds, peers: Peers) -> None:
        self.said.append(f"updated among {sorted(peers.live())}")

    def fill(self, row: MetricsRow, played: PlayedRound) -> None:
        self.said.append(f"row of {len(played.drawn.groups)}")
        row.pool_examined = 77

    async def end(self, row: MetricsRow, rounds_trained: int) -> None:
        self.said.append(f"submitted after {rounds_trained} updates")


async def test_a_feature_joins_in_after_the_drawing_and_the_update_in_the_row_and_after_it(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness, policy = Witness(), FakePolicy()
    hooks = Hooks((witness.draw,), (witness.update,), (witness.fill,), (witness.end,))
    monkeypatch.setattr("swarm.node.worker.worker.hooks_of", lambda *_: hooks)
    make_ghost(layout, "bob")
    async with running(make_worker(layout, "alice", policy, liveness_timeout=60.0)):
        await set_clock(layout, 0)
        await until(layout.rollout_file(R0, "alice").exists)
        put(layout.rollout_file(R0, "bob"), encode(make_rollouts("bob", R0)))
        await until(lambda: len(witness.said) == 4)
    drawn, *after = witness.said
    assert drawn == "drawn 2 for round 0"
    assert after == ["updated among ['bob']", "row of 1", "submitted after 1 updates"]
    assert [group.external for group in policy.trained[0]] == [False, False, True]
    (row,) = rows_of(layout, "alice")
    assert (row.external_groups, row.pool_examined) == (1, 77)


async def test_what_is_changed_before_publishing_is_taken_back_by_the_node_that_comes_back(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_first(file: RolloutFile, before: str, after: str) -> RolloutFile:
        rollouts = {
            slot: [msgspec.structs.replace(one, response=after + one.response.removeprefix(before)) for one in entries]
            for slot, entries in file.rollouts.items()
        }
        return msgspec.structs.replace(file, rollouts=rollouts)

    hook = PublishingHook(lambda file: put_first(file, "", "loud "), lambda file: put_first(file, "loud ", ""))
    monkeypatch.setattr("swarm.node.worker.worker.plugin_hooks_of", lambda _: PluginHooks(before_publishing=(hook,)))
    policy = FakePolicy(hold_at="train")
    with released(policy):
        async with running(make_worker(layout, "alice", policy, external_groups=0)):
            await set_clock(layout, 0)
            await until(policy.holding.is_set)
    published = [one.response for entries in rollouts_of(layout, 0, "alice").rollouts.values() for one in entries]
    assert all(text.startswith("loud ") for text in published)
    again = FakePolicy()
    async with running(make_worker(layout, "alice", again, external_groups=0)):
        await until(lambda: again.trained)
    assert [f"loud {one.text}" for group in again.trained[0] for one in group.completions] == published


SETTINGS = """
from dataclasses import dataclass
from swarm.config.constraints import setting
from swarm.config.plugin_settings import PluginSettings

@dataclass(frozen=True, kw_only=True)
class SeventySeven(PluginSettings):
    seventy_seven: bool = setting(False, "SWARM_SEVENTY_SEVEN")
"""
JOINING = """
import msgspec
from swarm.node.worker.hooks import Hooks, PluginHooks

def join(ctx):
    def fill(row, played):
        row.pool_examined = 77
    def change(file):
        return msgspec.structs.replace(file, model="seventy-seven")
    return [PluginHooks(registration=(change,), rounds=lambda ctx, generator, trainer: Hooks(columns=(fill,)))]
"""
PLAYING = """
import sys, anyio
from pathlib import Path
from swarm.config import load_settings
from swarm.records.files import read_peer
from tests.layout import Layout
from tests.unit.node.factories import run_of
from tests.unit.node.nodes import make_worker, play_to_the_end, rows_of

layout = Layout(Path(sys.argv[1]), "exp")
anyio.run(play_to_the_end, layout, range(2), make_worker(layout, "alice", seventy_seven=sys.argv[2] == "on"))
models = read_peer(run_of(layout, "carol"), "alice").model
print(models, [row.pool_examined for row in rows_of(layout, "alice")], "joins_77" in sys.modules)
"""


@pytest.mark.parametrize(("on", "said"), [("on", "seventy-seven [77, 77] True"), ("off", "fake [0, 0] False")])
def test_a_plugin_from_outside_joins_in_where_its_settings_turn_it_on(tmp_path: Path, on: str, said: str) -> None:
    groups = {"swarm.settings": {"odd": "settings_77:SeventySeven"}, "swarm.hooks": {"odd": "joins_77:join"}}
    folder = install(tmp_path / "installed", "odd", groups, settings_77=SETTINGS, joins_77=JOINING)
    env = {**os.environ, "PYTHONPATH": f"{folder}:{Path(__file__).parents[4]}"}
    command = [sys.executable, "-c", PLAYING, str(tmp_path / "place"), on]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == [said], done.stderr
