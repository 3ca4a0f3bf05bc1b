"""Each way in which a run's folder can be wrong is caught by its check, and by no other."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UnsetType

from swarm.node.worker.row import RunningTotals
from swarm.types import RoundKey
from swarm.views.validate import ValidationReport, gaps, named, render, validate
from swarm.wire.group_files import digest
from swarm.wire.messages import MetricsRow, RewardFile
from tests.layout import Layout
from tests.unit.views.factories import (
    START,
    add_row,
    append_events,
    make_event,
    make_experiment,
    make_rollouts,
    make_round,
    make_row,
    make_state,
    print_to,
    reward_of,
    run_of,
    set_clock,
    write,
)


def check(layout: Layout, *, partial: bool = False) -> ValidationReport:
    return validate(run_of(layout), partial=partial)


def failed(report: ValidationReport) -> list[str]:
    return [check.name for check in report.checks if not check.ok]


def problems(report: ValidationReport) -> str:
    return "\n".join(problem for check in report.checks for problem in check.problems)


def is_caught(layout: Layout, names: list[str], said: str = "", *, partial: bool = False) -> None:
    """These checks fail, no other, and one says this."""
    report = check(layout, partial=partial)
    assert failed(report) == names
    assert said in problems(report)


def reward_json(number: int, reward: str, peer: str = "alice") -> str:
    return f'{{"round":{number},"stage":0,"reward":{reward},"peer_id":"{peer}","submitted_at":1.0}}'


def test_a_whole_run_passes_every_check(tmp_path: Path) -> None:
    report = check(make_experiment(tmp_path, rounds=12))
    assert (report.ok, failed(report), report.notes) == (True, [], ())
    assert len(report.checks) == 17


STATE, FORM, LOGS, CRASH, FILES = (
    *("state is final", "rollout files have the documented form"),
    *("logs are not empty", "no crash, no out of memory", "files behind every metrics row"),
)
LINES, NAMES = "no torn or junk lines", "no temporary names"
EVERY = ["rollouts of every round", "rewards of every round"]
STRAYS = (
    *("rollouts/round_0/stage_0/.bob.json.tmp", "rollouts/tmp", "rollouts/round_0/other_0", "winners/round_0/bob.tmp"),
    *("rewards/round_0/stage_0/bob.sync-conflict-1.json", "winners/bob.json", "peers/bob.json.swp"),
    "state/current_state.json.tmp",
)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def clock_says(layout: Layout, **state: Any) -> None:
    write(layout.state_file, make_state(layout, **({"round": 3, "max_rounds": 3, "finished": True} | state)))


def publishes(layout: Layout, **fields: Any) -> None:
    write(layout.rollout_file(RoundKey(1), "bob"), make_rollouts("bob", RoundKey(1), **fields))


def claims_too_much(layout: Layout) -> None:
    entries = make_rollouts("bob", RoundKey(1)).rollouts["0"]
    publishes(layout, rollouts={"0": [msgspec.structs.replace(entries[0], reward=1.5), entries[1]]})


def ends_in(file: Path, line: bytes) -> None:
    with file.open("ab") as out:
        out.write(line)


def told(layout: Layout, event: str, level: str = "info", **fields: Any) -> None:
    append_events(layout, "bob", make_event(event, START, level, **fields))


CAUGHT: dict[str, tuple[Callable[[Layout], object], list[str], str]] = {
    "no state": (lambda at: at.state_file.unlink(), [STATE], ""),
    "a torn state": (lambda at: cut(at.state_file), [STATE], ""),
    "a state without a round": (lambda at: at.state_file.write_bytes(b"{}"), [STATE], ""),
    "an unfinished run": (lambda at: clock_says(at, finished=False), [STATE], ""),
    "too few rounds": (lambda at: clock_says(at, max_rounds=5), [STATE], ""),
    "a state of elsewhere": (lambda at: clock_says(at, experiment_name="another experiment"), [STATE], ""),
    "a round after the clock's last": (lambda at: make_round(at, "alice", 3), EVERY, ""),
    "rollouts of another": (lambda at: publishes(at, peer_id="mallory"), [FORM], "misplaced"),
    "rollouts of another round": (lambda at: publishes(at, round=2), [FORM], "misplaced"),
    "no groups": (lambda at: publishes(at, rollouts={}), [FORM], "empty"),
    "a later form": (lambda at: publishes(at, schema_version=2), [FORM], "wrong_version"),
    "torn rollouts": (lambda at: cut(at.rollout_file(RoundKey(0), "alice")), [FORM], ""),
    "a reward above 1": (claims_too_much, [FORM], ""),
    "rows of another": (
        lambda at: at.metrics_file("bob").write_bytes(at.metrics_file("alice").read_bytes()),
        ["one metrics row per node and round"],
        "",
    ),
    "no rows": (lambda at: at.metrics_file("bob").unlink(), [LOGS], ""),
    "no logs": (lambda at: shutil.rmtree(at.logs / "clock"), [LOGS], ""),
    "a checkpoint of no round": (lambda at: (at.checkpoints / "final").mkdir(), ["checkpoints named by round"], ""),
    "a crash": (lambda at: told(at, "process.crashed", "critical"), [CRASH], "/bob/"),
    "no memory": (lambda at: told(at, "x", exception="torch.OutOfMemoryError: ..."), [CRASH], "/bob/"),
    "no memory of a GPU": (lambda at: print_to(at, "bob", "CUDA out of memory. Tried to"), [CRASH], "/bob/"),
}
"""What is wrong with a run -> how it comes about, the checks that say so, and a word of theirs."""
CAUGHT |= {stray: (lambda at, stray=stray: (at.root / stray).touch(), [NAMES], stray) for stray in STRAYS}
CAUGHT |= {
    f"{line!r} in {name}": (lambda at, n=name, line=line: ends_in(at.logs / "alice" / n, line), [LINES], said)
    for name in ("training_events.jsonl", "metrics.jsonl")
    for line, said in ((b'{"torn\n', "1 other"), (b'{"half', "torn"))
}


@pytest.mark.parametrize("what", CAUGHT)
def test_what_is_wrong_is_caught_by_its_check_alone(tmp_path: Path, what: str) -> None:
    layout, (spoil, names, said) = make_experiment(tmp_path), CAUGHT[what]
    spoil(layout)
    is_caught(layout, names, said)


def test_a_run_without_any_round_is_not_whole_and_half_written_files_may_lie_in_the_temporary_folder(
    tmp_path: Path,
) -> None:
    layout = make_experiment(tmp_path, rounds=0)
    assert "rewards of every round" in failed(check(layout))
    layout = make_experiment(tmp_path, name="whole")
    layout.temporary("alice").mkdir(parents=True)
    (layout.temporary("alice") / "x.part").touch()
    assert check(layout).ok


def test_a_round_that_ended_at_its_interval_without_anybody_is_no_gap(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=5)
    set_clock(layout, 6, max_rounds=6, finished=True)
    assert "got none for round 5" in problems(check(layout))
    append_events(layout, "clock", make_event("round.last_closed", 1.7e9, round=6, stage=0, reason="interval"))
    assert failed(check(layout)) == []


def test_only_even_folders_are_caught(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=6)
    for number in (1, 3, 5):
        shutil.rmtree(layout.rollouts / f"round_{number}")
        shutil.rmtree(layout.rewards / f"round_{number}")
    report = check(layout)
    assert failed(report)[:3] == ["rollouts of every round", "rewards of every round", "files behind every metrics row"]
    assert "expected files for all rounds 0-5, got none for rounds 1, 3, 5" in problems(report)


@pytest.mark.parametrize("name", ["rollouts", "rewards"])
def test_each_metrics_row_needs_its_files(layout: Layout, name: str) -> None:
    (layout.root / name / "round_1" / "stage_0" / "bob.json").unlink()
    is_caught(layout, [FILES], f"{name}/round_1/stage_0/bob.json")


def one_by_one(layout: Layout) -> Path:
    """Bob's second round as if he had published one by one, all groups before the last file; returns the first."""
    key, file = RoundKey(1), make_rollouts("bob", RoundKey(1))
    named = {}
    for slot, entries in file.rollouts.items():
        place = layout.group_file(key, "bob", int(slot))
        write(place, msgspec.structs.replace(file, rollouts={slot: entries}, groups={slot: file.groups[slot]}))
        named[slot] = digest(place.read_bytes())
    write(layout.rollout_file(key, "bob"), msgspec.structs.replace(file, rollouts={}, groups={}, earlier=named))
    return layout.group_file(key, "bob", 0)


def test_groups_that_were_published_one_by_one_are_whole_with_all_files_and_not_without(layout: Layout) -> None:
    first = one_by_one(layout)
    assert failed(check(layout)) == []
    first.write_bytes(first.read_bytes() + b" ")
    assert "other_part" in problems(check(layout))
    first.unlink()
    is_caught(layout, [FORM], "missing_part")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (reward_json(1, "1.5"), "in [0, 1], got 1.5"),
        (reward_json(1, "0"), "real number in [0, 1], got 0"),
        (reward_json(1, "0.12"), "as in the metrics row, 0.11, got 0.12"),
        (reward_json(2, str(reward_of(1))), "speaks for 'alice', round 2"),
        (reward_json(1, str(reward_of(1)), peer="bob"), "speaks for 'bob'"),
        ("{}", "malformed"),
    ],
)
def test_submitted_rewards_must_be_what_was_measured(layout: Layout, text: str, said: str) -> None:
    layout.reward_file(RoundKey(1), "alice").write_text(text)
    is_caught(layout, ["rewards are what was measured"], said)


def test_a_round_counted_twice_is_caught(layout: Layout) -> None:
    add_row(layout, "bob", 2, cumulative_reward=make_row(layout, "bob", 2).cumulative_reward + reward_of(2))
    is_caught(layout, ["one metrics row per node and round"], "expected one row for round 2, stage 0, got 2")


def rewrite_rows(layout: Layout, node: str, rows: list[MetricsRow]) -> None:
    layout.metrics_file(node).parent.mkdir(exist_ok=True)
    layout.metrics_file(node).write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))


def test_totals_that_its_rows_do_not_add_up_to_are_caught(tmp_path: Path) -> None:
    layout, totals = make_experiment(tmp_path, rounds=2), RunningTotals()
    more = {"my_reward": 0.5, "tokens_generated": 7, "task_rewards": {f"task {n}": 0.25 for n in range(200)}}
    rows = [make_row(layout, "bob", number, **more) for number in range(400)]
    for row in rows:
        totals.add_up(row)
    rewrite_rows(layout, "bob", rows)
    assert "totals add up" not in failed(check(layout, partial=True))
    assert not isinstance(rows[-1].totals, UnsetType)
    rows[-1].totals.sums["tokens_generated"] = 5
    rewrite_rows(layout, "bob", rows)
    assert "tokens_generated in all rows expected 2800, got 5" in problems(check(layout, partial=True))


def test_a_cumulative_reward_that_was_reset_is_caught(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=2)
    set_clock(layout, 3, max_rounds=3, finished=True)
    make_round(layout, "bob", 2)
    reset = make_row(layout, "bob", 2, cumulative_reward=reward_of(2))
    rewrite_rows(layout, "bob", [make_row(layout, "bob", 0), make_row(layout, "bob", 1), reset])
    is_caught(layout, ["cumulative reward adds up"], "round 2 expected 0.330000, got 0.120000")


@pytest.mark.parametrize("name", ["training_events.jsonl", "stdout.log"])
@pytest.mark.parametrize("node", ["alice", "clock"])
def test_empty_logs_are_caught(layout: Layout, node: str, name: str) -> None:
    (layout.logs / node / name).write_bytes(b"")
    is_caught(layout, [LOGS], f"{node}/{name}")


@pytest.mark.parametrize("name", [".DS_Store", "desktop.ini", "._bob.json", ".stversions", ".nfs0000001"])
def test_what_systems_and_synchronisers_leave_is_no_fault_and_said(layout: Layout, name: str) -> None:
    for folder in ("rollouts", "rewards/round_0", "winners/round_0", "peers", "state", "checkpoints"):
        (layout.root / folder).mkdir(exist_ok=True)
        (layout.root / folder / name).touch()
    report = check(layout)
    assert failed(report) == []
    assert any("of other programs lie among the run's" in note for note in report.notes)


def test_a_run_that_goes_on_is_accepted_only_as_partial(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=3)
    write(layout.state_file, make_state(layout, round=3, max_rounds=9))
    make_round(layout, "alice", 3)  # bob is still at it
    assert STATE in failed(check(layout))
    is_caught(layout, [], partial=True)


def test_a_node_that_skipped_rounds_is_a_note(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, workers=("alice",), rounds=5)
    write(layout.reward_file(RoundKey(3), "carol"), RewardFile(**msgspec.json.decode(reward_json(3, "0.5", "carol"))))
    make_round(layout, "carol", 4)
    rewrite_rows(layout, "carol", [make_row(layout, "carol", 4, cumulative_reward=reward_of(4))])
    print_to(layout, "carol", "hello")
    report = check(layout)
    assert failed(report) == []
    assert [note[:46] for note in report.notes] == [
        "carol has no metrics row for rounds 0-3 (joine",
        "carol submitted a reward for round 3 but wrote",
    ]


def test_rounds_without_an_answer_of_a_person_were_not_given_up(layout: Layout) -> None:
    silent = {"role": "person", "local_groups": 0, "bytes_published": 0, "my_reward": 0}
    rewrite_rows(layout, "anna", [make_row(layout, "anna", number, **silent) for number in range(3)])
    assert not [note for note in check(layout).notes if "never published" in note]


def test_rollouts_that_a_row_says_were_given_up_are_noted_and_no_failure(layout: Layout) -> None:
    for node in ("alice", "bob"):
        layout.rollout_file(RoundKey(1), node).unlink()
        given_up = make_row(layout, node, 1, bytes_published=0)
        rewrite_rows(layout, node, [make_row(layout, node, 0), given_up, make_row(layout, node, 2)])
    report = check(layout)
    assert failed(report) == []
    assert [note for note in report.notes if "never published its rollouts of round 1" in note] == list(report.notes)
    layout.reward_file(RoundKey(1), "bob").unlink()
    is_caught(layout, [FILES])  # rewards are never given up


def test_the_text_has_one_line_per_check_and_the_first_few_problems(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=12)
    assert render(check(layout)).splitlines()[-1] == "exp is whole"
    for number in range(12):
        layout.reward_file(RoundKey(number), "bob").unlink()
    text = render(check(layout))
    assert "FAIL  files behind every metrics row" in text
    assert "and 7 more" in text
    assert text.endswith("exp is not whole: 1 of 17 checks failed")
    assert sum(line.startswith(("ok", "FAIL")) for line in text.splitlines()) == 17


def test_gaps_of_a_clock_that_says_anything_cost_nothing() -> None:
    assert named(gaps(2**53, {0, 2, 5})) == f"rounds 1, 3-4, 6-{2**53 - 1}"
    assert gaps(3, {0, 1, 2, 7}) == gaps(0, set()) == []


def test_the_newest_row_of_a_run_that_goes_on_may_wait_for_its_reward(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=3)
    write(layout.state_file, make_state(layout, round=2, max_rounds=9))
    layout.reward_file(RoundKey(2), "alice").unlink()
    is_caught(layout, [], partial=True)
    layout.reward_file(RoundKey(1), "alice").unlink()
    is_caught(layout, [FILES], partial=True)
