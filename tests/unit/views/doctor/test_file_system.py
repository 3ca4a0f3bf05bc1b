"""Writing, how late it is seen, clocks, room and delays, as measured."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import pytest

from swarm.planner.shape import ModelShape
from swarm.store.base import Blob, Room
from swarm.store.folder.health import folder_health
from swarm.store.folder.store import FolderStore
from swarm.views.doctor import place
from tests.layout import Layout
from tests.unit.views.doctor.patients import FAILURE, OK, WARNING, look, make_patient
from tests.unit.views.factories import add_row, make_experiment, make_state, write


def test_a_folder_that_is_not_there_yet_can_be_made_and_a_file_is_none(tmp_path: Path) -> None:
    found = look(place.check_writing, make_patient(tmp_path / "not" / "there", probe=False))
    assert found["writable"].verdict is FAILURE  # no probe could be made
    (tmp_path / "not").mkdir()
    found = look(place.check_writing, make_patient(tmp_path / "not" / "there"))
    assert found["writable"].measured == f"not there yet, can be made in {tmp_path / 'not'}"
    assert found["write time"].verdict is OK
    (tmp_path / "file").touch()
    found = look(place.check_writing, make_patient(tmp_path / "file"))
    assert found["writable"].verdict is FAILURE
    assert "is no folder" in found["writable"].measured
    with folder_health(tmp_path / "file", "experiments/exp") as health:
        assert health.problem


def test_a_folder_of_this_machine_is_in_order(tmp_path: Path) -> None:
    found = look(place.check_visibility, make_patient(tmp_path / "shared"))
    assert {finding.verdict for finding in found.values()} == {OK}


@pytest.mark.parametrize("what_is_read", [FileNotFoundError, b"1"], ids=["bindfs, SSHFS", "NFS"])
def test_a_folder_whose_new_versions_are_seen_late_is_told_and_one_in_which_they_never_are_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what_is_read: type[Exception] | bytes
) -> None:
    get, late = FolderStore.get, 1.2

    def reads(store: FolderStore, key: str, limit: int) -> Blob:
        blob = get(store, key, limit)
        if blob.data != b"2" or time.time() - (store._root / key).stat().st_mtime > late:
            return blob
        if isinstance(what_is_read, bytes):
            return blob._replace(data=what_is_read)
        raise what_is_read(key)

    monkeypatch.setattr(FolderStore, "get", reads)
    monkeypatch.setattr("swarm.store.health.VISIBLE", 1)
    found = look(place.check_visibility, make_patient(tmp_path / "shared"))
    assert [finding.verdict for finding in found.values()] == [OK, OK, WARNING], found
    late = math.inf
    monkeypatch.setattr("swarm.store.health.SEEN_IN", 0.2)
    found = look(place.check_visibility, make_patient(tmp_path / "other"))
    assert [finding.verdict for finding in found.values()] == [OK, OK, FAILURE], found


def test_what_is_needed_follows_from_the_rounds_so_far(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path / "shared", rounds=4)
    write(layout.state_file, make_state(layout, round=4, max_rounds=104))
    need = place.measure_need(make_patient(layout.path))
    assert (need.rounds_left, need.guessed) == (100, False)
    assert need.per_round >= 6 * 100


def test_without_a_round_the_need_is_a_stated_guess(tmp_path: Path) -> None:
    found = look(place.check_space, make_patient(tmp_path / "shared", max_rounds=5))
    assert "5 rounds of" in found["free space"].measured
    assert "(guessed)" in found["free space"].measured


@pytest.mark.parametrize(
    ("there", "counted"),
    [(0, 94_848_000_000), (30 * 10**9, 64_848_000_000), (95 * 10**9, 95 * 10**9)],
    ids=["none yet", "some", "all, to be written anew"],
)
def test_the_checkpoints_of_eight_half_billion_models_are_counted(
    there: int, counted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = ModelShape(
        name="m", parameters=494_000_000, layers=1, hidden=1, kv_heads=1, head_dim=1, vocabulary=1, context=1
    )
    monkeypatch.setattr(place, "model_shape", lambda _name, **_: shape)
    context = make_patient(make_experiment(tmp_path / "shared", rounds=1).path, expected_workers=8)
    context.survey.bytes_by_part["checkpoints"] = there
    need = place.measure_need(context)
    assert need.checkpoints == counted
    found = {f.check: f for f in place.judge_space(Room(counted // 2, None), need)}["free space"]
    assert found.verdict is FAILURE
    assert "of it for checkpoints" in found.measured


def test_of_adapters_the_checkpoints_are_small(tmp_path: Path) -> None:
    settings = {"model": ("tiny-2-qwen2",), "expected_workers": 8, "checkpoint_keep": 2}
    whole, adapters = (
        place.measure_need(make_patient(tmp_path / name, adapter=name, **settings)).checkpoints
        for name in ("none", "lora")
    )
    assert (whole, adapters) == (8 * 2 * 12 * 861_312, 8 * 2 * 12 * 155_648)
    assert place.measure_need(make_patient(tmp_path / "unknown", model=("./nothere",))).checkpoints == 0


def test_the_delays_are_those_of_the_nodes_rows(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    for node, delays in (("anna", [20.0, -1.0]), ("anna", []), ("ben", [40.0])):
        add_row(layout, node, 0, publish_to_pool=delays)
    finding = look(place.check_delay, make_patient(tmp_path))[place.PUBLISHED]
    assert finding.measured.startswith("median 30 s, 99th percentile 40 s, of 2 files")


def probe_parent(layout: Layout) -> Path:
    with folder_health(layout.path, "experiments/exp") as health:
        assert not health.problem
        (health.probe / "deep").mkdir()
        return health.probe.parent


def test_a_probe_lies_where_nobody_watches_and_leaves_nothing_behind(tmp_path: Path) -> None:
    assert probe_parent(Layout(tmp_path / "not" / "there", "exp")) == tmp_path
    layout = make_experiment(tmp_path / "shared")
    assert probe_parent(layout) == layout.path
    layout.temporary("alice").mkdir(parents=True)
    assert probe_parent(layout) == layout.root / ".tmp"
    assert os.listdir(layout.root / ".tmp") == ["alice"]
    assert os.listdir(layout.path) == ["experiments"]
    assert os.listdir(tmp_path) == ["shared"]


def test_a_probe_follows_no_link(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path / "shared")
    (layout.root / ".tmp").symlink_to(tmp_path)
    assert probe_parent(layout) == layout.path
