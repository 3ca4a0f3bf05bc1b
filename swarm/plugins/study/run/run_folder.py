"""Progress of a run, read from its folder: rounds done, rewards, finished or not, whether it can go on after a kill.

A run goes on where its nodes were: they redo what they trained since their last checkpoints (node/worker/starting.py).
What they could not redo, because of files that are gone or damaged, is counted; such a run is no longer what its
configuration says. It does not count as finished, and begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from swarm.plugins.study.record import StudyRecord, open_run
from swarm.records.reader import RunReader
from swarm.store.run import Run


@dataclass(frozen=True)
class RunProgress:
    """A run at one moment."""

    rounds_done: int = 0
    reward: float | None = None
    """Mean over the nodes of `my_reward`, of the last round that has rows."""
    cumulative_reward: float = 0.0
    """Sum over nodes and rounds of `my_reward`."""
    finished_after: int | None = None
    """Rounds after which it was over, as its coordinator or all of its workers say; None if it is not."""
    rounds_lost: int = 0
    """Updates that its nodes lost for good when they were killed, summed over the nodes."""

    def is_finished(self, rounds: int) -> bool:
        """Tells whether it is over, after so many rounds at least, none of them lost."""
        return not self.rounds_lost and self.is_over(rounds)

    def is_over(self, rounds: int) -> bool:
        """Tells whether it is over, after so many rounds at least."""
        return self.finished_after is not None and self.finished_after >= rounds


def read_progress(reader: RunReader) -> RunProgress:
    """Returns a run's progress by now; growing files are read once and then only their new lines."""
    now = reader.refresh()
    nodes, over = now.progress.values(), now.finished
    rewards = [node.measured_rewards for node in nodes]
    last = max((max(of_node) for of_node in rewards if of_node), default=None)
    return RunProgress(
        rounds_done=now.rounds_done,
        finished_after=over.rounds if over else None,
        reward=fmean(of_node[last] for of_node in rewards if last in of_node) if last is not None else None,
        cumulative_reward=sum(node.cumulative_reward for node in nodes),
        rounds_lost=sum(node.rounds_lost for node in now.events.values()),
    )


def progress_of_runs(record: StudyRecord, folder: Path) -> dict[str, RunProgress]:
    """Reads the progress of all runs of a study, by experiment."""
    return {one.experiment: read_progress(RunReader(open_run(folder, one.experiment))) for one in record.runs}


def is_finished(run: Run, rounds: int) -> bool:
    """The run is over, after so many rounds at least, none of them lost."""
    return read_progress(RunReader(run)).is_finished(rounds)


def can_go_on(run: Run) -> bool:
    """Tells whether a run that was stopped or killed comes out as if it had not been: no node has lost an update."""
    return not read_progress(RunReader(run)).rounds_lost
