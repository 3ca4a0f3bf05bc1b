"""Progress of a run, read from its folder: rounds done, rewards, finished or not, whether it can go on after a stop."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from swarm.records.listing import saved_rounds
from swarm.records.reader import RunReader, snapshot
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

    def is_finished(self, rounds: int) -> bool:
        """It is over, after so many rounds at least."""
        return self.finished_after is not None and self.finished_after >= rounds


def read_progress(reader: RunReader) -> RunProgress:
    """A run's progress by now; growing files are read once and then only their new lines."""
    now = reader.refresh()
    nodes, over = now.progress.values(), now.finished
    last = max((max(node.rewards) for node in nodes if node.rewards), default=None)
    return RunProgress(
        rounds_done=now.rounds_done,
        finished_after=over.rounds if over else None,
        reward=fmean(n.rewards[last] for n in nodes if last in n.rewards) if last is not None else None,
        cumulative_reward=sum(node.cumulative_reward for node in nodes),
    )


def is_finished(run: Run, rounds: int) -> bool:
    """The run is over, after so many rounds at least."""
    over = snapshot(run).finished
    return over is not None and over.rounds >= rounds


def can_go_on(run: Run) -> bool:
    """Whether every worker saved the last round that it did.

    A swarm that was stopped did. Of one that was killed some nodes would go on with older weights at the round where
    the clock stands, and the run would no longer be what its configuration says.
    """
    now = snapshot(run)
    if now.problem:
        return False
    clock, saved = now.state.round if now.state else 0, saved_rounds(run)
    done = {node: now.progress[node].rounds_done if node in now.progress else 0 for node in now.workers}
    return all(max(saved.get(node, ()), default=0) >= max(clock, done[node]) for node in now.workers)
