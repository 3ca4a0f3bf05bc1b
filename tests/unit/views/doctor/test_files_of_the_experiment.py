"""The state, and what lies around."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swarm.store.folder import health as folder_health
from swarm.views.doctor import nodes
from swarm.views.doctor import place as folder
from tests.layout import Layout
from tests.unit.views.doctor.patients import FAILURE, OK, WARNING, Scene, look, make_patient
from tests.unit.views.factories import make_experiment, make_state, write


def state_verdict(layout: Layout, **settings: object) -> tuple[object, str]:
    found = look(nodes.check_state, make_patient(layout.path, probe=False, **settings))["clock"]
    return found.verdict, found.measured


def test_a_state_is_well_or_torn_or_lost_or_of_another_experiment(layout: Layout) -> None:
    assert state_verdict(layout) == (OK, "3/3 rounds done")
    whole = layout.state_file.read_bytes()
    layout.state_file.write_bytes(whole[:40])
    assert state_verdict(layout)[0] is FAILURE
    layout.state_file.unlink()
    assert state_verdict(layout) == (FAILURE, "no state file, yet there are rewards")
    assert state_verdict(layout, clock="own")[0] is OK, "nobody keeps one"
    write(layout.state_file, make_state(layout, round=2, experiment_name="copied"))
    assert state_verdict(layout) == (FAILURE, "of experiment 'copied'")


def test_a_clean_folder_has_no_strays(layout: Layout) -> None:
    found = look(folder.check_files, make_patient(layout.path, probe=False))
    assert {finding.verdict for finding in found.values()} == {OK}
    assert "rollouts" in found["disk use"].measured


@pytest.mark.parametrize(
    ("check", "name"),
    [
        ("conflict copies", "alice.sync-conflict-20250101-120000-ABC.json"),
        ("conflict copies", "alice (1).json"),
        ("names not in UTF-8", b"\xff.json"),
    ],
)
def test_what_should_not_lie_there_is_named_and_nothing_else(layout: Layout, check: str, name: str | bytes) -> None:
    place = os.path.join(os.fsencode(layout.rollouts / "round_0" / "stage_0"), os.fsencode(name))
    open(place, "wb").close()
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


def test_the_doctor_does_not_find_its_own_probe(layout: Layout) -> None:
    probe = layout.root / ".tmp" / "doctor-1"
    probe.mkdir(parents=True)
    (probe / "half").write_bytes(os.urandom(folder.KEPT + 4096))
    assert folder_health.survey(layout.root).drafts_by_node["doctor-1"] > folder.KEPT
    assert not folder_health.survey(layout.root, ignore=probe).drafts_by_node


def test_a_folder_with_too_many_entries_is_surveyed_in_part_and_that_is_said(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_health, "MOST_ENTRIES", 10)
    assert look(folder.check_files, make_patient(layout.path, probe=False))["disk use"].verdict is WARNING


@pytest.mark.parametrize("number", [10, 11])
def test_of_one_folder_as_many_entries_are_surveyed_as_of_several(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_health, "MOST_ENTRIES", 10)
    for each in range(number):
        (tmp_path / f"{each}").touch()
    assert folder_health.survey(tmp_path).complete is (number == 10)
