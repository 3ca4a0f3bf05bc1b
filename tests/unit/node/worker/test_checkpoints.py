"""Checkpoints: whole or not there at all."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
from structlog.testing import capture_logs

from swarm.errors import CheckpointError, StoreError
from swarm.node.worker.checkpoints import restore_newest, save_checkpoint
from swarm.store.folder import bundles
from swarm.store.folder.beneath import Within
from swarm.wire import keys
from swarm.wire.messages import NodeState
from tests.layout import Layout
from tests.unit.node.factories import FakeSnapshot, newest_checkpoint, rounds_saved, run_of, there


def save(
    layout: Layout, rounds_done: int, *, node: str = "alice", keep: int = 2, snapshot: FakeSnapshot | None = None
) -> Path:
    state = NodeState(
        node_id=node, rounds_done=rounds_done, seed=42, cumulative_reward=1.5, model="fake", rounds_trained=3
    )
    save_checkpoint(run_of(layout, node).store, state, snapshot or FakeSnapshot(f"after {rounds_done}"), keep=keep)
    return layout.checkpoint(rounds_done, node)


def rounds_of(layout: Layout, node: str = "alice") -> set[str]:
    return {folder.parent.name for folder in layout.checkpoints.glob(f"*/{node}")}


def test_a_checkpoint_that_cannot_be_put_in_place_leaves_the_one_it_would_replace(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(layout, 1, snapshot=FakeSnapshot("first"))
    rename = bundles.rename_beneath

    def no_new_one(source: Within, target: Within) -> None:
        if target.path == layout.checkpoint(1, "alice") and not source.name.startswith("replaced-"):
            raise OSError(5, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(bundles, "rename_beneath", no_new_one)
    with pytest.raises(CheckpointError):
        save(layout, 1, snapshot=FakeSnapshot("second"))
    assert FakeSnapshot.read(str(layout.checkpoint(1, "alice"))) == "first"


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_newest_checkpoints_stay_and_older_ones_go(layout: Layout, keep: int) -> None:
    save(layout, 8, node="bob")
    for rounds_done in (8, 9, 10, 11):
        save(layout, rounds_done, keep=keep)
    assert rounds_of(layout) == {f"round_{r}" for r in (8, 9, 10, 11)[-keep:]}
    assert rounds_of(layout, "bob") == {"round_8"}, "others' are not one's own"
    found = {folder.name for folder in layout.checkpoints.iterdir()}
    assert found == rounds_of(layout) | {"round_8"}, "no empty folders either"
    assert rounds_saved(layout) == 11, "the highest number, and not the last in the alphabet"
    assert not [*layout.temporary("alice").rglob("*")]


def test_another_node_that_removes_the_empty_folder_first_disturbs_nobody(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(layout, 1, keep=1)
    prune = bundles.prune

    def beaten(removed: Within) -> None:
        prune(removed)
        prune(removed)

    monkeypatch.setattr(bundles, "prune", beaten)
    save(layout, 2, keep=1)
    assert rounds_of(layout) == {"round_2"}


def newest(layout: Layout) -> int:
    """The rounds behind the checkpoint that a policy finds which needs its weights."""

    def restore(folder: str) -> None:
        try:
            FakeSnapshot.read(folder)
        except FileNotFoundError as error:
            raise CheckpointError(str(error)) from None

    return there(restore_newest(run_of(layout, "alice").store, "alice", restore)).rounds_done


DAMAGES: dict[str, tuple[str, bytes | None]] = {
    "without state": ("node.json", None),
    "empty": ("node.json", b""),
    "torn": ("node.json", b"{"),
    "of nobody": ("node.json", b"{}"),
    "of a later version": ("node.json", b'{"schema_version":99}'),
    "without weights": ("weights.txt", None),
}


@pytest.mark.parametrize(("file", "content"), DAMAGES.values(), ids=DAMAGES)
def test_past_a_damaged_checkpoint_the_one_before_is_loaded_and_never_silently(
    layout: Layout, file: str, content: bytes | None
) -> None:
    damaged = save(layout, 2) / file
    damaged.unlink()
    if content is not None:
        damaged.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"round_2.*is damaged.*move it away|weights.txt"):
        newest(layout)
    save(layout, 1)
    with capture_logs() as logs:
        assert newest(layout) == 1
    (event,) = logs
    assert (event["event"], event["log_level"]) == ("checkpoint.damaged", "error")
    assert event["folder"].endswith("round_2/alice")
    save(layout, 2)
    assert newest(layout) == 2, "it is replaced when its round is saved again"


def test_a_checkpoint_of_another_model_is_not_called_damaged_and_no_older_one_is_taken(layout: Layout) -> None:
    for rounds_done in (1, 2):
        save(layout, rounds_done)

    def restore(folder: str) -> None:
        raise CheckpointError("the checkpoint is of another model: set MODEL_NAME", other_model=True)

    with capture_logs() as logs, pytest.raises(CheckpointError, match="another model: set MODEL_NAME"):
        restore_newest(run_of(layout, "alice").store, "alice", restore)
    assert logs == []


def test_another_nodes_checkpoint_in_this_nodes_place_is_a_damaged_one(layout: Layout) -> None:
    save(layout, 1)
    layout.checkpoint(2, "x").parent.mkdir()
    save(layout, 7, node="bob").rename(layout.checkpoint(2, "alice"))
    assert rounds_saved(layout) == 1


def test_where_it_cannot_be_seen_what_was_left_behind_nothing_is_removed(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only copy of a checkpoint may lie there."""
    replaced = layout.temporary("alice") / "replaced-checkpoints%2Fround_1%2Falice"
    replaced.parent.mkdir(parents=True, exist_ok=True)
    save(layout, 1).rename(replaced)

    def unlistable(folder: Within, *_: object, **__: object) -> NoReturn:
        raise StoreError(f"cannot list {folder}: Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(bundles, "list_page", unlistable)
        run_of(layout, "alice").store.recover()
    run_of(layout, "alice").store.recover()
    assert newest_checkpoint(layout, "alice") is not None


def test_completions_stay_as_long_as_a_checkpoint_that_is_kept_needs_them(layout: Layout) -> None:
    store = run_of(layout, "alice").store
    for round_ in range(8):
        store.put(keys.completions(round_, "alice"), b"{}")
    store.put(keys.completions(1, "bob"), b"{}")
    for rounds_done in (2, 4, 6):
        save(layout, rounds_done, keep=2)
    left = sorted(path.relative_to(layout.root).as_posix() for path in layout.root.glob("completions/*/*"))
    assert left == [keys.completions(1, "bob"), *(keys.completions(round_, "alice") for round_ in range(4, 8))]
    assert len(list((layout.root / "completions").iterdir())) == 5, "no empty folders either"


def test_folders_that_somebody_made_for_rounds_to_come_cost_no_checkpoint(layout: Layout) -> None:
    """Neither are the node's own removed as older ones, nor does one without files keep it from starting."""
    assert newest_checkpoint(layout, "alice") is None
    layout.checkpoint(90, "alice").mkdir(parents=True)
    assert newest_checkpoint(layout, "alice") is None
    for rounds_done in (91, 92):
        layout.checkpoint(rounds_done, "alice").mkdir(parents=True)
        (layout.checkpoint(rounds_done, "alice") / "node.json").write_bytes(b"junk")
    for rounds_done in (1, 2, 3):
        save(layout, rounds_done)
    assert rounds_saved(layout) == 3
