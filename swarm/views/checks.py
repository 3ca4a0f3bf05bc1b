"""What must be true of a run's folder. Each check yields one sentence for each thing that is wrong.

A node that skipped rounds, because it was late or killed, is no failure: `notes` tells of it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any

import msgspec

from swarm.errors import ProtocolError
from swarm.records.read import SMALL_FILE, Counted, read_file
from swarm.store.folder.fetch import list_names, read_bounded
from swarm.types import RoundKey
from swarm.views.run_records import RunRecords
from swarm.wire.codec import to_groups
from swarm.wire.layout import node_of, round_of
from swarm.wire.messages import MetricsRow, RewardFile, RolloutFile, StateFile

LARGEST_FILE = 1 << 30
"""Bytes. Checking reads a file at a time and refuses none for its size that nodes may have been allowed to take."""

CUMULATIVE_TOLERANCE = 1e-6
Check = Callable[[RunRecords], Iterator[str]]


def state_is_final(run: RunRecords) -> Iterator[str]:
    if run.state is not None:
        yield from _state_is_sound(run, run.state)
    elif run.state_problem:
        yield run.state_problem
    if run.partial or run.finished_by_themselves is not None:
        return
    if run.own_clocks:
        yield from _workers_on_the_way(run)
    elif run.state is not None:
        yield from _state_is_the_last(run, run.state)


def _state_is_sound(run: RunRecords, state: StateFile) -> Iterator[str]:
    file = run.layout.state_file
    if state.experiment_name != run.layout.experiment:
        yield f"{file}: experiment_name expected {run.layout.experiment!r}, got {state.experiment_name!r}"
    if state.updated_at <= 0:
        yield f"{file}: updated_at expected Unix seconds, got {state.updated_at}"
    last = state.max_rounds or state.round  # 0: its writer did not say
    if state.round > last:
        yield f"{file}: round expected at most max_rounds = {last}, got {state.round}"


def _state_is_the_last(run: RunRecords, state: StateFile) -> Iterator[str]:
    last = state.max_rounds or state.round
    if not (state.finished and state.round == last):
        yield (
            f"{run.layout.state_file}: expected finished and round = max_rounds = {last}, "
            f"got finished = {state.finished} and round = {state.round}; --partial accepts a run that goes on"
        )


def _workers_on_the_way(run: RunRecords) -> Iterator[str]:
    """On clocks of their own all workers have the same number of rounds before them."""
    ends = {node: run.logs[node].finished_after if node in run.logs else None for node in run.workers()}
    last = max((end for end in ends.values() if end is not None), default=None)
    for node, end in ends.items():
        if end is None or end != last:
            yield (
                f"{run.layout.events_file(node)}: expected node.finished after {last or 'all'} rounds, "
                f"got {'none' if end is None else f'it after {end}'}; --partial accepts a run that goes on"
            )
    if not ends:
        yield f"{run.layout.peers}: expected at least one worker, got none"


def rollouts_of_every_round(run: RunRecords) -> Iterator[str]:
    return _gaps(run, run.rollouts, run.layout.rollouts, excused=_given_up(run))


def rewards_of_every_round(run: RunRecords) -> Iterator[str]:
    return _gaps(run, run.rewards, run.layout.rewards)


def _given_up(run: RunRecords) -> set[int]:
    """Rounds of which a node's row says that its rollouts never reached the folder, which was unwritable."""
    return {row.round for _, row in _rows(run) if not row.bytes_published}


def _gaps(run: RunRecords, counted: Counted, folder: Path, excused: Set[int] = frozenset()) -> Iterator[str]:
    there = {key.round for key, nodes in counted.nodes.items() if nodes}
    open_rounds = {run.rounds_done} if run.partial else set()
    excused = excused | {run.rounds_done - 1} if run.partial and counted is run.rewards else excused
    if not run.rounds_done and not there:
        yield f"{folder}: expected at least one round, got none"
    overdue = {number for logs in run.logs.values() for number in logs.overdue}
    if missing := gaps(run.rounds_done, there | overdue | excused):
        yield f"{folder}: expected files for all rounds 0-{run.rounds_done - 1}, got none for {named(missing)}"
    if beyond := {number for number in there if number >= run.rounds_done} - open_rounds:
        yield f"{folder}: expected no round after the clock's {run.rounds_done - 1}, got {spans(beyond)}"


def files_behind_every_row(run: RunRecords) -> Iterator[str]:
    newest = {node: row.round for node, row in _rows(run)} if run.partial else {}
    for node, row in _rows(run):
        key = RoundKey(row.round, row.stage)
        for counted, file in (
            (run.rollouts, run.layout.rollout_file(key, node)),
            (run.rewards, run.layout.reward_file(key, node)),
        ):
            given_up = counted is run.rollouts and not row.bytes_published  # as its folder was unwritable for too long
            coming = counted is run.rewards and newest.get(node) == row.round  # it is submitted after its row
            if node not in counted.nodes.get(key, ()) and not given_up and not coming:
                yield f"{file}: expected, since {node} has a metrics row for round {row.round}; it is not there"


def rollout_files_have_their_form(run: RunRecords) -> Iterator[str]:
    for key, node in _files(run.rollouts):
        file = run.layout.rollout_file(key, node)
        try:
            rollouts = read_file(file, RolloutFile, limit=LARGEST_FILE)
            if rollouts is not None:
                to_groups(rollouts, node, key)
        except ProtocolError as error:
            yield f"{file}: {error}"
            continue
        claims = [e.reward for group in rollouts.rollouts.values() for e in group] if rollouts else []
        if wrong := [claim for claim in claims if claim is not None and not 0 <= claim <= 1]:
            yield f"{file}: rewards expected in [0, 1], got {wrong[0]}"


def rewards_are_what_was_measured(run: RunRecords) -> Iterator[str]:
    measured = {(node, RoundKey(row.round, row.stage)): row.my_reward for node, row in _rows(run)}
    for key, node in _files(run.rewards):
        file = run.layout.reward_file(key, node)
        try:
            reward = read_file(file, RewardFile)
        except ProtocolError as error:
            yield f"{file}: {error}"
            continue
        if reward is None:
            continue
        if (reward.peer_id, reward.round, reward.stage) != (node, *key):
            yield f"{file}: speaks for {reward.peer_id!r}, round {reward.round}, stage {reward.stage}"
        if not 0 <= reward.reward <= 1 or not _is_real(file):
            yield f"{file}: reward expected as a real number in [0, 1], got {reward.reward:g}"
        row = measured.get((node, key))
        if row is not None and row != reward.reward:
            yield f"{file}: reward expected as in the metrics row, {row!r}, got {reward.reward!r}"


def _is_real(reward_file: Path) -> bool:
    """A whole number in the JSON text means that somebody truncated it."""
    raw: dict[str, Any] = msgspec.json.decode(read_bounded(reward_file, SMALL_FILE))
    return isinstance(raw["reward"], float)


def one_row_per_node_and_round(run: RunRecords) -> Iterator[str]:
    for node, logs in run.logs.items():
        file, rows = run.layout.metrics_file(node), logs.metrics.rows
        for number, times in Counter(row.round for row in rows).items():
            if times > 1:
                yield f"{file}: expected one row for round {number}, got {times}"
        for row in rows:
            if (row.node_id, row.experiment) != (node, run.layout.experiment):
                yield f"{file}: round {row.round} is said to be of {row.node_id!r} in {row.experiment!r}"
            if not 0 <= row.my_reward <= 1:
                yield f"{file}: my_reward of round {row.round} expected in [0, 1], got {row.my_reward}"


def cumulative_reward_adds_up(run: RunRecords) -> Iterator[str]:
    for node, logs in run.logs.items():
        before = 0.0
        for row in logs.metrics.rows:
            expected = before + row.my_reward
            if abs(row.cumulative_reward - expected) > CUMULATIVE_TOLERANCE:
                yield (
                    f"{run.layout.metrics_file(node)}: cumulative_reward of round {row.round} "
                    f"expected {expected:.6f}, got {row.cumulative_reward:.6f}"
                )
            before = row.cumulative_reward


def logs_are_there(run: RunRecords) -> Iterator[str]:
    for node in sorted({*run.peers, *run.workers(), *run.logs}):
        logs = run.logs.get(node)
        if logs is None or not logs.events:
            yield f"{run.layout.events_file(node)}: expected events, got none"
        if logs is None or not logs.stdout_bytes:
            yield f"{run.layout.stdout_file(node)}: expected text, got none"
    rewarded = {node for nodes in run.rewards.nodes.values() for node in nodes}
    for node in sorted(rewarded):
        if node not in run.logs or not run.logs[node].metrics.rows:
            yield f"{run.layout.metrics_file(node)}: expected rows, since {node} has submitted rewards; got none"
    if not run.logs:
        yield f"{run.layout.logs}: expected the logs of at least one node, got none"


def lines_are_whole(run: RunRecords) -> Iterator[str]:
    for node, logs in run.logs.items():
        for file, junk, torn in (
            (run.layout.metrics_file(node), logs.metrics.junk, logs.metrics.torn),
            (run.layout.events_file(node), logs.junk, logs.torn),
        ):
            if junk:
                yield f"{file}: expected JSON lines of the documented form, got {junk} other ones"
            if torn:
                yield f"{file}: the last line expected to end in a newline, but it is torn"


def names_are_clean(run: RunRecords) -> Iterator[str]:
    """No temporary, conflicting or foreign name lies in a folder whose files are counted."""
    layout = run.layout
    winners = [layout.root / "winners" / name for name in list_names(layout.root / "winners")]
    rounds = [folder for folder in winners if round_of(folder.name) is not None and folder.is_dir()]
    strays = [
        *run.rollouts.strays,
        *run.rewards.strays,
        *(layout.peers / name for name in list_names(layout.peers) if not node_of(name)),
        *(layout.state_file.parent / n for n in list_names(layout.state_file.parent) if n != layout.state_file.name),
        *(folder for folder in winners if folder not in rounds),
        *(folder / name for folder in rounds for name in list_names(folder) if not node_of(name)),
    ]
    for stray in strays:
        yield f"{stray}: expected only the documented names in this folder"


def checkpoints_are_named_by_round(run: RunRecords) -> Iterator[str]:
    for name in list_names(run.layout.checkpoints):
        if round_of(name) is None:
            yield f"{run.layout.checkpoints / name}: expected only round_<number> here"


def nobody_crashed(run: RunRecords) -> Iterator[str]:
    for logs in run.logs.values():
        yield from logs.alarms


CHECKS: dict[str, Check] = {
    "state is final": state_is_final,
    "rollouts of every round": rollouts_of_every_round,
    "rewards of every round": rewards_of_every_round,
    "files behind every metrics row": files_behind_every_row,
    "rollout files have the documented form": rollout_files_have_their_form,
    "rewards are what was measured": rewards_are_what_was_measured,
    "one metrics row per node and round": one_row_per_node_and_round,
    "cumulative reward adds up": cumulative_reward_adds_up,
    "logs are not empty": logs_are_there,
    "no torn or junk lines": lines_are_whole,
    "no temporary names": names_are_clean,
    "checkpoints named by round": checkpoints_are_named_by_round,
    "no crash, no out of memory": nobody_crashed,
}


def notes(run: RunRecords) -> Iterator[str]:
    """What is worth knowing and no failure."""
    for node in run.workers():
        done = {row.round for row in run.logs[node].metrics.rows} if node in run.logs else set()
        if skipped := gaps(run.rounds_done, done):
            yield f"{node} has no metrics row for {named(skipped)} (joined late, was late, or was stopped)"
        published = {key.round for key, nodes in run.rollouts.nodes.items() if node in nodes}
        given_up = {row.round for whose, row in _rows(run) if whose == node and not row.bytes_published} - published
        if given_up:
            yield f"{node} never published its rollouts of {spans(given_up)}: the folder refused writes for too long"
        submitted = {key.round for key, nodes in run.rewards.nodes.items() if node in nodes}
        if cut := submitted - done:
            yield f"{node} submitted a reward for {spans(cut)} but wrote no metrics row (stopped in between)"


def spans(numbers: set[int]) -> str:
    """`rounds 1, 3-5, 9`."""
    runs = itertools.groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0])
    parts = [[number for _, number in pairs] for _, pairs in runs]
    return named([range(part[0], part[-1] + 1) for part in parts])


def gaps(end: int, there: Set[int]) -> list[range]:
    """The numbers from 0 to below `end` that are not there, a few ranges even where a stranger's clock says 2^53."""
    edges = [-1, *sorted(number for number in there if 0 <= number < end), end]
    return [range(before + 1, after) for before, after in itertools.pairwise(edges) if after - before > 1]


def named(parts: Sequence[range]) -> str:
    """Ranges of rounds in words, as in `spans`."""
    words = [f"{part[0]}" if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts]
    count = sum(map(len, parts))
    shown = words if len(words) <= 12 else [*words[:12], f"... {count} in all"]
    return f"round{'s' if count > 1 else ''} {', '.join(shown)}"


def _rows(run: RunRecords) -> Iterator[tuple[str, MetricsRow]]:
    return ((node, row) for node, logs in run.logs.items() for row in logs.metrics.rows)


def _files(counted: Counted) -> Iterator[tuple[RoundKey, str]]:
    return ((key, node) for key in sorted(counted.nodes) for node in sorted(counted.nodes[key]))
