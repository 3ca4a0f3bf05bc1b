"""A study on a terminal: its runs while they run, and what they came to."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from swarm.cli.say import say
from swarm.plugins.study.budget import said_of_sizes, unequal_budgets
from swarm.plugins.study.record import ConfigurationRecord
from swarm.plugins.study.run.runner import RunView, StudyView
from swarm.plugins.study.run.schedule import OVER, RunState
from swarm.views.text import age, shorten, table

LINE_SECONDS = 60.0
"""Between two lines where no run ends."""


class StudyDisplay:
    """Says now and then how far a study is, and the end of every run."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._said_at = float("-inf")
        self._over: set[str] | None = None

    def show(self, view: StudyView) -> None:
        """One look."""
        over = {run.run.experiment for run in view.runs if run.state in OVER}
        news = [] if self._over is None else [run for run in view.runs if run.run.experiment in over - self._over]
        self._over = over
        for run in news:
            say(_end_line(run))
        if news or self._monotonic() - self._said_at >= LINE_SECONDS:
            self._said_at = self._monotonic()
            say("; ".join(" ".join(line.split()) for line in [headline(view), *map(run_line, running(view))]))


def running(view: StudyView) -> list[RunView]:
    """Returns runs that go on now, whoever started them."""
    return [*view.those(RunState.RUNNING), *view.those(RunState.ELSEWHERE)]


def headline(view: StudyView) -> str:
    """`sapo  7/20 runs  34 %  ETA 18m`."""
    share = view.rounds_done / max(1, view.record.rounds * len(view.runs))
    left = f"ETA {age(view.seconds_left)}" if view.seconds_left is not None else "ETA -"
    failed = len(view.those(RunState.FAILED))
    done = f"{len(view.those(RunState.FINISHED))}/{len(view.runs)} runs"
    return f"{view.record.study}  {done}  {share:.0%}  {left}" + (f"  {failed} failed" if failed else "")


def run_line(view: RunView) -> str:
    """`  4/4 seed 3  57 rounds done  reward 0.213`."""
    reward = f"{view.progress.reward:.3f}" if view.progress.reward is not None else "-"
    note = "started earlier, waited for" if view.state is RunState.ELSEWHERE else view.note
    name = shorten(view.run.configuration, 20)
    return f"  {name:<12} seed {view.run.seed}  {view.progress.rounds_done} rounds done  reward {reward}" + (
        f"  ({note})" if note else ""
    )


def _end_line(view: RunView) -> str:
    if view.state is RunState.FAILED:
        return f"{view.run.experiment} failed: {view.problem}"
    but = f"; {view.problem}" if view.problem else ""
    return f"{view.run.experiment} finished, cumulative reward {view.progress.cumulative_reward:.2f}{but}"


def results(view: StudyView) -> str:
    """Mean cumulative reward of the finished runs of each configuration, held against its baseline's.

    Where one of them trains on more groups than the other, that is said.
    """
    means = {one.name: _mean(view, one) for one in view.record.configurations}
    rows = []
    for one in view.record.configurations:
        mean, base = means[one.name], means.get(one.baseline)
        runs = sum(run.run.configuration == one.name for run in view.those(RunState.FINISHED))
        gain = f"{mean / base - 1:+.1%} of {one.baseline}" if mean is not None and base else "-"
        rows.append([one.name, str(runs), f"{mean:.2f}" if mean is not None else "-", gain])
    found = table(("configuration", "runs", "cumulative reward", "against baseline"), rows, left=(0, 3))
    return "\n".join([found, *filter(None, [said_of_sizes(view.record)]), *unequal_budgets(view.record)])


def _mean(view: StudyView, one: ConfigurationRecord) -> float | None:
    finished = [run for run in view.those(RunState.FINISHED) if run.run.configuration == one.name]
    of_equal_size = view.record.nodes / view.record.nodes_of(one.name)
    return of_equal_size * fmean(run.progress.cumulative_reward for run in finished) if finished else None
