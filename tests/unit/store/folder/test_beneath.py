"""Whatever links a vandal puts into an experiment, nothing outside of it is read, written or removed."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from swarm.errors import ProtocolError, StoreError
from swarm.records.growing import lines_of
from swarm.records.listing import count_files, count_stage
from swarm.records.rows import read_rows
from swarm.store.base import get_many
from swarm.store.folder.beneath import (
    Within,
    is_folder,
    make_folder,
    open_beneath,
    opened_folder,
    prune,
    remove_tree,
    rename_beneath,
)
from swarm.types import RoundKey
from swarm.wire import keys
from tests.layout import Layout

KEY = RoundKey(9)


def vandalized(tmp_path: Path, *, link: str) -> tuple[Layout, Path]:
    """An experiment with one of its folders replaced by a link to a folder outside that looks just like it."""
    layout, outside = Layout(tmp_path / "shared", "demo"), tmp_path / "outside"
    fill(Layout(tmp_path / "elsewhere", "demo"))
    (tmp_path / "elsewhere" / "experiments" / "demo").rename(outside)
    fill(layout)
    place = layout.root / link
    place.rename(tmp_path / "what was there")
    place.symlink_to(outside / link)
    return layout, outside


def fill(layout: Layout) -> None:
    for file in (
        layout.rollout_file(KEY, "anna"),
        layout.reward_file(KEY, "anna"),
        layout.peer_file("anna"),
        layout.metrics_file("anna"),
        layout.checkpoint(5, "anna") / "model" / "weights",
        layout.temporary("anna") / "half",
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"{}\n")


def within(layout: Layout, key: str) -> Within:
    return Within(layout.root, tuple(key.split("/")))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


FOLDERS = ["rollouts", "rollouts/round_9", "rollouts/round_9/stage_0"]


@pytest.mark.parametrize("link", FOLDERS)
def test_what_lies_behind_a_linked_folder_is_refused_and_not_listed(tmp_path: Path, link: str) -> None:
    layout, _ = vandalized(tmp_path, link=link)
    read = get_many(layout.run.store, [keys.rollout(KEY, "anna"), keys.rollout(KEY, "ben")], 1000)
    assert [isinstance(one, ProtocolError) and one.reason for one in read] == ["not_a_file"] * 2
    for tags in (True, False):
        with pytest.raises(StoreError, match="a symbolic link, which is not followed"):
            layout.run.store.list(keys.rollouts(KEY), tags=tags)
    if link != "rollouts":
        assert count_files(layout.run.store, keys.ROLLOUTS) == ({}, [link])
        assert count_stage(layout.run.store, keys.rollouts(KEY)) == (set(), [keys.rollouts(KEY)])


@pytest.mark.parametrize("link", [*FOLDERS, ".tmp", ".tmp/anna"])
def test_nothing_is_published_outside(tmp_path: Path, link: str) -> None:
    layout, outside = vandalized(tmp_path, link=link)
    before, target = tree(outside), layout.rollout_file(KEY, "anna")
    if link != "rollouts":  # no user puts a link there, so it goes
        layout.put(target, b"new", "anna")
        assert target.read_bytes() == b"new"
        assert not (layout.root / link).is_symlink()
    else:
        with pytest.raises(StoreError, match=rf"cannot write .*symbolic link.*{link}\)|not followed;"):
            layout.put(target, b"new", "anna")
        assert (layout.root / link).is_symlink()
    assert tree(outside) == before


@pytest.mark.parametrize("link", ["logs", "logs/anna"])
def test_a_log_behind_a_linked_folder_has_no_lines(tmp_path: Path, link: str) -> None:
    layout, _ = vandalized(tmp_path, link=link)
    assert list(lines_of(layout.run.store, keys.metrics("anna"))) == []
    rows = read_rows(layout.run, "anna")
    assert (rows.rows, rows.junk, rows.torn) == ([], 0, False)


@pytest.mark.parametrize("link", ["checkpoints", "checkpoints/round_5", "checkpoints/round_5/anna"])
def test_no_checkpoint_is_moved_or_removed_outside(tmp_path: Path, link: str) -> None:
    layout, outside = vandalized(tmp_path, link=link)
    before = tree(outside)
    checkpoint = within(layout, keys.checkpoint(5, "anna"))
    assert not is_folder(checkpoint)
    for attempt in (
        lambda: remove_tree(checkpoint),
        lambda: rename_beneath(checkpoint / "model", within(layout, ".tmp/anna/pruned")),
        lambda: open_beneath(checkpoint / "model" / "weights", os.O_RDONLY),
    ):
        with pytest.raises(OSError, match="symbolic link"):
            attempt()
    with contextlib.suppress(OSError):
        make_folder(checkpoint / "new")
    prune(checkpoint / "gone")
    assert tree(outside) == before


def test_a_removed_tree_takes_nothing_along_that_its_links_point_to(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "demo")
    fill(layout)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").touch()
    (layout.checkpoint(5, "anna") / "link").symlink_to(tmp_path / "outside")
    remove_tree(within(layout, keys.checkpoint(5, "anna")))
    remove_tree(within(layout, keys.checkpoint(5, "anna")))  # gone already
    assert not os.path.lexists(layout.checkpoint(5, "anna"))
    assert (tmp_path / "outside" / "file").exists()


def test_folders_are_made_renamed_and_removed_within_the_experiment(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "demo")
    new, ben = (within(layout, keys.checkpoint(5, node)) for node in ("anna", "ben"))
    assert {folder.path for folder in make_folder(new)} == {
        layout.checkpoints / "round_5",
        layout.checkpoints,
        layout.root,
        *layout.root.parents[:2],
    }
    assert make_folder(new) == []
    rename_beneath(new, ben)
    assert (is_folder(new), is_folder(ben)) == (False, True)
    prune(new)
    assert is_folder(ben), "not empty: somebody else is there"
    prune(ben / "gone")
    assert not new.parent.path.exists(), "nor does the folder stay that it was in"
    assert layout.checkpoints.is_dir()


def test_a_path_that_leads_upwards_is_refused(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "demo")
    fill(layout)
    with pytest.raises(OSError, match="leads upwards"), opened_folder(within(layout, "rollouts/../peers")):
        pass


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    layout, _ = vandalized(tmp_path, link="rollouts")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(StoreError):
            layout.put(layout.rollout_file(KEY, "anna"), b"new", "anna")
        with pytest.raises(StoreError):
            layout.run.store.list(keys.rollouts(KEY))
        layout.put(layout.peer_file("anna"), b"new", "anna")
        layout.run.store.list(keys.PEERS)
        make_folder(within(layout, keys.checkpoint(7, "anna")))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_in_the_place_of_a_rounds_folder_goes_when_somebody_publishes_there(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "demo")
    layout.rollouts.mkdir(parents=True)
    (layout.rollouts / "round_9").write_bytes(b"in the way")
    layout.put(layout.rollout_file(KEY, "anna"), b"{}", "anna")
    assert layout.rollout_file(KEY, "anna").read_bytes() == b"{}"
