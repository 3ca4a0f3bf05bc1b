"""What a rehearsal predicts of a study."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.run.builtin import built_in
from swarm.plugins.study.run.matrix import resolve, shared_settings
from swarm.plugins.study.run.rehearsal import (
    Observed,
    Rehearsal,
    RehearsedPace,
    disk_bytes,
    identity,
    observed,
    rehearsal_of,
    whole_seconds,
)
from swarm.wire.metrics import MetricsRow
from tests.unit.records.test_hints import row


def thesis(**given: Any) -> StudyRecord:
    matrix = built_in("thesis")
    return resolve(matrix, shared_settings(matrix, given, {}, None), judged=False, created_at=1.0, versions={})


def rows(rounds: int, seconds: float = 2.0, nodes: int = 2, **changes: Any) -> list[MetricsRow]:
    """Of nodes whose rounds all take as long, none waiting for another."""
    return [row(n, timestamp=100.0 + seconds * n, **changes) for n in range(rounds) for _ in range(nodes)]


def of_run(configuration: str, run: list[MetricsRow], seconds: float = 30.0) -> Observed:
    return Observed(configuration, seconds, run, checkpoint_bytes=1000, other_bytes=500)


def rehearsal(**paces: RehearsedPace) -> Rehearsal:
    return Rehearsal(of={}, rounds=10, at_once=1, paces=paces, start=None, all_rounds=None)


def test_all_configurations_are_rehearsed_with_as_many_swarms_at_a_time_as_the_study_has() -> None:
    record = thesis()
    one = rehearsal_of(record, at_once=2)
    assert (one.rounds, one.seeds, len(one.runs)) == (10, (6,), 8)
    assert one.configurations == record.configurations
    assert rehearsal_of(record, at_once=12).seeds == (6, 7)
    assert rehearsal_of(msgspec.structs.replace(record, rounds=4), 1).rounds == 4


def test_a_checkpoint_falls_among_the_rounds_that_are_timed() -> None:
    assert rehearsal_of(thesis(), 1).settings["checkpoint_interval"] == 5
    assert rehearsal_of(thesis(checkpoint_interval=1), 1).settings["checkpoint_interval"] == 1


def test_a_pace_is_that_of_the_rounds_after_the_first_and_what_is_left_is_paid_once() -> None:
    found = observed({}, [of_run("4/0", rows(10), seconds=30.0)], at_once=2, generations=8)
    pace = found.paces["4/0"]
    assert (pace.least, pace.once) == (2.0, 30.0 - 9 * 2.0)
    assert found.rounds == 10


def test_the_most_is_what_rounds_take_in_which_all_groups_teach_something() -> None:
    """Two nodes train 0.25 s each on 4 of the 8 groups that they ask for: on all of them it were 0.5 s more."""
    run = rows(10, seconds_train=0.25, zero_advantage_local=0.5, external_wanted=4, external_groups=2)
    pace = observed({}, [of_run("4/4", run)], 1, 8).paces["4/4"]
    assert (pace.least, pace.most) == (2.0, pytest.approx(2.5))
    dull = rows(10, seconds_train=0.25, zero_advantage_local=1.0, external_wanted=4, external_groups=0)
    assert observed({}, [of_run("4/4", dull)], 1, 8).paces["4/4"].most == 2.0, "nobody knows what an update takes"


def test_the_start_is_round_0_of_the_configuration_that_asks_itself_most() -> None:
    few = rows(10, local_groups=1, my_reward=0.9)
    many = [msgspec.structs.replace(one, my_reward=0.1 if one.round == 0 else 0.5) for one in rows(10)]
    found = observed({}, [of_run("1/3", few), of_run("4/0", many)], 1, 8)
    assert found.start is not None
    assert found.all_rounds is not None
    assert (found.start.reward.mean, found.start.completions) == (pytest.approx(0.1), 64)
    assert found.all_rounds.groups == 10 * 2 * (1 + 4)
    assert found.last_reward == pytest.approx(0.7)


def test_memory_is_the_most_that_any_node_held_where_nodes_say_it() -> None:
    run = rows(2)
    run[3] = msgspec.structs.replace(run[3], memory_peak=5 * 10**8, memory_total=16 * 10**9)
    found = observed({}, [of_run("4/0", run)], 1, 8)
    assert (found.memory_peak, found.memory_total) == (5 * 10**8, 16 * 10**9)
    assert observed({}, [of_run("4/0", rows(2))], 1, 8).memory_peak == 0


def test_hours_are_those_of_the_runs_that_are_left_as_they_find_places() -> None:
    record = msgspec.structs.replace(thesis(), rounds=11)
    record = msgspec.structs.replace(record, runs=record.runs[:3])
    found = rehearsal(
        **{
            "4/0": RehearsedPace(1.0, 2.0, 5.0),
            "3/1": RehearsedPace(1.0, 2.0, 5.0),
            "2/2": RehearsedPace(3.0, 3.0, 5.0),
        }
    )
    assert whole_seconds(found, record, {}, 1) == (15.0 + 15.0 + 35.0, 25.0 + 25.0 + 35.0)
    assert whole_seconds(found, record, {}, 2) == (50.0, 60.0)
    done = {record.runs[0].experiment: 11, record.runs[2].experiment: 6}
    assert whole_seconds(found, record, done, 1) == (15.0 + 17.0, 25.0 + 17.0)
    assert whole_seconds(found, record, dict.fromkeys((run.experiment for run in record.runs), 11), 1) == (0.0, 0.0)


def test_disks_hold_the_checkpoints_that_are_kept_and_every_round() -> None:
    record = thesis()
    found = observed({}, [of_run("4/0", rows(10))], 1, 8)
    assert disk_bytes(found, record) == 40 * (2 * 1000 + 100 * 50)
    assert disk_bytes(found, thesis(checkpoint_keep=1)) == 40 * (1000 + 100 * 50)


def test_a_rehearsal_stands_for_studies_of_other_lengths_and_no_other_settings() -> None:
    of = identity(thesis(), 2)
    longer = msgspec.structs.replace(thesis(), rounds=900, seeds=(1,))
    assert identity(longer, 2) == of == msgspec.json.decode(msgspec.json.encode(of))
    assert identity(thesis(checkpoint_interval=3), 2) == of
    assert identity(thesis(adapter="lora"), 2) != of
    assert identity(thesis(), 3) != of
    first, *others = thesis().configurations
    smaller = (msgspec.structs.replace(first, nodes=1), *others)
    assert identity(msgspec.structs.replace(thesis(), configurations=smaller), 2) != of
