"""`swarm study run --rehearse`, with a light program in the place of its swarms."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from swarm.cli.main import run
from swarm.plugins.study.cli import study
from swarm.plugins.study.cli.study_places import Places
from swarm.plugins.study.cli.study_rehearsal import hopeless, predicted, wanted
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.run.builtin import built_in
from swarm.plugins.study.run.matrix import resolve, shared_settings
from swarm.plugins.study.run.rehearsal import Rehearsal, RehearsedPace
from swarm.policy.embedded import embedded_path
from swarm.records.first_round import first_round
from tests.plugins.study.cli.test_study_places import THESIS
from tests.plugins.study.run.test_runner import MATRIX, starts
from tests.plugins.study.study_files import record_file
from tests.unit.records.test_hints import row

REAL = ["gpt2"]


pytestmark = pytest.mark.usefixtures("light_swarms")


def command(path: Path, *words: str, matrix: str = MATRIX) -> list[str]:
    (path / "m.toml").write_text(matrix)
    return ["study", "run", str(path / "m.toml"), "--path", str(path), "--jobs", "2", *words]


def place(path: Path) -> Path:
    return path / "studies" / "m" / "rehearsal"


def rehearsal(signal: float = 0.5) -> Rehearsal:
    paces = {name: RehearsedPace(1.0, 2.0, 5.0) for name in thesis_names()}
    seen = first_round([row(0, zero_advantage_local=1 - signal, my_reward=signal / 2)], 0, 8)
    return Rehearsal(of={}, rounds=10, at_once=2, paces=paces, start=seen, all_rounds=seen)


def thesis_names() -> list[str]:
    return [one.name for one in built_in("thesis").configurations]


def thesis() -> StudyRecord:
    matrix = built_in("thesis")
    return resolve(matrix, shared_settings(matrix, {}, {}, None), judged=False, created_at=1.0, versions={})


def test_a_rehearsal_leaves_what_it_found_and_no_run_and_begins_no_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command(tmp_path, "--rehearse")) == 0
    said = capsys.readouterr().out
    assert "rehearsal: 3 runs of 3 rounds, 2 at a time; none of them counts" in said
    assert "m: 3 runs x 3 rounds, 2 at a time: about " in said
    assert sorted(starts(place(tmp_path))) == ["m-a-s1", "m-b-s1", "m-c-s1"]
    assert list((place(tmp_path) / "experiments").iterdir()) == []
    assert not (tmp_path / "experiments").exists()
    assert not record_file(tmp_path, "m").exists()
    found = msgspec.json.decode((tmp_path / "studies" / "m" / "rehearsal.json").read_bytes(), type=Rehearsal)
    assert list(found.paces) == ["a", "b", "c"]


def test_a_run_of_a_rehearsal_that_fails_is_shown_and_predicts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place(tmp_path) / "fate").mkdir(parents=True)
    (place(tmp_path) / "fate" / "m-b-s1").write_text("fail")
    assert run(command(tmp_path, "--rehearse")) == 1
    said = capsys.readouterr().out
    assert "m-b-s1 failed: exit code 1" in said
    assert "about" not in said
    assert not (tmp_path / "studies" / "m" / "rehearsal.json").exists()
    (place(tmp_path) / "fate" / "m-b-s1").unlink()
    assert run(command(tmp_path, "--rehearse")) == 0, "what the failed one left is in nobody's way"


def test_a_long_study_is_rehearsed_by_itself_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone, *_ = MATRIX.partition('[[configurations]]\nname = "b"')
    words = command(tmp_path, "--seeds", "2", matrix=alone)
    assert run([*words, "--rounds", "50", "--dry-run"]) == 0
    assert starts(place(tmp_path)) == []
    assert run([*words, "--rounds", "50"]) == 0
    assert len(starts(place(tmp_path))) == len(starts(tmp_path)) == 2
    said = capsys.readouterr().out
    assert said.index("2 runs x 50 rounds, 2 at a time: about") < said.index("2 runs of 50 rounds, 2 at a time\n")
    assert run([*words, "--rounds", "60"]) == 0
    assert len(starts(place(tmp_path))) == 2, "what has begun is not rehearsed"
    assert "2 runs x 60 rounds, 2 at a time: about" in capsys.readouterr().out, "by the rehearsal that it had"


def test_a_short_study_says_where_its_hours_come_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command(tmp_path)) == 0
    assert starts(place(tmp_path)) == []
    assert "--rehearse says it before" in capsys.readouterr().out


def test_nobody_waits_for_a_rehearsal_that_was_not_asked_for_where_it_tells_little(tmp_path: Path) -> None:
    record = thesis()
    short = msgspec.structs.replace(record, rounds=19)
    assert wanted(None, record, tmp_path)
    assert not wanted(None, short, tmp_path)
    assert not wanted(False, record, tmp_path)
    assert wanted(True, short, tmp_path)


def test_what_is_predicted_is_hours_memory_disk_and_the_start(tmp_path: Path) -> None:
    first, *others = predicted(rehearsal(), thesis(), tmp_path, Places(2, 10**9)).splitlines()
    assert first == ("thesis: 40 runs x 100 rounds, 2 at a time: about 35m to 68m, by 10 rounds of each configuration")
    said = "\n".join(others)
    assert "seconds per round: 4/0 1 to 2, 3/1 1 to 2" in said
    assert "memory: not known, 1.1 GB by the plan" in said or "memory: not known, 1.0 GB by the plan" in said
    assert "disk: about 0" in said
    assert "expected at the start: reward per completion 0.250 (" in said
    assert "in all 10 rounds: 2 of 4 groups with a signal" in said


def test_where_no_group_of_a_rehearsal_had_a_signal_the_study_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "`swarm probe --model gpt2`" in hopeless(rehearsal(signal=0.0), REAL)
    assert hopeless(rehearsal(), REAL) == ""
    assert hopeless(rehearsal(signal=0.0), ["tiny-2-qwen2-rare"]) == "", "it is known to learn"
    model = shutil.copytree(embedded_path("tiny-2-qwen2"), tmp_path / "mine")
    monkeypatch.setattr(study, "rehearsed", lambda *_, **__: rehearsal(signal=0.0))
    monkeypatch.setattr(study, "run_all", lambda *_: 0)
    words = [*THESIS, str(tmp_path), "--model", str(model)]
    assert run(words) == 1
    assert "--no-rehearse starts the study all the same" in capsys.readouterr().out
    assert not record_file(tmp_path, "thesis").exists()
    assert run([*words, "--no-rehearse"]) == 0
    assert record_file(tmp_path, "thesis").exists()


def test_a_single_round_is_no_pace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command(tmp_path, "--rehearse", "--rounds", "1")) == 2
    assert "a rehearsal needs a study of 2 rounds at least, got 1" in capsys.readouterr().err


def test_jobs_of_a_cluster_are_not_rehearsed_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command(tmp_path, "--rehearse", "--on", "slurm")) == 2
    assert "--rehearse" in capsys.readouterr().err
