"""What nobody names is, in a study that is there, what it was when the study was begun."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.config import is_secret
from swarm.config.settings import FIELDS
from swarm.errors import ExperimentError
from swarm.plugins.study.cli.study import as_begun_or_suited
from swarm.plugins.study.record import ConfigurationRecord, DeclaredComparison, StudyRecord, write_study
from swarm.plugins.study.run import matrix as matrix_module
from swarm.plugins.study.run.defaults import as_begun, grown
from swarm.plugins.study.run.matrix import Matrix, run_settings
from swarm.plugins.study.run.matrix_file import built_in
from tests.plugins.study.study_files import resolved, study_record


def gone_on(matrix: Matrix, there: StudyRecord, environ: dict[str, str] | None = None) -> StudyRecord:
    return grown(there, resolved(as_begun(matrix, there), environ))


def settings_of(record: StudyRecord, number: int = 0) -> dict[str, Any]:
    settings = run_settings(record, record.runs[number], Path("/shared"))
    return {name: settings.value(name) for name in FIELDS}


def test_a_new_study_lets_adam_step_in_every_round_unless_a_configuration_says_otherwise() -> None:
    names = ConfigurationRecord(name="a", settings={}), ConfigurationRecord(name="b", settings={"empty_update": "skip"})
    record = resolved(replace(built_in("sapo"), configurations=names, declared=()))
    assert [settings_of(record, number)["empty_update"] for number in (0, 1)] == ["step", "skip"]


def test_a_changed_default_changes_no_study_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    sapo = built_in("sapo")
    there = msgspec.json.decode(msgspec.json.encode(resolved(sapo)), type=StudyRecord)
    monkeypatch.setitem(matrix_module.DEFAULTS, "empty_update", "skip")
    later = replace(sapo, settings={"model": ("another",), "profile": "tiny-3", "learning_rate": 1.0})
    assert settings_of(resolved(later))["empty_update"] == "skip"
    record = gone_on(later, there)
    assert settings_of(record) == settings_of(there)
    assert record.settings == there.settings


def test_who_names_another_value_is_refused_in_the_environment_as_in_a_file() -> None:
    sapo = built_in("sapo")
    there = resolved(sapo)
    with pytest.raises(ExperimentError, match="empty_update was 'step', now 'skip'"):
        gone_on(sapo, there, {"SWARM_EMPTY_UPDATE": "skip"})
    gone_on(sapo, there, {"SWARM_EMPTY_UPDATE": "step"})
    mine = replace(sapo, built_in=False, settings={**sapo.settings, "learning_rate": 0.1})
    with pytest.raises(ExperimentError, match=r"learning_rate was 0\.0002, now 0\.1"):
        gone_on(mine, there)


def test_everything_that_a_run_is_started_with_is_in_the_record() -> None:
    record = resolved(built_in("sapo"), {"SWARM_TEMPERATURE": "0.7"})
    run = settings_of(record)
    decided = matrix_module.OWNED.keys() | {*matrix_module.BESIDE, "local_groups", "external_groups"}
    for name in run.keys() - decided - {*filter(is_secret, run)}:
        assert {**record.defaults, **record.settings}[name] == matrix_module._as_read_back(run[name]), name


REAL = {"model": "openai-community/gpt2"}


def suited(matrix: Matrix, path: Path, **given: Any) -> dict[str, Any]:
    _, settings = as_begun_or_suited(matrix, {"path": str(path), **given}, None, bring_back=False)
    return settings.as_recorded()


def test_a_real_model_gets_the_papers_questions_and_its_own_rate_not_those_of_a_built_in_matrix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = suited(built_in("sapo"), tmp_path, **REAL)
    assert (found["profile"], found["learning_rate"]) == ("paper-2", None)
    assert "profile paper-2, because openai-community/gpt2 is not" in capsys.readouterr().err
    assert suited(built_in("sapo"), tmp_path, learning_rate=1e-5, **REAL)["learning_rate"] == 1e-5
    embedded = suited(built_in("sapo"), tmp_path)
    assert (embedded["profile"], embedded["learning_rate"]) == ("tiny-2", 2e-4)


def test_a_file_that_names_profile_and_rate_is_taken_at_its_word(tmp_path: Path) -> None:
    settings = {"model": ("gpt2",), "profile": "rl-swarm", "learning_rate": 3e-6}
    found = suited(replace(built_in("sapo"), settings=settings, built_in=False), tmp_path)
    assert (found["profile"], found["learning_rate"]) == ("rl-swarm", 3e-6)


def test_the_models_of_the_configurations_count(tmp_path: Path) -> None:
    matrix = built_in("five-node")
    models = [("gpt2",), ("gpt2-medium",), ("gpt2",), ("gpt2",)]
    own = tuple(
        msgspec.structs.replace(one, settings={**one.settings, "model": model})
        for one, model in zip(matrix.configurations, models, strict=True)
    )
    assert suited(replace(matrix, configurations=own), tmp_path)["profile"] == "paper-2"
    assert suited(replace(matrix, configurations=(*own[:3], matrix.configurations[3])), tmp_path)["profile"] == "tiny-2"


def begun(matrix: Matrix, path: Path, **given: Any) -> StudyRecord:
    record = resolved(matrix, path=str(path), **given)
    write_study(path, record)
    return record


@pytest.mark.parametrize("profile", ["tiny-2", "paper-2", "rl-swarm"])
def test_a_study_that_goes_on_keeps_its_profile_and_rate(
    tmp_path: Path, profile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix = built_in("sapo")
    begun(replace(matrix, settings={**matrix.settings, "profile": profile}), tmp_path, **REAL)
    found = suited(matrix, tmp_path, **REAL)
    assert (found["profile"], found["learning_rate"]) == (profile, 2e-4)
    said = capsys.readouterr()
    assert ("goes on with profile = " in said.out) is (profile != "paper-2")
    assert "because" not in said.err


# ── a study may grow ────────────────────────────────────────────────────────────────────────────────────────────────
def make_record(*configurations: ConfigurationRecord, **fields: Any) -> StudyRecord:
    chosen = configurations or (ConfigurationRecord(name="a", settings={"local_groups": 4}),)
    base = {"rounds": 10, "seeds": (1, 2), "settings": {"learning_rate": 1e-4}, "versions": {"swarm": "1"}}
    return study_record(*chosen, study="s", **(base | fields))


def test_more_seeds_rounds_and_configurations_are_added_and_none_is_lost() -> None:
    new = ConfigurationRecord(name="b", settings={"local_groups": 2}, baseline="a")
    record = grown(make_record(), make_record(new, seeds=(2, 3), rounds=20, created_at=5.0))
    assert [(run.configuration, run.seed) for run in record.runs] == [(c, s) for s in (1, 2, 3) for c in "ab"]
    assert (record.rounds, record.seeds, record.created_at) == (20, (1, 2, 3), 1.0)


def test_the_same_study_is_itself_after_a_round_trip_through_its_file() -> None:
    there = msgspec.json.decode(msgspec.json.encode(make_record()), type=StudyRecord)
    once = grown(there, make_record(created_at=9.0))
    assert grown(msgspec.json.decode(msgspec.json.encode(once), type=StudyRecord), make_record()) == once
    assert (once.created_at, once.runs, once.settings) == (1.0, there.runs, there.settings)


def test_how_results_are_shown_and_how_often_a_run_is_saved_may_change() -> None:
    saved = {"learning_rate": 1e-4, "checkpoint_interval": 5}
    asked = make_record(
        ConfigurationRecord(name="a", settings={"local_groups": 4}, group="g"), title="T", settings=saved
    )
    record = grown(make_record(settings=saved | {"checkpoint_interval": 0}), asked)
    assert (record.title, record.configurations[0].group, record.settings) == ("T", "g", saved)


def test_what_was_declared_stays_and_nothing_is_declared_of_runs_that_are_there() -> None:
    new = ConfigurationRecord(name="c", settings={})
    ones = (ConfigurationRecord(name="a", settings={"local_groups": 4}), ConfigurationRecord(name="b", settings={}))
    before = DeclaredComparison(configuration="b", baseline="a", test="paired")
    later = tuple(DeclaredComparison(configuration=name, baseline="a", test="welch") for name in "bc")
    assert grown(make_record(*ones, declared=(before,)), make_record(*ones, new, declared=later)).declared == (
        before,
        later[1],
    )


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (make_record(nodes=3), "nodes was 2, now 3"),
        (make_record(ConfigurationRecord(name="a", settings={"local_groups": 4}, nodes=1)), "a: nodes was 2, now 1"),
        (make_record(rounds=9), "rounds were 10, now 9: they can only become more"),
        (make_record(judged=True), "judged was False, now True"),
        (make_record(settings={"learning_rate": 1e-3}), "learning_rate was 0.0001, now 0.001"),
        (make_record(settings={}), "learning_rate was 0.0001, now None"),
        (make_record(settings={"learning_rate": 1e-4, "temperature": 2.0}), "temperature was 1.0, now 2.0"),
        (make_record(ConfigurationRecord(name="a", settings={"local_groups": 3})), "a: local_groups was 4, now 3"),
    ],
)
def test_another_study_of_the_same_name_is_refused_with_the_differences(asked: StudyRecord, message: str) -> None:
    with pytest.raises(ExperimentError, match=message):
        grown(make_record(), asked)
