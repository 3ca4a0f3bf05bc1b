"""Says why a clock stands that has begun: said by its coordinator, shown by who looks. Pure."""

from __future__ import annotations

from collections.abc import Collection

NO_WORKERS, ONLY_STARTING, NO_REWARDS = "stands_no_workers", "stands_starting", "stands_no_rewards"
"""What a coordinator gives as its phase."""
IN_WORDS = {
    NO_WORKERS: "no worker is alive: start one (`swarm join`), the rounds go on with it",
    ONLY_STARTING: "every worker that is alive is still starting",
    NO_REWARDS: "workers are alive, and none has published a round lately: their logs say why (`swarm logs`)",
}


def why_it_stands(
    *, live: Collection[str], coming: Collection[str], overdue: bool, somebody_counts: bool, first_rounds: bool
) -> str:
    """Returns the phase that says why an open round does not end; empty: nothing keeps it.

    Args:
        live: workers that take part.
        coming: workers that are starting.
        overdue: it has been open for the whole interval.
        somebody_counts: a reward that counts came for it, or for one of the rounds before it.
        first_rounds: it is one of those that end without a reward.
    """
    if somebody_counts or live:
        return NO_REWARDS if overdue and live and not somebody_counts and not first_rounds else ""
    return ONLY_STARTING if coming else NO_WORKERS
