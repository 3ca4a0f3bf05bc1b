"""Turns what rl-swarm wrote of one node and round into the mean reward per completion, in [0, 1], or why nobody can
know.

    metrics.jsonl, is_stage_detail   sum of stage_reward / sum of num_samples            since 16 November 2025
    metrics.jsonl, with mean_reward  my_reward / completions                             since 16 November 2025
    short lines of metrics.json      (my_reward - 1) / completions, or 0 for 0           12 October to 16 November 2025
    short lines of metrics.jsonl     likewise before 12 October 2025; later ones unknown
    no lines at all                  rewards/.../{node}.json / completions; a whole number was truncated, and one that
                                     follows rounds without any may be the sum of them all: neither is taken

Versions with short lines added 1 to every positive sum, but for those of half an hour on 16 November 2025: a sum
between 0 and 1 shows that nothing was added to this node's. A round is often logged twice; its last line counts.
`completions` are counted in the node's own rollout files, or else are I x G as it printed them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from swarm.plugins.rl_swarm.forms import MetricsLine, Reward
from swarm.records.table import is_share

RENAMED_AT = 1760266430.0
"""Unix seconds of the commit from which on metrics.jsonl was called metrics.json (724106c); 245b8ce took that back, 22
minutes after 6eb25cd had ended the adding of 1."""


class KnownReward(NamedTuple):
    """A reward that is known."""

    total: float
    """Sum over completions."""
    completions: int

    @property
    def mean(self) -> float:
        return self.total / self.completions


class Unknown(NamedTuple):
    """A reward that nobody can know any more."""

    why: str


def measure(lines: Sequence[MetricsLine], completions: int, *, added: float | None) -> KnownReward | Unknown | None:
    """Returns the reward of one node and round; None where no line speaks of it.

    Args:
        lines: of that round, as written.
        completions: of one round of this node; 0: unknown.
        added: what was added to each positive sum of its short lines; None: nobody can tell.
    """
    stages = {line.stage: line for line in lines if line.stage_reward is not None and line.num_samples}
    if stages:
        total = sum(line.stage_reward or 0.0 for line in stages.values())
        return _checked(total, sum(line.num_samples or 0 for line in stages.values()))
    line = next((line for line in reversed(lines) if line.my_reward is not None), None)
    if line is None or line.my_reward is None:
        return None
    if line.mean_reward is not None or added == 0 or line.my_reward == 0:
        return _checked(line.my_reward, completions)
    if added is None:
        return Unknown(f"my_reward {line.my_reward:g} may be 1 too high, as versions of rl-swarm made it")
    return _checked(line.my_reward - added, completions)


def measure_file(reward: Reward, completions: int, *, follows: bool) -> KnownReward | Unknown:
    """Returns the reward of one file, where there are no lines.

    Args:
        follows: there is one of the round before, or this is the first round of all.
    """
    if isinstance(reward.reward, int):
        return Unknown(f"reward {reward.reward} was truncated to a whole number")
    if not follows:
        return Unknown(f"reward {reward.reward:g} may be the sum of several rounds: the round before has none")
    return _checked(float(reward.reward), completions)


def _checked(total: float, completions: int) -> KnownReward | Unknown:
    if not completions:
        return Unknown(f"{total:g} is a sum over completions, and nothing says how many there were")
    if not is_share(total / completions):
        return Unknown(f"{total:g} is no sum of {completions} rewards in [0, 1]")
    return KnownReward(total, completions)


def added_to(short: Sequence[MetricsLine], *, old_name: bool) -> float | None:
    """Returns what a node's version added to each positive sum of its short lines; None: nobody can tell.

    Args:
        short: its lines without mean_reward.
        old_name: they stand in metrics.json.
    """
    if any(line.my_reward is not None and 0 < line.my_reward < 1 for line in short):
        return 0.0
    return 1.0 if old_name or all(line.timestamp < RENAMED_AT for line in short) else None


def by_round(lines: Iterable[MetricsLine]) -> Mapping[int, list[MetricsLine]]:
    """Returns the lines of each round, as written."""
    found: dict[int, list[MetricsLine]] = {}
    for line in lines:
        found.setdefault(line.round, []).append(line)
    return found
