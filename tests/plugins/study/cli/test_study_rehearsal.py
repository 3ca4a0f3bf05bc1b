"""`swarm study run --rehearse`, with a light program in the place of its swarms."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from swarm.cli.main import run
from swarm.plugins.study.cli.study_rehearsal import rehearsal_of, say_predicted
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.run.matrix import resolve, shared_settings
from swarm.plugins.study.run.matrix_file import built_in
from swarm.wire.metrics import MetricsRow
from tests.plugins.study.run.test_runner import MATRIX, starts
from tests.plugins.study.study_files import record_file
from tests.unit.records.test_hints import row

pytestmark = pytest.mark.usefixtures("light_swarms")


def command(path: Path, *words: str, matrix: str = MATRIX) -> list[str]:
    (path / "m.toml").write_text(matrix)
    return ["study", "run", str(path / "m.toml"), "--path", str(path), "--jobs", "2", *words]


def place(path: Path) -> Path:
    return path / "studies" / "m" / "rehearsal"


def thesis() -> StudyRecord:
    matrix = built_in("thesis")
    return resolve(matrix, shared_settings(matrix, {}, {}, None), judged=False, created_at=1.0, versions={})


def rounds(seconds: float, signal: float) -> list[MetricsRow]:
    """Of two nodes whose rounds all take as long."""
    return [
        row(n, timestamp=100.0 + seconds * n, zero_advantage_local=1 - signal, my_reward=signal / 2)
        for n in range(10)
        for _ in range(2)
    ]


def test_a_rehearsal_says_how_long_it_takes_leaves_no_run_and_begins_no_study(
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


def test_a_run_of_a_rehearsal_that_fails_is_shown_and_predicts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    signal: float, model: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    record = thesis()
    paces = {one.name: [rounds(2.0, signal), rounds(4.0, signal)] for one in record.configurations}
    assert say_predicted(record, paces, 2, [model]) == code
    said = capsys.readouterr().out
    assert said.startswith("thesis: 40 runs x 100 rounds, 2 at a time: about 100m\n  seconds per round: 4/0 3, 3/1 3")
    assert f"{round(320 * signal * 4)} of 1280 groups with a signal" in said
    assert ("`swarm probe --model gpt2`" in said) is bool(code), "an embedded model is known to learn"


def test_a_single_round_is_no_pace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command(tmp_path, "--rehearse", "--rounds", "1")) == 2
    assert "a rehearsal needs a study of 2 rounds at least, got 1" in capsys.readouterr().err


def test_jobs_of_a_cluster_are_not_rehearsed_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command(tmp_path, "--rehearse", "--on", "slurm")) == 2
    assert "--rehearse" in capsys.readouterr().err
