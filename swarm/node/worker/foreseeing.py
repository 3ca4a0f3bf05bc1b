"""Says once, after a node's first round, how long the others take and what it earned (swarm.records.first_round)."""

from __future__ import annotations

from swarm.config import Settings
from swarm.logs import get_logger
from swarm.records.first_round import FirstRound, advice, first_round
from swarm.records.pace import age
from swarm.wire.metrics import MetricsRow

logger = get_logger(__name__)


class Foreseeing:
    """Logs one node's prospects once, from its start to its first round with groups of its own."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._done = False

    def observe(self, row: MetricsRow) -> None:
        """Take note of a stage of a round."""
        settings, left = self._settings, self._settings.max_rounds - row.round - 1
        if self._done or row.stage != settings.max_stages - 1 or left < 1:
            return
        if found := first_round([row], left, settings.generations):
            self._done = True
            _log(found, advice(found, settings.model) if row.round == 0 else "")


def _log(found: FirstRound, what_to_do: str) -> None:
    logger.info(
        "rounds.foreseen",
        rounds_left=found.rounds_left,
        take=age(found.seconds_left),
        seconds_per_round=round(found.seconds, 2),
        reward=round(found.reward.mean, 4),
        reward_low=round(found.reward.low, 4),
        reward_high=round(found.reward.high, 4),
        tagged=round(found.tagged.mean, 3),
        finished=round(found.finished.mean, 3),
        signal=f"{found.with_signal}/{found.groups}",
        **({"advice": what_to_do} if what_to_do else {}),
    )
