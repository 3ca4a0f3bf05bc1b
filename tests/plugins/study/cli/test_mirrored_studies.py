"""`swarm study run --mirror`: what of a study goes into the mirror, and what is brought back."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from swarm.cli.main import run
from swarm.plugins.study.cli.study_rehearsal import rehearsal_of, say_predicted
from swarm.plugins.study.record import StudyRecord, read_study, study_store, write_study
from swarm.plugins.study.run import launch
from swarm.plugins.study.run.matrix_file import built_in
from swarm.programs import Launch
from swarm.wire.metrics import MetricsRow
from tests.layout import Layout
from tests.plugins.study.run.test_runner import MATRIX, starts
from tests.plugins.study.study_files import record_file, resolved
from tests.unit.cli.test_copying import made
from tests.unit.records.test_hints import row

Said = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

pytestmark = pytest.mark.usefixtures("light_swarms")


def command(path: Path, *words: str, matrix: str = MATRIX) -> list[str]:
    (path / "m.toml").write_text(matrix)
    return ["study", "run", str(path / "m.toml"), "--path", str(path), "--jobs", "2", *words]


def mirrored(tmp_path: Path, *words: str) -> list[str]:
    (tmp_path / "vm").mkdir(exist_ok=True)
    return command(tmp_path / "vm", "--mirror", str(tmp_path / "drive"), *words)


def copy_runs(tmp_path: Path) -> None:
    """What the swarms, for which a light program stands here, do themselves."""
    shutil.copytree(tmp_path / "vm" / "experiments", tmp_path / "drive" / "experiments")
    for one in (tmp_path / "drive" / "experiments").iterdir():
        made(Layout(tmp_path / "drive", one.name), 1.0)


def test_a_study_whose_place_is_lost_goes_on_and_repeats_no_finished_run(tmp_path: Path, capsys: Said) -> None:
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


def test_each_swarm_is_told_of_the_mirror_and_those_of_a_rehearsal_are_not(tmp_path: Path, monkeypatch: Patch) -> None:
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
def none_runs(monkeypatch: Patch) -> None:
    """Studies are begun, and their swarms never."""
    monkeypatch.setattr("swarm.plugins.study.cli.study.run_all", lambda *_: 0)


@pytest.mark.usefixtures("none_runs")
def test_another_study_of_that_name_in_the_mirror_is_not_mixed_with_this_one(tmp_path: Path, capsys: Said) -> None:
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


def test_a_dry_run_writes_nothing_and_the_place_is_not_its_own_mirror(tmp_path: Path, capsys: Said) -> None:
    assert run(mirrored(tmp_path, "--dry-run")) == 0
    assert not (tmp_path / "drive").exists()
    assert not record_file(tmp_path / "vm", "m").exists()
    assert run(command(tmp_path / "vm", "--mirror", f"{tmp_path / 'vm'}/")) == 2
    assert "expected another place" in capsys.readouterr().err


# ── a rehearsal ─────────────────────────────────────────────────────────────────────────────────────────────────────
def place(path: Path) -> Path:
    return path / "studies" / "m" / "rehearsal"


def thesis() -> StudyRecord:
    return resolved(built_in("thesis"))


def rounds(seconds: float, signal: float) -> list[MetricsRow]:
    """Of two nodes whose rounds all take as long."""
    return [
        row(n, timestamp=100.0 + seconds * n, zero_advantage_local=1 - signal, my_reward=signal / 2)
        for n in range(10)
        for _ in range(2)
    ]


def test_a_rehearsal_says_how_long_it_takes_leaves_no_run_and_begins_no_study(tmp_path: Path, capsys: Said) -> None:
    assert run(command(tmp_path, "--rehearse")) == 0
    said = capsys.readouterr().out
    assert "rehearsal: 3 runs of 3 rounds, 2 at a time; none of them counts" in said
    assert "m: 3 runs x 3 rounds, 2 at a time: about " in said
    assert sorted(starts(place(tmp_path))) == ["m-a-s1", "m-b-s1", "m-c-s1"]
    assert list((place(tmp_path) / "experiments").iterdir()) == []
    assert not (tmp_path / "experiments").exists()
    assert not record_file(tmp_path, "m").exists()


def test_a_run_of_a_rehearsal_that_fails_is_shown_and_predicts_nothing(tmp_path: Path, capsys: Said) -> None:
    (place(tmp_path) / "fate").mkdir(parents=True)
    (place(tmp_path) / "fate" / "m-b-s1").write_text("fail")
    assert run(command(tmp_path, "--rehearse")) == 1
    said = capsys.readouterr().out
    assert "m-b-s1 failed: exit code 1" in said
    assert "about" not in said
    (place(tmp_path) / "fate" / "m-b-s1").unlink()
    assert run(command(tmp_path, "--rehearse")) == 0, "what the failed one left is in nobody's way"


def test_all_configurations_are_rehearsed_with_as_many_swarms_at_a_time_as_the_study_has() -> None:
    record = thesis()
    one = rehearsal_of(record, at_once=2)
    assert (one.rounds, one.seeds, len(one.runs)) == (10, (6,), 8)
    assert rehearsal_of(record, at_once=12).seeds == (6, 7)
    assert rehearsal_of(msgspec.structs.replace(record, rounds=4), 1).rounds == 4


@pytest.mark.parametrize(
    ("signal", "model", "code"), [(0.5, "gpt2", 0), (0.0, "gpt2", 1), (0.0, "tiny-2-qwen2-rare", 0)]
)
def test_it_says_the_hours_and_fails_where_nothing_would_be_learned(
    signal: float, model: str, code: int, capsys: Said
) -> None:
    record = thesis()
    paces = {one.name: [rounds(2.0, signal), rounds(4.0, signal)] for one in record.configurations}
    assert say_predicted(record, paces, 2, [model]) == code
    said = capsys.readouterr().out
    assert said.startswith("thesis: 40 runs x 100 rounds, 2 at a time: about 100m\n  seconds per round: 4/0 3, 3/1 3")
    assert f"{round(320 * signal * 4)} of 1280 groups with a signal" in said
    assert ("`swarm probe --model gpt2`" in said) is bool(code), "an embedded model is known to learn"


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--rounds", "1"], "a rehearsal needs a study of 2 rounds at least, got 1"), (["--on", "slurm"], "--rehearse")],
)
def test_a_single_round_is_no_pace_and_jobs_of_a_cluster_are_not_rehearsed_here(
    tmp_path: Path, capsys: Said, words: list[str], said: str
) -> None:
    assert run(command(tmp_path, "--rehearse", *words)) == 2
    assert said in capsys.readouterr().err
