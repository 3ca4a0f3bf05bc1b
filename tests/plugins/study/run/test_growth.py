"""A study may grow; what has been run keeps its meaning."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swarm.errors import ConfigError, ExperimentError
from swarm.plugins.study.record import ConfigurationRecord, DeclaredComparison, StudyRecord
from swarm.plugins.study.run.growth import grown
from tests.plugins.study.study_files import study_record


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


def test_how_results_are_shown_may_change() -> None:
    asked = make_record(ConfigurationRecord(name="a", settings={"local_groups": 4}, group="g"), title="T")
    record = grown(make_record(), asked)
    assert (record.title, record.configurations[0].group) == ("T", "g")


def test_how_often_a_run_is_saved_may_change() -> None:
    asked = make_record(settings={"learning_rate": 1e-4, "checkpoint_interval": 5})
    record = grown(make_record(settings={"learning_rate": 1e-4, "checkpoint_interval": 0}), asked)
    assert record.settings == asked.settings


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


@pytest.mark.parametrize("name", ["sampler", "adaptive_rule", "loss", "advantage_scaling"])
def test_a_function_that_only_the_folder_names_is_not_run(name: str) -> None:
    found = ConfigurationRecord(name="b", settings={name: "evil_module:run"})
    with pytest.raises(ConfigError, match="evil_module"):
        grown(make_record(found), make_record())
    assert grown(make_record(found), make_record(found)).configurations == (found,)
