"""The state, what lies around, checkpoints and logs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from swarm.store.folder import health as folder_health
from swarm.views.doctor import nodes
from swarm.views.doctor import place as folder
from swarm.wire.messages import NodeState
from tests.layout import Layout
from tests.unit.views.doctor.patients import FAILURE, OK, WARNING, Scene, look, make_patient
from tests.unit.views.factories import make_experiment, make_state, write


def state_verdict(layout: Layout, **settings: object) -> tuple[object, str]:
    found = look(nodes.check_state, make_patient(layout.path, probe=False, **settings))["clock"]
    return found.verdict, found.measured


def test_a_state_is_well_or_torn_or_lost_or_of_another_experiment(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    assert state_verdict(layout) == (OK, "3/3 rounds done")
    whole = layout.state_file.read_bytes()
    layout.state_file.write_bytes(whole[:40])
    assert state_verdict(layout)[0] is FAILURE
    layout.state_file.unlink()
    assert state_verdict(layout) == (FAILURE, "no state file, yet there are rewards")
    assert state_verdict(layout, clock="own")[0] is OK, "nobody keeps one"
    write(layout.state_file, make_state(layout, round=2, experiment_name="copied"))
    assert state_verdict(layout) == (FAILURE, "of experiment 'copied'")


def test_a_clean_folder_has_no_strays(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    found = look(folder.check_files, make_patient(layout.path, probe=False))
    assert {finding.verdict for finding in found.values()} == {OK}
    assert "rollouts" in found["disk use"].measured


@pytest.mark.parametrize(
    ("check", "name"),
    [
        ("links", "link"),
        ("pipes and devices", "fifo"),
        ("sparse files", "sparse"),
        ("conflict copies", "alice.sync-conflict-20250101-120000-ABC.json"),
        ("conflict copies", "alice (1).json"),
        ("names not in UTF-8", b"\xff.json"),
    ],
)
def test_what_should_not_lie_there_is_named_and_nothing_else(tmp_path: Path, check: str, name: str | bytes) -> None:
    layout = make_experiment(tmp_path)
    place = os.path.join(os.fsencode(layout.rollouts / "round_0" / "stage_0"), os.fsencode(name))
    if check == "links":
        os.symlink("/", place)
    elif check == "pipes and devices":
        os.mkfifo(place)
    else:
        with open(place, "wb") as file:
            file.truncate(10 * 2**30 if check == "sparse files" else 0)
    found = look(folder.check_files, make_patient(layout.path, probe=False))
    assert [name for name, finding in found.items() if finding.verdict is WARNING] == [check]
    assert found[check].measured.startswith("1: rollouts/round_0/stage_0/")


def test_half_written_files_count_once_their_node_is_gone(tmp_path: Path) -> None:
    layout, scene = make_experiment(tmp_path), Scene()
    half = layout.temporary("alice") / "checkpoint-1" / "model.tmp"
    half.parent.mkdir(parents=True)
    half.write_bytes(os.urandom(folder.KEPT + 4096))
    found = look(folder.check_files, make_patient(layout.path, probe=False))["half-written files"]
    assert found.verdict is WARNING
    assert "alice 1.1 MB" in found.measured
    scene.beats(layout, "alice")
    alive = look(folder.check_files, make_patient(layout.path, scene, probe=False))["half-written files"]
    assert alive.verdict is OK


def test_the_doctor_does_not_find_its_own_probe(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    probe = layout.root / ".tmp" / "doctor-1"
    probe.mkdir(parents=True)
    (probe / "half").write_bytes(os.urandom(folder.KEPT + 4096))
    assert folder_health.survey(layout.root).drafts_by_node["doctor-1"] > folder.KEPT
    assert not folder_health.survey(layout.root, ignore=probe).drafts_by_node


def test_a_folder_with_too_many_entries_is_surveyed_in_part_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = make_experiment(tmp_path)
    monkeypatch.setattr(folder_health, "MOST_ENTRIES", 10)
    assert look(folder.check_files, make_patient(layout.path, probe=False))["disk use"].verdict is WARNING


def make_checkpoint(layout: Layout, node: str, rounds: int) -> Path:
    folder = layout.checkpoint(rounds, node)
    write(folder / "node.json", NodeState(node_id=node, rounds_done=rounds, seed=1, cumulative_reward=0.5, model="m"))
    (folder / "weights").write_bytes(b"12345")
    (folder / "manifest.json").write_bytes(msgspec.json.encode({"format": 1, "files": {"weights": {"bytes": 5}}}))
    return folder


def saved_verdicts(layout: Layout, scene: Scene | None = None) -> dict[str, object]:
    found = look(nodes.check_saved, make_patient(layout.path, scene, probe=False))
    return {name: finding.verdict for name, finding in found.items()}


def with_checkpoints(path: Path) -> tuple[Layout, Path, Path]:
    layout = make_experiment(path)
    shutil.rmtree(layout.checkpoints)
    return layout, make_checkpoint(layout, "alice", 1), make_checkpoint(layout, "alice", 3)


def test_whole_checkpoints_and_logs_are_well(tmp_path: Path) -> None:
    layout, _, _ = with_checkpoints(tmp_path)
    assert saved_verdicts(layout) == {"checkpoints": OK, "ends of logs": OK}


@pytest.mark.parametrize(
    ("name", "content"), [("node.json", b"{"), ("node.json", None), ("weights", b"123"), ("weights", None)]
)
def test_a_damaged_newest_checkpoint_is_a_failure(tmp_path: Path, name: str, content: bytes | None) -> None:
    layout, _, newest = with_checkpoints(tmp_path)
    (newest / name).unlink()
    if content is not None:
        (newest / name).write_bytes(content)
    assert saved_verdicts(layout)["checkpoint"] is FAILURE


def test_a_damaged_older_checkpoint_is_a_warning(tmp_path: Path) -> None:
    layout, older, _ = with_checkpoints(tmp_path)
    (older / "manifest.json").unlink()
    assert saved_verdicts(layout)["older checkpoint"] is WARNING


def test_a_torn_log_is_a_warning_once_its_node_is_gone(tmp_path: Path) -> None:
    layout, scene = make_experiment(tmp_path), Scene()
    with layout.metrics_file("bob").open("ab") as file:
        file.write(b'{"round": 3, "my_re')
    assert saved_verdicts(layout)["ends of logs"] is WARNING
    scene.beats(layout, "bob")
    assert saved_verdicts(layout, scene)["ends of logs"] is OK


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "/dev/zero", "../../../../etc/passwd"])
def test_a_manifest_that_names_anything_is_a_damaged_one(tmp_path: Path, name: str) -> None:
    layout = make_experiment(tmp_path)
    manifest = make_checkpoint(layout, "alice", 1) / "manifest.json"
    manifest.write_bytes(msgspec.json.encode({"format": 1, "files": {name: {"bytes": 7}}}))
    assert saved_verdicts(layout)["checkpoint"] is FAILURE
