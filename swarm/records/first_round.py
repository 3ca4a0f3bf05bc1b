"""Tells what the first round says of all of them: how long they take, and whether there is anything to learn. Pure.

    rows of one round ─▶ FirstRound ─┬ takes     seconds of the others, at its pace
                                     ├ says      reward per completion with its interval, tags, ends, signals
                                     └ advice    where nothing was to be learned, what measures that

A guess after one round. What holds for so long that chance does not explain it is said by the hints (hints.py).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from swarm.policy.embedded import any_embedded
from swarm.records.hints import ask, hardest, probe
from swarm.records.pace import Share, wilson_of
from swarm.spelling import age
from swarm.wire.metrics import MetricsRow

ALL_RIGHT = 0.5
"""Mean reward above which equal rewards mean that nothing is left, as in the hints."""
OF_THE_EMBEDDED = (
    "nothing could be learned {so_far}: an embedded model knows the tasks of the demonstration alone; name another one "
    "with --model"
)


class FirstRound(msgspec.Struct, frozen=True):
    """A round of one node or several. Shares are over their own completions, as if each question were one draw."""

    rounds_left: int
    seconds: float
    """Seconds of the slowest node."""
    groups: int
    completions: int
    reward: Share
    """Mean per completion."""
    tagged: Share
    """With a closed answer."""
    finished: Share
    """Ended by the model, not cut."""
    signal: Share
    """Share of the groups whose rewards differ: others teach nothing."""
    task: str
    """One that earned least; empty where none is named."""

    @property
    def with_signal(self) -> int:
        """Groups."""
        return round(self.signal.mean * self.groups)

    @property
    def seconds_left(self) -> float:
        """Estimates the seconds that the rounds left take, at this one's pace."""
        return self.rounds_left * self.seconds


def first_round(rows: Iterable[MetricsRow], rounds_left: int, generations: int) -> FirstRound | None:
    """Sums up the rows of one round, or of several; None: nobody had groups of its own."""
    own = [row for row in rows if row.local_groups > 0]
    groups = sum(row.local_groups for row in own)
    if not groups:
        return None

    def share(column: str) -> Share:
        return wilson_of(sum(getattr(row, column) * row.local_groups for row in own) / groups, groups)

    equal = share("zero_advantage_local")
    return FirstRound(
        rounds_left=rounds_left,
        seconds=max(row.seconds_round for row in own),
        groups=groups,
        completions=groups * generations,
        reward=share("my_reward"),
        tagged=share("answer_tag_rate"),
        finished=share("finished_rate"),
        signal=Share(1 - equal.mean, 1 - equal.high, 1 - equal.low),
        task=hardest(own[-1]),
    )


def pace_line(found: FirstRound) -> str:
    """Says how long the rest takes, and what was earned."""
    others = "other round takes" if found.rounds_left == 1 else f"other {found.rounds_left} rounds take"
    rest = f"the {others} about {age(found.seconds_left)}"
    return f"at this pace {rest}; {earned_line(found)}"


def earned_line(found: FirstRound) -> str:
    """`reward per completion 0.016 (0.002 to 0.22), 11% tagged, 98% finished, 2 of 16 groups with a signal`."""
    reward = found.reward
    return (
        f"reward per completion {reward.mean:.3f} ({reward.low:.3f} to {reward.high:.3f}), {found.tagged.mean:.0%} "
        f"tagged, {found.finished.mean:.0%} finished, {found.with_signal} of {found.groups} groups with a signal"
    )


def advice(found: FirstRound, models: Iterable[str], so_far: str = "so far", experiment: str = "") -> str:
    """Returns advice where no group had a signal; empty where some had, and for embedded models on the tasks that they
    were made for, where the start is known.

    Args:
        so_far: in which rounds, as the sentence says it.
    """
    names = list(models)
    if found.with_signal:
        return ""
    if any_embedded(names):
        return OF_THE_EMBEDDED.format(so_far=so_far) if "/" in found.task else ""
    if not found.tagged.mean:
        return (
            f"nothing could be learned {so_far}: none of {found.completions} completions has a closed "
            f"<answer>...</answer>, and only such earn anything. {ask(found.task, names, experiment)} shows what it "
            f"writes, {probe(names)} measures which tasks it can learn from"
        )
    kind = "harder" if found.reward.mean > ALL_RIGHT else "easier"
    return (
        f"nothing could be learned {so_far}: all rewards in each of {found.groups} groups are equal; {probe(names)} "
        f"measures which tasks it can learn from, or take {kind} questions (SWARM_PROFILE, SWARM_TASKS)"
    )
