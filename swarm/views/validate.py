"""What must be true of a run, and what came out. Each check yields one sentence for each thing that is wrong.

A node that skipped rounds, because it was late or killed, is no failure: `notes` tells of it.
How a run is read for them, while its nodes write on, is in run_records.py; what it was to be, in expectations.py.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import islice

import msgspec

from swarm.errors import ProtocolError
from swarm.harmless import printable
from swarm.records.archives import LARGEST_FILE
from swarm.records.events import FINISHED
from swarm.records.files import read_form
from swarm.records.listing import COPIED_TOGETHER, Counted, entries, is_of_a_system
from swarm.records.liveness import EVALUATOR
from swarm.records.progress import ProgressFollower, RoundSet
from swarm.records.table import measured
from swarm.store.base import Kind
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.views.expectations import as_many_as_expected, external_groups_as_expected, nodes_started_are_there
from swarm.views.run_records import NOTHING_EXPECTED, Expected, RunRecords, read_records, rounds_begun
from swarm.views.text import shorten
from swarm.wire import keys
from swarm.wire.codec import to_groups
from swarm.wire.messages import MetricsRow, RewardFile, StateFile

CUMULATIVE_TOLERANCE = 1e-6

Check = Callable[[RunRecords], Iterator[str]]


def state_is_final(run: RunRecords) -> Iterator[str]:
    now = run.now
    if now.state is not None:
        yield from _state_is_sound(run, now.state)
    elif now.problem:
        yield now.problem
    elif not now.own_clocks and (run.rollouts.nodes or not run.partial):
        yield f"there is no {run.where(keys.STATE)}"
    if run.partial or now.finished is not None:
        return
    if now.own_clocks:
        yield from _workers_on_the_way(run)
    elif now.state is not None:
        yield (
            f"{run.where(keys.STATE)}: expected finished and round = max_rounds = {_last_round(now.state)}, "
            f"got finished = {now.state.finished} and round = {now.state.round}; --partial accepts a run that goes on"
        )


def _last_round(state: StateFile) -> int:
    return state.max_rounds or state.round  # 0: its writer did not say


def _state_is_sound(run: RunRecords, state: StateFile) -> Iterator[str]:
    file, last = run.where(keys.STATE), _last_round(state)
    if state.experiment_name != run.now.run.experiment:
        yield f"{file}: experiment_name expected {run.now.run.experiment!r}, got {state.experiment_name!r}"
    if state.updated_at <= 0:
        yield f"{file}: updated_at expected Unix seconds, got {state.updated_at}"
    if state.round > last:
        yield f"{file}: round expected at most max_rounds = {last}, got {state.round}"


def _workers_on_the_way(run: RunRecords) -> Iterator[str]:
    """Yields workers on own clocks that did not do the same number of rounds: all have the same before them."""
    endings = {node: run.now.events[node].ending if node in run.now.events else None for node in run.now.workers}
    ends = {node: end.rounds_done if end and end.how == FINISHED else None for node, end in endings.items()}
    last = max((end for end in ends.values() if end is not None), default=None)
    for node, end in ends.items():
        if end is None or end != last:
            yield (
                f"{run.where(keys.events(node))}: expected node.finished after {last or 'all'} rounds, "
                f"got {'none' if end is None else f'it after {end}'}; --partial accepts a run that goes on"
            )
    if not ends:
        yield f"{run.where(keys.PEERS)}: expected at least one worker, got none"


def rollouts_of_every_round(run: RunRecords) -> Iterator[str]:
    return _gaps(run, run.rollouts, keys.ROLLOUTS, excused=_given_up(run), first=run.cleaned_before)


def rewards_of_every_round(run: RunRecords) -> Iterator[str]:
    return _gaps(run, run.rewards, keys.REWARDS)


def _given_up(run: RunRecords) -> set[int]:
    """Returns rounds of which a node's row says that its rollouts never reached the folder, which was unwritable."""
    return {row.round for _, row in _rows(run) if _never_published(run, row) and measured([row])}


def _never_published(run: RunRecords, row: MetricsRow) -> bool:
    """Tells whether this program's row says that nothing was published; rl-swarm's rows do not say it."""
    return not row.bytes_published and not run.now.made_by


def _gaps(
    run: RunRecords, counted: Counted, prefix: str, excused: Set[int] = frozenset(), first: int = 0
) -> Iterator[str]:
    """`first`: files of earlier rounds need not be there."""
    done, place = run.rounds_before, run.where(prefix)
    there = {key.round for key, nodes in counted.nodes.items() if nodes}
    if not done and not there and not run.partial:
        yield f"{place}: expected at least one round, got none"
    overdue = {number for events in run.now.events.values() for number in events.overdue}
    # of the last one the reward, or the word that it was overdue, may come; of a copy that broke off, more
    coming = range(done - (1 if done - 1 in there else COPIED_TOGETHER), done)
    excused = excused | (set(coming) if run.partial else set())
    if missing := [
        range(max(gap[0], first), gap[-1] + 1) for gap in gaps(done, there | overdue | excused) if gap[-1] >= first
    ]:
        yield f"{place}: expected files for all rounds 0-{done - 1}, got none for {named(missing)}"
    if beyond := {number for number in there if number >= rounds_begun(run)}:
        yield f"{place}: expected no round after the clock's {run.now.rounds_done - 1}, got {spans(beyond)}"


def files_behind_every_row(run: RunRecords) -> Iterator[str]:
    newest = run.newest_row
    unrewarded = {node: _unrewarded(run, node, last) for node, last in newest.items()}
    for node, row in _rows(run):
        if row.round > newest.get(node, -1):
            continue  # written while files were counted
        key = RoundKey(row.round, row.stage)
        for counted, place in (
            (run.rollouts, keys.rollout(key, node)),
            (run.rewards, keys.reward(key, node)),
        ):
            gone = counted is run.rollouts and (_never_published(run, row) or row.round < run.cleaned_before)
            coming = run.partial and counted is run.rewards and row.round >= unrewarded[node]
            none = counted is run.rewards and row.role == EVALUATOR
            if node not in counted.nodes.get(key, ()) and not (gone or coming or none):
                file = run.where(place)
                yield f"{file}: expected, since {node} has a metrics row for round {row.round}; it is not there"


def _unrewarded(run: RunRecords, node: str, last: int) -> int:
    """Returns the first round whose reward may still come, as it does after its row: the last one; and where that one
    lacks, those before it that a copy which broke off may lack, beyond the clock that it has."""
    if any(key.round == last and node in nodes for key, nodes in run.rewards.nodes.items()):
        return last
    return min(last, max(last - COPIED_TOGETHER, run.now.state.round if run.now.state else 0))


def rollout_files_have_their_form(run: RunRecords) -> Iterator[str]:
    for key, node in run.rollouts.files:
        place = keys.rollout(key, node)
        try:
            rollouts = run.published.decoded(key, node, LARGEST_FILE)
            if rollouts is not None:
                to_groups(rollouts, node, key, origin_needed=not run.now.made_by)
        except ProtocolError as error:
            yield f"{run.where(place)}: {error}"
            continue
        claims = [e.reward for group in rollouts.rollouts.values() for e in group] if rollouts else []
        if wrong := [claim for claim in claims if claim is not None and not 0 <= claim <= 1]:
            yield f"{run.where(place)}: rewards expected in [0, 1], got {wrong[0]}"


class WrittenReward(RewardFile, kw_only=True):
    """A reward as its JSON has it: a whole number means that somebody truncated it."""

    reward: float | int


def rewards_are_what_was_measured(run: RunRecords) -> Iterator[str]:
    measured = {(node, RoundKey(row.round, row.stage)): row.my_reward for node, row in _rows(run)}
    for key, node in run.rewards.files:
        place = keys.reward(key, node)
        file = run.where(place)
        try:
            reward = read_form(run.now.run.store, place, WrittenReward)
        except ProtocolError as error:
            yield f"{file}: {error}"
            continue
        if reward is None:
            continue
        if (reward.peer_id, reward.round, reward.stage) != (node, *key):
            yield f"{file}: speaks for {reward.peer_id!r}, round {reward.round}, stage {reward.stage}"
        if not 0 <= reward.reward <= 1 or not isinstance(reward.reward, float):
            yield f"{file}: reward expected as a real number in [0, 1], got {reward.reward:g}"
        row = measured.get((node, key))
        if row is not None and row != reward.reward:
            yield f"{file}: reward expected as in the metrics row, {row!r}, got {reward.reward!r}"


def one_row_per_node_and_round(run: RunRecords) -> Iterator[str]:
    for node, found in run.rows.items():
        file = run.where(keys.metrics(node))
        for key, times in Counter(RoundKey(row.round, row.stage) for row in found.rows).items():
            if times > 1:
                yield f"{file}: expected one row for round {key.round}, stage {key.stage}, got {times}"
        for row in found.rows:
            if (row.node_id, row.experiment) != (node, run.now.run.experiment):
                yield f"{file}: round {row.round} is said to be of {row.node_id!r} in {row.experiment!r}"
        if found.odd.left_out:
            yield f"{file}: {found.odd.left_out} rows left out: {'; '.join(found.odd.why_left_out)}"


def cumulative_reward_adds_up(run: RunRecords) -> Iterator[str]:
    for node, found in run.rows.items():
        before = 0.0
        for row in found.rows:
            expected = before + row.my_reward
            if abs(row.cumulative_reward - expected) > CUMULATIVE_TOLERANCE:
                yield (
                    f"{run.where(keys.metrics(node))}: cumulative_reward of round {row.round} "
                    f"expected {expected:.6f}, got {row.cumulative_reward:.6f}"
                )
            before = row.cumulative_reward


def totals_add_up(run: RunRecords) -> Iterator[str]:
    """Yields nodes whose last totals are not what their rows add up to: other views believe these."""
    for node, whole in run.now.progress.items():
        said = ProgressFollower(run.now.run.store, keys.metrics(node)).look()
        if whole.last is None or said.last is None or whole.last.round != said.last.round:
            continue  # it goes on meanwhile
        figures: dict[str, tuple[object, object]] = {"rounds": (whole.rounds_with_rows, said.rounds_with_rows)}
        figures |= {name: (whole.sums[name], got) for name, got in said.sums.items()}
        figures |= {name: (whole.counts[name], got) for name, got in said.counts.items()}
        figures["refused_by_peer"] = (whole.refused_by_peer, said.refused_by_peer)
        for name, (wanted, got) in figures.items():
            if wanted != got:
                where = run.where(keys.metrics(node))
                yield f"{where}: {name} in all rows expected {shorten(str(wanted), 60)}, got {shorten(str(got), 60)}"


def logs_are_there(run: RunRecords) -> Iterator[str]:
    published = {node for nodes in run.rollouts.nodes.values() for node in nodes}
    for node in sorted(published if run.partial else {*run.now.nodes, *run.now.workers}):
        if node not in run.now.events or not run.now.events[node].lines:
            yield f"{run.where(keys.events(node))}: expected events, got none"
        if node not in run.printed or not run.printed[node].bytes:
            yield f"{run.where(keys.stdout(node))}: expected text, got none"
    for node in sorted({node for nodes in run.rewards.nodes.values() for node in nodes}):
        if node not in run.rows or not run.rows[node].rows:
            yield f"{run.where(keys.metrics(node))}: expected rows, since {node} has submitted rewards; got none"
    if not run.now.logged and not run.partial:
        yield f"{run.where(keys.LOGS)}: expected the logs of at least one node, got none"


def lines_are_whole(run: RunRecords) -> Iterator[str]:
    for node in run.now.logged:
        rows, events = run.rows[node], run.now.events[node]
        for key, junk, torn in (
            (keys.metrics(node), rows.junk, rows.torn),
            (keys.events(node), events.junk, events.torn),
        ):
            if junk:
                yield f"{run.where(key)}: expected JSON lines of the documented form, got {junk} other ones"
            if torn and not run.partial:  # it is being written, or its writer was killed and goes on
                yield f"{run.where(key)}: the last line expected to end in a newline, but it is torn"


def names_are_clean(run: RunRecords) -> Iterator[str]:
    """Yields temporary, conflicting or foreign names where files are counted."""
    for stray in _strays(run):
        if not _of_a_system(stray):
            yield f"{run.where(stray)}: expected only the documented names in this folder"


def _strays(run: RunRecords) -> list[str]:
    strays = [*run.rollouts.strays, *run.rewards.strays, *_no_nodes(run, keys.PEERS)]
    state, name = keys.STATE.split("/")
    strays += [f"{state}/{entry.name}" for entry in entries(run.now.run.store, state) if entry.name != name]
    for entry in entries(run.now.run.store, keys.WINNERS):
        is_round = keys.round_of(entry.name) is not None and entry.kind is Kind.PREFIX
        strays += _no_nodes(run, f"{keys.WINNERS}/{entry.name}") if is_round else [f"{keys.WINNERS}/{entry.name}"]
    return strays


def _of_a_system(key: str) -> bool:
    return is_of_a_system(key.rpartition("/")[2])


def _no_nodes(run: RunRecords, prefix: str) -> list[str]:
    """Returns keys of the names in a prefix that are no `{node}.json`."""
    names = (entry.name for entry in entries(run.now.run.store, prefix))
    return [f"{prefix}/{name}" for name in names if not keys.node_of(name)]


def checkpoints_are_named_by_round(run: RunRecords) -> Iterator[str]:
    for entry in entries(run.now.run.store, keys.CHECKPOINTS):
        if keys.round_of(entry.name) is None and not is_of_a_system(entry.name):
            yield f"{run.where(f'{keys.CHECKPOINTS}/{entry.name}')}: expected only round_<number> here"


def nobody_crashed(run: RunRecords) -> Iterator[str]:
    for node in run.now.logged:
        said = [(keys.events(node), alarm) for alarm in run.now.events[node].alarms]
        said += [(keys.stdout(node), alarm) for alarm in run.printed[node].alarms]
        for key, alarm in said:
            yield f"{run.where(key)}:{alarm.number}: {shorten(alarm.line.decode('utf-8', 'replace'), 160)}"


CHECKS: dict[str, Check] = {
    "state is final": state_is_final,
    "rounds and workers expected": as_many_as_expected,
    "external groups expected": external_groups_as_expected,
    "nodes that were started": nodes_started_are_there,
    "rollouts of every round": rollouts_of_every_round,
    "rewards of every round": rewards_of_every_round,
    "files behind every metrics row": files_behind_every_row,
    "rollout files have the documented form": rollout_files_have_their_form,
    "rewards are what was measured": rewards_are_what_was_measured,
    "one metrics row per node and round": one_row_per_node_and_round,
    "cumulative reward adds up": cumulative_reward_adds_up,
    "totals add up": totals_add_up,
    "logs are not empty": logs_are_there,
    "no torn or junk lines": lines_are_whole,
    "no temporary names": names_are_clean,
    "checkpoints named by round": checkpoints_are_named_by_round,
    "no crash, no out of memory": nobody_crashed,
}


def notes(run: RunRecords) -> Iterator[str]:
    """Yields what is worth knowing about a run and no failure."""
    if run.cleaned and run.cleaned_before > 0:
        there = {key.round for key, nodes in run.rollouts.nodes.items() if nodes and key.round < run.cleaned_before}
        deleted = gaps(run.cleaned_before, there)
        kept = f"{spans(there)} in the archive or still there" if there else "no archive"
        deletions = f"; {named(deleted)} deleted" if deleted else ""
        yield f"rollouts were cleaned up before round {run.cleaned_before}: {kept}{deletions}"
    if run.now.made_by:
        yield f"made by {run.now.made_by}: checked as far as its records go, rewards as means per completion"
    if others := sorted(filter(_of_a_system, _strays(run))):
        yield f"{len(others)} files of other programs lie among the run's, such as {run.where(others[0])}"
    for node, found in run.rows.items():
        if found.odd.clamped:
            yield f"{found.odd.clamped} rows of {node} had a number clamped: {'; '.join(found.odd.why_clamped)}"
        if found.odd.cut:
            yield f"{found.odd.cut} rows of {node} had more names than are held: {'; '.join(found.odd.why_cut)}"
    for node in run.now.workers:
        rows = run.rows[node].rows if node in run.rows else []
        done = {row.round for row in rows}
        if skipped := gaps(run.now.rounds_done, done):
            why = "joined late, was late, or was stopped"
            if run.now.made_by:
                why += f", or {run.now.made_by} left no reward that can be read as one"
            yield f"{node} has no metrics row for {named(skipped)} ({why})"
        published = {key.round for key, nodes in run.rollouts.nodes.items() if node in nodes}
        if given_up := {row.round for row in measured(rows) if _never_published(run, row)} - published:
            yield f"{node} never published its rollouts of {spans(given_up)}: the folder refused writes for too long"
        submitted = {key.round for key, nodes in run.rewards.nodes.items() if node in nodes}
        if (cut := submitted - done) and not run.now.made_by:
            yield f"{node} submitted a reward for {spans(cut)} but wrote no metrics row (stopped in between)"


def _rows(run: RunRecords) -> Iterator[tuple[str, MetricsRow]]:
    return ((node, row) for node, found in run.rows.items() for row in found.rows)


def spans(numbers: set[int]) -> str:
    """`rounds 1, 3-5, 9`."""
    return named([range(first, last + 1) for first, last in RoundSet.of(numbers).spans])


def gaps(end: int, there: Set[int]) -> list[range]:
    """Returns the numbers from 0 to below `end` that are not there, a few ranges even where a stranger's clock says
    2^53.
    """
    edges = [-1, *sorted(number for number in there if 0 <= number < end), end]
    return [range(before + 1, after) for before, after in itertools.pairwise(edges) if after - before > 1]


def named(parts: Sequence[range]) -> str:
    """Ranges of rounds in words, as in `spans`."""
    words = [f"{part[0]}" if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts]
    count = sum(map(len, parts))
    shown = words if len(words) <= 12 else [*words[:12], f"... {count} in all"]
    return f"round{'s' if count > 1 else ''} {', '.join(shown)}"


SHOWN_PROBLEMS = 5
"""Problems of one check, as text."""
MOST_PROBLEMS = 1000
"""Problems of one check that are held; as many again are counted, and no more are looked for. Rows and files that find
fault cost who writes them nothing."""


class CheckResult(msgspec.Struct, frozen=True):
    """One check."""

    name: str
    ok: bool
    problems: tuple[str, ...]
    """The first MOST_PROBLEMS."""
    more: int = 0
    """Problems beyond them, MOST_PROBLEMS at most."""


class ValidationReport(msgspec.Struct, frozen=True):
    """All checks of a run."""

    experiment: str
    path: str
    ok: bool
    checks: tuple[CheckResult, ...]
    notes: tuple[str, ...]


def validate(run: Run, *, partial: bool = False, expected: Expected = NOTHING_EXPECTED) -> ValidationReport:
    """Check a run, against what it has recorded that it was to be, too. Arguments as in RunRecords."""
    found = read_records(run, partial=partial, expected=expected)
    checks = tuple(_result(name, check(found)) for name, check in CHECKS.items())
    return ValidationReport(
        experiment=run.experiment,
        path=run.place,
        ok=all(check.ok for check in checks),
        checks=checks,
        notes=tuple(notes(found)),
    )


def _result(name: str, wrong: Iterator[str]) -> CheckResult:
    problems = tuple(islice(wrong, MOST_PROBLEMS))
    return CheckResult(name, not problems, problems, more=sum(1 for _ in islice(wrong, MOST_PROBLEMS)))


def render(report: ValidationReport) -> str:
    """Returns one line per check, below it what is wrong; then the notes and the verdict."""
    lines = []
    for check in report.checks:
        lines.append(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}")
        lines += [f"      {printable(problem)}" for problem in check.problems[:SHOWN_PROBLEMS]]
        if (more := len(check.problems) - SHOWN_PROBLEMS + check.more) > 0:
            least = "at least " if check.more == MOST_PROBLEMS else ""
            lines.append(f"      and {least}{more} more; --json shows {len(check.problems)}")
    lines += [f"note  {printable(note)}" for note in report.notes]
    failed = sum(not check.ok for check in report.checks)
    verdict = "is whole" if report.ok else f"is not whole: {failed} of {len(report.checks)} checks failed"
    if any("--partial" in problem for check in report.checks for problem in check.problems):
        verdict += "; --partial accepts a run that goes on, or was stopped"
    return "\n".join([*lines, f"{report.experiment} {verdict}"])
