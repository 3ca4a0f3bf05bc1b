"""Checks of a run against what it was to be: what is missing without a trace shows only so.

asked for (--rounds, --nodes ..) ─▶ exactly that
recorded by the run              ─▶ at least that
recorded by a node at its starts ─▶ rows of its own
"""

from __future__ import annotations

from collections.abc import Iterator

from swarm.records.events import FINISHED, MISSED, STOPPED
from swarm.views.run_records import RunRecords, recorded
from swarm.views.text import shorten
from swarm.wire import keys

RECORDED = "as the run has it recorded"


def as_many_as_expected(run: RunRecords) -> Iterator[str]:
    """Rounds and workers; of the rounds of a run without expectations its state is held against itself elsewhere."""
    asked, of_run = run.expected, recorded(run.now)
    if asked.rounds is not None:
        yield from _rounds(run, asked.rounds)
    there = _workers(run)
    if asked.nodes is not None and len(there) != asked.nodes:
        yield f"{_workers_sentence(run, there, asked.nodes, '--nodes')}{_how_it_counts(run, there, asked.nodes)}"
    elif asked.nodes is None:
        if missing := sorted(of_run.names - there):
            yield f"{run.where(keys.LOGS)}: expected rows of {shorten(', '.join(missing), 200)}, {RECORDED}; got none"
        elif of_run.nodes is not None and len(there) < of_run.nodes:
            yield _workers_sentence(run, there, of_run.nodes, RECORDED)


def _rounds(run: RunRecords, expected: int) -> Iterator[str]:
    done, to_do = run.now.rounds_done, run.now.rounds_expected
    if to_do is not None and to_do != expected:
        yield f"{run.where(keys.STATE)}: expected {expected} rounds (--rounds), got a run of {to_do}"
    elif done > expected or (done < expected and not run.partial):
        yield f"{run.where(keys.STATE)}: expected {expected} rounds (--rounds), got {done}"
    elif not run.partial:
        for node, found in run.rows.items():
            last = max((row.round for row in found.rows), default=None)
            if last is not None and last + 1 < expected:
                yield (
                    f"{run.where(keys.metrics(node))}: expected rows up to round {expected - 1} (--rounds), "
                    f"got the last one of round {last}"
                )


def _workers(run: RunRecords) -> set[str]:
    """Returns those with rows that train, or are waited for as if they did; while the run goes on those who registered,
    too."""
    registered = {*run.now.workers}
    with_rows = {node for node, found in run.rows.items() if found.rows} - (run.now.generators - registered)
    return with_rows | (registered if run.partial else set())


def _workers_sentence(run: RunRecords, there: set[str], expected: int, said: str) -> str:
    names = shorten(", ".join(sorted(there)), 200) or "none"
    return f"{run.where(keys.LOGS)}: expected rows of {expected} workers ({said}), got those of {len(there)}: {names}"


def _how_it_counts(run: RunRecords, there: set[str], expected: int) -> str:
    """Many count the coordinator among their nodes."""
    leaders = {node for node, peer in run.now.peers.items() if peer.node_role == "coordinator"} - there
    of_both = len(there | leaders) == expected
    return f"; a coordinator trains nothing and is not counted{f': --nodes {len(there)}' if of_both else ''}"


def external_groups_as_expected(run: RunRecords) -> Iterator[str]:
    """J in every row, and that some were trained on, where somebody asks for them."""
    if (asked := run.expected.external) is None:
        return
    for node, found in run.rows.items():
        if node in run.now.generators or not found.rows:
            continue
        file, others = run.where(keys.metrics(node)), [row for row in found.rows if row.external_wanted != asked]
        if others:
            yield (
                f"{file}: expected {asked} external groups wanted in every round (--external), "
                f"got {others[0].external_wanted} in round {others[0].round} and in {len(others)} rounds in all"
            )
        elif asked and not any(row.external_groups for row in found.rows):
            yield f"{file}: expected external groups trained on (--external), got none in {len(found.rows)} rounds"


def nodes_started_are_there(run: RunRecords) -> Iterator[str]:
    """Whoever was started to take part has a row; a registration alone proves nothing, as anybody can write one.

    While the run goes on only those must have one that had rounds behind them. A person may come to look.
    """
    for node, start in run.started.items():
        if node in run.rows and run.rows[node].rows:
            continue
        if start.rounds_done:
            behind = f"since {node} was started with {start.rounds_done} rounds behind it ({keys.starts(node)})"
            yield f"{run.where(keys.metrics(node))}: expected rows, {behind}; got none"
        elif not run.partial and not start.person:
            file, why = run.where(keys.metrics(node)), f"since {node} was started ({keys.starts(node)})"
            yield f"{file}: expected at least one row, {why}; got none: {_how_it_ended(run, node)}"


def _how_it_ended(run: RunRecords, node: str) -> str:
    """Returns how a node ended that has no row."""
    ending = run.now.events[node].ending if node in run.now.events else None
    if ending is None:
        return "it was killed, or still runs"
    if ending.how == MISSED:
        return "all rounds were over when it was ready"
    return f"it {'ended' if ending.how in (FINISHED, STOPPED) else ending.how} before its first round"
