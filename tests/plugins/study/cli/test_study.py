"""`swarm study` on a terminal: what it accepts, shows and sums up."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from swarm.cli.main import run
from swarm.cli.plan import longest_talk
from swarm.errors import ConfigError
from swarm.planner.planner import plan_for
from swarm.plugins.study.cli import study, study_places
from swarm.plugins.study.cli.study import seeds_of
from swarm.plugins.study.cli.study_places import places
from swarm.plugins.study.cli.study_view import StudyDisplay, headline, results
from swarm.plugins.study.record import StudyRecord, read_study
from swarm.plugins.study.run.matrix_file import built_in
from swarm.plugins.study.run.run_folder import RunProgress
from swarm.plugins.study.run.runner import RunView, StudyView
from swarm.plugins.study.run.schedule import RunState
from swarm.policy.embedded import suited_learning_rate
from tests.fake_hub import FakeHub
from tests.plugins.study.study_files import record_file, resolved, study_record
from tests.unit.cli.swarms import have_free
from tests.unit.cli.test_before_start import BAD, hub  # noqa: F401 - a fixture
from tests.unit.test_architecture import HEAVY
from tests.unit.views.factories import make_experiment, write


def make_record() -> StudyRecord:
    return study_record("8/0", "4/4", study="s", title="S", seeds=(1, 2))


def make_view(*runs: tuple[RunState, int, float], seconds_left: float | None = 90.0) -> StudyView:
    """Runs as (state, rounds done, cumulative reward), in the order of the record."""
    record = make_record()
    views = tuple(
        RunView(run, state, RunProgress(done, reward / 10, reward), problem="exit code 1" if state == "failed" else "")
        for run, (state, done, reward) in zip(record.runs, runs, strict=True)
    )
    return StudyView(record, views, seconds_left)


HALF = make_view(
    (RunState.FINISHED, 3, 2.0), (RunState.RUNNING, 1, 1.0), (RunState.FAILED, 2, 9.0), (RunState.WAITING, 0, 0.0)
)
DONE = make_view(*[(RunState.FINISHED, 3, reward) for reward in (2.0, 3.0, 4.0, 6.0)], seconds_left=0.0)


@pytest.mark.parametrize(
    ("text", "seeds"), [("3", (1, 2, 3)), ("1,5, 9", (1, 5, 9)), ("7,", (7,)), ("0", ()), ("0,1", (0, 1))]
)
def test_seeds_are_a_list_or_a_number_of_them_and_others_are_refused(text: str, seeds: tuple[int, ...]) -> None:
    assert seeds_of(text) == seeds
    for wrong in ("", "a", "1;2", "-1", "1.5", ","):
        with pytest.raises(ConfigError, match="--seeds must be whole numbers"):
            seeds_of(wrong)


def test_the_headline_says_how_far_it_is_and_how_long_it_takes() -> None:
    assert headline(HALF) == "s  1/4 runs  50%  ETA 90s  1 failed"
    assert headline(make_view(*[(RunState.WAITING, 0, 0.0)] * 4, seconds_left=None)) == "s  0/4 runs  0%  ETA -"


def test_results_are_means_of_finished_runs_against_their_baseline() -> None:
    rows = [line.split() for line in results(DONE).splitlines()]
    assert rows[1:] == [["8/0", "2", "3.00", "-"], ["4/4", "2", "4.50", "+50.0%", "of", "8/0"]]
    assert [line.split() for line in results(HALF).splitlines()][1:] == [
        ["8/0", "1", "2.00", "-"],
        ["4/4", "0", "-", "-"],
    ]


def test_unequal_budgets_are_said_below_the_results() -> None:
    record = make_record()
    bigger = msgspec.structs.replace(record.configurations[1], settings={"local_groups": 8, "external_groups": 8})
    unequal = msgspec.structs.replace(record, configurations=(record.configurations[0], bigger))
    last = results(StudyView(unequal, DONE.runs, None)).splitlines()[-1]
    assert last == "4/4 trains on 16 groups a round, 8/0 on 8: 2 times as many"
    assert "trains on" not in results(DONE)


def test_a_line_is_said_now_and_then_and_every_end(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    display = StudyDisplay(lambda: now)
    display.show(HALF)
    display.show(HALF)
    assert capsys.readouterr().out.splitlines() == [
        "s 1/4 runs 50% ETA 90s 1 failed; 4/4 seed 1 1 rounds done reward 0.100"
    ]
    now = 61.0
    display.show(HALF)
    assert len(capsys.readouterr().out.splitlines()) == 1
    display.show(DONE)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "s-4-4-s1 finished, cumulative reward 3.00"


def test_a_study_lists_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "list", "--path", str(tmp_path)]) == 0
    assert "no study in" in capsys.readouterr().out
    write(record_file(tmp_path, "s"), make_record())
    make_experiment(tmp_path, name="s-8-0-s1", rounds=3)
    assert run(["study", "list", "--path", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["s", "4", "1", "25%"]


def test_looking_at_studies_imports_nothing_heavy(tmp_path: Path) -> None:
    write(record_file(tmp_path, "s"), make_record())
    code = (
        "import sys, swarm.plugins.study; from swarm.cli.main import run;"
        f"code = run(['study', 'list', '--path', {str(tmp_path)!r}]); found = {{*{HEAVY!r}}} & {{*sys.modules}};"
        "sys.exit(str(found) if found else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_study_that_cannot_start_is_refused_once_with_its_cause(
    hub: FakeHub,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    variable, value, cause = BAD["a hub id with a slip"]
    monkeypatch.setattr(study, "run_all", None)
    monkeypatch.setenv(variable, value)
    assert run(["study", "run", "sapo", "--seeds", "3", "--path", str(tmp_path / "place")]) == 1
    assert capsys.readouterr().err.count(cause) == 1
    assert not list(tmp_path.iterdir())


# ── how many swarms fit ─────────────────────────────────────────────────────────────────────────────────────────────
THESIS = ["study", "run", "thesis", "--jobs", "1", "--path"]


def test_there_are_no_more_swarms_at_a_time_than_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = make_record()
    plan = SimpleNamespace(needed=7)
    monkeypatch.setattr(study_places, "plan_for", lambda *_, **__: plan)
    for fit, at_once in ((9, 3), (2, 2)):
        monkeypatch.setattr(study_places, "_how_many", lambda _, fit=fit: fit)
        assert places(record, tmp_path, 3, None) == at_once
    assert capsys.readouterr().out == "2 swarms at a time, not 3: the free memory does for no more\n"


@pytest.mark.parametrize("also", [[], ["--rehearse"]])
def test_what_does_not_fit_is_refused_before_anything_is_written_and_names_what_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], also: list[str]
) -> None:
    """So that the same name can be used with the option."""
    full, lora = _needed("none"), _needed("lora")
    assert lora < full
    have_free(monkeypatch, (full + lora) / 2 / 0.9)
    assert run([*THESIS, str(tmp_path), *also]) == 1
    said = capsys.readouterr().err
    assert "does not do for one swarm of this study: does not fit: 4 nodes on cpu need" in said
    assert "what would fit, and nothing does by itself: --adapter lora (" in said
    assert not list(tmp_path.rglob("study.json"))


@cache
def _needed(adapter: str) -> int:
    record = resolved(built_in("thesis"), adapter=adapter, micro_batch_tokens=64)
    with pytest.MonkeyPatch.context() as patch:
        have_free(patch, 10**12)
        (settings,) = study_places.different(record, Path(), None)[:1]
        return plan_for(settings, 4, processes=1, talk=longest_talk(settings)).needed


def begun(path: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> dict[str, Any]:
    """What the record of a study says, which is begun and starts nothing."""
    monkeypatch.setattr("swarm.plugins.study.cli.study.run_all", lambda *_: 0)
    assert run([*THESIS, str(path), *words]) == 0
    return msgspec.to_builtins(read_study(path, "thesis"))  # type: ignore[no-any-return]


def test_an_adapter_that_is_named_is_a_part_of_the_study_with_the_rate_that_suits_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = begun(tmp_path, monkeypatch, "--adapter", "lora")
    assert record["settings"]["adapter"] == "lora"
    assert "learning_rate" not in record["settings"], "the matrix's is for all weights"
    assert suited_learning_rate("tiny-2-qwen2-rare", adapted=True) > 2e-4
    assert run([*THESIS, str(tmp_path), "--adapter", "none"]) == 2
    assert "adapter was 'lora', now 'none'" in capsys.readouterr().err
