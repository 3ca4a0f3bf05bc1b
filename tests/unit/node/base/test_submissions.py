"""Which rewards count."""

from __future__ import annotations

from typing import Any

import pytest

from swarm.errors import StoreError
from swarm.node.base.attendance import MOST_READ, Submissions
from swarm.store.base import Page
from swarm.store.folder.store import FolderStore
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import encode
from tests.layout import Layout
from tests.unit.node.factories import make_rollouts, put, put_reward, run_of

R0, R1 = RoundKey(0), RoundKey(1)


def bare_reward(layout: Layout, key: RoundKey, node: str) -> None:
    """A reward without rollouts."""
    put_reward(layout, key, node)
    layout.rollout_file(key, node).unlink()


def test_a_reward_with_its_rollouts_counts_and_proves_its_node(layout: Layout) -> None:
    put_reward(layout, R0, "bob")
    submissions = Submissions(run_of(layout))
    assert submissions.of(R0) == {"bob"}
    assert submissions.proven == {"bob"}


def test_what_is_no_reward_or_another_ones_counts_for_nothing(layout: Layout) -> None:
    """Three fakes with files that held `x` moved a clock by 500 rounds."""
    put_reward(layout, R1, "bob")
    for node, content in (("x", b"x"), ("empty", b""), ("moved", layout.reward_file(R1, "bob").read_bytes())):
        put(layout.rollout_file(R0, node), encode(make_rollouts(node, R0)))
        put(layout.reward_file(R0, node), content)
    layout.reward_file(R0, "folder").mkdir(parents=True)
    layout.reward_file(R0, "link").symlink_to(layout.reward_file(R1, "bob"))
    assert Submissions(run_of(layout)).of(R0) == frozenset()


def test_a_reward_without_rollouts_counts_only_of_a_node_that_was_seen_to_publish(layout: Layout) -> None:
    put_reward(layout, R0, "bob")
    for node in ("bob", "fake"):
        bare_reward(layout, R1, node)
    submissions = Submissions(run_of(layout))
    assert submissions.of(R1) == frozenset()
    submissions.of(R0)
    assert submissions.of(R1) == {"bob"}


def test_what_stands_in_the_place_of_a_rounds_rollouts_costs_nobody_his_reward(layout: Layout) -> None:
    put_reward(layout, R0, "bob")
    layout.rollout_file(R0, "bob").unlink()
    layout.rollouts_of(R0).rmdir()
    put(layout.rollouts_of(R0), b"a file")
    assert Submissions(run_of(layout)).of(R0) == {"bob"}


def test_while_rollouts_cannot_be_listed_bare_rewards_of_strangers_prove_nobody(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount that was lost for a moment gave them a say for ever."""
    put_reward(layout, R0, "bob")
    bare_reward(layout, R0, "fake")
    submissions, usual = Submissions(run_of(layout)), FolderStore.list

    def fails(store: FolderStore, prefix: str, **more: Any) -> Page:
        if prefix.startswith(keys.ROLLOUTS):
            raise StoreError("Stale file handle")
        return usual(store, prefix, **more)

    with monkeypatch.context() as moment:
        moment.setattr(FolderStore, "list", fails)
        assert submissions.of(R0) == frozenset()
    assert submissions.of(R0) == {"bob"}


def test_a_file_is_read_once_and_again_when_it_has_become_another(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_reward(layout, R0, "bob")
    put(layout.reward_file(R0, "x"), b"x")
    submissions, read, usual = Submissions(run_of(layout)), list[str](), FolderStore.get
    monkeypatch.setattr(FolderStore, "get", lambda store, key, limit: (read.append(key), usual(store, key, limit))[1])
    for _ in range(3):
        submissions.of(R0)
    assert len(read) == 2
    put_reward(layout, R0, "x")
    assert submissions.of(R0) == {"bob", "x"}


def test_nobody_takes_a_reward_back_that_was_found(layout: Layout) -> None:
    put_reward(layout, R0, "bob")
    submissions = Submissions(run_of(layout))
    assert submissions.of(R0) == {"bob"}
    put(layout.reward_file(R0, "bob"), b"written over by a stranger")
    assert submissions.of(R0) == {"bob"}


def test_a_flood_of_files_does_not_keep_those_out_who_have_published_before(layout: Layout) -> None:
    put_reward(layout, R0, "bob")
    submissions = Submissions(run_of(layout))
    submissions.of(R0)
    for number in range(MOST_READ):
        put(layout.reward_file(R1, f"a-{number:04}"), b"x")
    put_reward(layout, R1, "bob")
    assert submissions.of(R1) == {"bob"}
