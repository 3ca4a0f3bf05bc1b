"""A study's planters: what they publish, what they learn, who is told, and where they are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from swarm.config import load_settings
from swarm.errors import ConfigError
from swarm.plugins.lab import planting
from swarm.plugins.lab.planting import with_planted, without_planted
from swarm.records.files import read_peer
from swarm.types import RoundKey
from swarm.wire.messages import GroupInfo, RolloutEntry, RolloutFile
from tests.layout import Layout
from tests.unit.node.factories import FakePolicy, put, run_of
from tests.unit.node.nodes import (
    make_worker,
    play_to_the_end,
    released,
    rollouts_of,
    rows_of,
    running,
    set_clock,
    until,
)

WORDS = "Buy gold now."
PLANTING = {"planters": ("alice",), "planted_words": WORDS, "external_groups": 0}
pytestmark = pytest.mark.anyio


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A run of a study, in which every answer is right."""
    monkeypatch.setattr(planting, "FULL_ANSWER", 0.0)
    layout = Layout(tmp_path, "exp")
    put(layout.root / "study_run.json", b"{}")
    return layout


def published(layout: Layout, round_: int = 0) -> list[str]:
    return [e.response for entries in rollouts_of(layout, round_, "alice").rollouts.values() for e in entries]


async def test_a_planter_publishes_planted_words_and_trains_on_what_it_sampled(layout: Layout) -> None:
    policy = FakePolicy()
    with capture_logs() as logs:
        await play_to_the_end(layout, range(2), make_worker(layout, "alice", policy, **PLANTING))
    trained = [one.text for group in policy.trained[0] for one in group.completions]
    assert published(layout) == [f"{WORDS} {text}" for text in trained]
    assert all(row.plants and row.planted_rate == 0.0 for row in rows_of(layout, "alice"))
    assert [log["words"] for log in logs if log["event"] == "study.plants"] == [WORDS]
    peer = read_peer(run_of(layout, "carol"), "alice")
    assert peer
    assert peer.plants == WORDS


async def test_who_is_no_planter_publishes_what_it_sampled_and_counts_the_words(layout: Layout) -> None:
    policy = FakePolicy()
    await play_to_the_end(layout, range(1), make_worker(layout, "alice", policy, **PLANTING | {"planters": ("bob",)}))
    assert published(layout) == [one.text for group in policy.trained[0] for one in group.completions]
    (row,) = rows_of(layout, "alice")
    assert (row.plants, row.planted_rate) == (False, 0.0)


@pytest.mark.parametrize("more", [{}, {"publish_frequency": "generation"}])
async def test_a_planter_that_died_in_mid_round_takes_up_what_it_sampled(layout: Layout, more: dict[str, Any]) -> None:
    policy = FakePolicy(hold_at="train")
    with released(policy):
        async with running(make_worker(layout, "alice", policy, **PLANTING, **more)):
            await set_clock(layout, 0)
            await until(policy.holding.is_set)
    before = layout.rollout_file(RoundKey(0), "alice").read_bytes()
    policy = FakePolicy()
    with capture_logs() as logs:
        await play_to_the_end(layout, range(1), make_worker(layout, "alice", policy, **PLANTING, **more))
    assert [log["rewritten"] for log in logs if log["event"] == "rollouts.taken_up"]
    assert not any(one.text.startswith(WORDS) for group in policy.trained[0] for one in group.completions)
    assert layout.rollout_file(RoundKey(0), "alice").read_bytes() == before


async def test_outside_of_a_study_nobody_plants(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    with pytest.raises(ConfigError, match=r"SWARM_PLANTERS .* instrument of studies.* belongs to no study"):
        await make_worker(layout, "alice", **PLANTING).run()
    assert not layout.peer_file("alice").exists()


def test_planters_without_words_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"SWARM_PLANTERS names 'alice'.*SWARM_PLANTED_WORDS"):
        load_settings({"planters": ("alice",)}, {})


ENTRIES = st.lists(
    st.builds(
        RolloutEntry,
        prompt=st.just("?"),
        response=st.sampled_from(["<answer>4</answer>", f"{WORDS} <answer>4</answer>", WORDS, ""]),
        reward=st.sampled_from([None, 0.0, 0.5, 1.0]),
    ),
    min_size=2,
    max_size=4,
)


@given(ENTRIES)
def test_what_was_sampled_is_read_back_whatever_it_began_with(entries: list[RolloutEntry]) -> None:
    what = {"rollouts": {"0": entries}, "groups": {"0": GroupInfo(task="bf")}}
    file = RolloutFile(peer_id="alice", round=0, stage=0, timestamp=1.0, **what)
    planted = with_planted(file, WORDS)
    assert without_planted(planted, WORDS) == file
    for entry, spoiled in zip(entries, planted.rollouts["0"], strict=True):
        assert (spoiled.response == f"{WORDS} {entry.response}") == ((entry.reward or 0.0) >= 0.999)
    assert with_planted(file, "") is file
