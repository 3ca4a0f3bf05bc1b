"""`swarm study run --mirror`: what of a study goes into the mirror, and what is brought back."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from swarm.cli.main import run
from swarm.plugins.study.record import read_study, study_store, write_study
from swarm.plugins.study.run import launch
from swarm.programs import Launch
from tests.layout import Layout
from tests.plugins.study.cli.test_study_rehearsal import command
from tests.plugins.study.run.test_runner import starts
from tests.plugins.study.study_files import record_file
from tests.unit.cli.test_copying import made

pytestmark = pytest.mark.usefixtures("light_swarms")


def mirrored(tmp_path: Path, *words: str) -> list[str]:
    (tmp_path / "vm").mkdir(exist_ok=True)
    return command(tmp_path / "vm", "--mirror", str(tmp_path / "drive"), *words)


def copy_runs(tmp_path: Path) -> None:
    """What the swarms, for which a light program stands here, do themselves."""
    shutil.copytree(tmp_path / "vm" / "experiments", tmp_path / "drive" / "experiments")
    for one in (tmp_path / "drive" / "experiments").iterdir():
        made(Layout(tmp_path / "drive", one.name), 1.0)


def test_a_study_whose_place_is_lost_goes_on_with_its_record_and_repeats_no_finished_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(mirrored(tmp_path)) == 0
    before = read_study(tmp_path / "drive", "m")
    assert "mirror" not in {**before.settings, **before.defaults}, "it goes on with another one"
    copy_runs(tmp_path)
    shutil.rmtree(tmp_path / "vm")
    assert run(mirrored(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "bringing the study m back" in said
    assert said.count("rounds are here again") == 3
    assert starts(tmp_path / "vm") == []
    assert read_study(tmp_path / "vm", "m").created_at == before.created_at


def test_each_swarm_is_told_of_the_mirror_and_those_of_a_rehearsal_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str | None]] = []
    start = launch.LocalBackend.start

    def watched(self: launch.LocalBackend, one: Launch) -> launch.LocalProgram:
        told.append((one.place, one.environment.get("SWARM_MIRROR")))
        return start(self, one)

    monkeypatch.setattr(launch.LocalBackend, "start", watched)
    assert run(mirrored(tmp_path, "--rehearse")) == 0
    assert {mirror for _, mirror in told} == {None}
    assert not (tmp_path / "drive").exists(), "none of it counts"
    told.clear()
    assert run(mirrored(tmp_path)) == 0
    assert told == [(str(tmp_path / "vm"), str(tmp_path / "drive"))] * 3


@pytest.fixture
def none_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Studies are begun, and their swarms never."""
    monkeypatch.setattr("swarm.plugins.study.cli.study.run_all", lambda *_: 0)


@pytest.mark.usefixtures("none_runs")
def test_another_study_of_that_name_in_the_mirror_is_not_mixed_with_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(mirrored(tmp_path)) == 0
    shutil.rmtree(tmp_path / "drive")
    other = read_study(tmp_path / "vm", "m")
    write_study(tmp_path / "drive", msgspec.structs.replace(other, created_at=1.0))
    assert run(mirrored(tmp_path)) == 2
    assert "is another study" in capsys.readouterr().err


@pytest.mark.usefixtures("none_runs")
def test_a_place_that_is_as_far_keeps_its_record(tmp_path: Path) -> None:
    assert run(mirrored(tmp_path)) == 0
    assert run(mirrored(tmp_path, "--seeds", "2")) == 0
    older = read_study(tmp_path / "vm", "m")
    study_store(tmp_path / "drive", "m").remove("study.json")
    assert run(mirrored(tmp_path)) == 0
    assert read_study(tmp_path / "drive", "m").seeds == older.seeds == (1, 2)


def test_a_dry_run_writes_nothing_and_the_place_is_not_its_own_mirror(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(mirrored(tmp_path, "--dry-run")) == 0
    assert not (tmp_path / "drive").exists()
    assert not record_file(tmp_path / "vm", "m").exists()
    assert run(command(tmp_path / "vm", "--mirror", f"{tmp_path / 'vm'}/")) == 2
    assert "expected another place" in capsys.readouterr().err
