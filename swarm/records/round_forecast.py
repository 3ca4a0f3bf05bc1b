"""Says before a round is over how long one takes on this machine, and whether the clock allows it. Pure.

    seconds of answering and of learning, the clock's interval ─▶ RoundForecast ─▶ a line, and what to type

A node measures them in its first own groups, `swarm probe` in its answers.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from swarm.records.hints import ask

LONGEST = 1e9
"""Seconds that are shown."""


class RoundForecast(msgspec.Struct, frozen=True):
    """Holds what a round of one node takes without waiting for others."""

    answering: float
    """Seconds to write and score the own answers."""
    learning: float | None
    """Seconds of the update; None: not measured."""
    interval: float
    """The longest that a round stays open, seconds; 0.0: not known, or each node keeps its own clock."""
    answers: int = 0
    """Answers that were scored."""
    earned: int = 0
    """Those of them with a reward."""
    task: str = ""
    """One of those that were asked."""

    @property
    def seconds(self) -> float:
        """Returns the seconds of a round, as far as they were measured."""
        return self.answering + (self.learning or 0.0)

    @property
    def fits(self) -> bool:
        """Tells whether the clock's interval is long enough, or does not matter."""
        return not 0.0 < self.interval < self.seconds

    @property
    def line(self) -> str:
        """Returns how long a round takes, whether the clock allows it, and what to type if not."""
        parts = f"{_seconds(self.answering)} to answer"
        parts += ", the update not measured" if self.learning is None else f", {_seconds(self.learning)} to learn"
        takes = f"a round takes about {_seconds(self.seconds)} on this machine ({parts})"
        if not self.interval:
            return takes
        if self.fits:
            return f"{takes}; the clock allows {self.interval:g} s"
        return (
            f"{takes}, and the clock allows only {self.interval:g} s: rounds end without it. Start the coordinator or "
            f"`swarm up` with --round-interval {2 * self.seconds:.0f} (COORDINATOR_ROUND_INTERVAL), or give this node "
            "less work (--local, --generations, --max-new-tokens)"
        )

    def earned_line(self, models: Iterable[str], experiment: str = "") -> str:
        """Returns how many answers earned a reward, and what shows them if none did; empty where none were scored."""
        if not self.answers:
            return ""
        if self.earned:
            return f"{self.earned} of {self.answers} answers earned a reward"
        return f"none of {self.answers} answers earned a reward; {ask(self.task, models, experiment)} shows one"


def slowest(found: Iterable[RoundForecast]) -> RoundForecast:
    """Returns the longest of several nodes' forecasts, with the answers of all of them."""
    known = list(found)
    longest = max(known, key=lambda one: one.seconds)
    answers, earned = sum(one.answers for one in known), sum(one.earned for one in known)
    return msgspec.structs.replace(longest, answers=answers, earned=earned)


def _seconds(number: float) -> str:
    number = min(number, LONGEST)
    return f"{number:.0f} s" if number >= 10 else f"{number:.1f} s"
