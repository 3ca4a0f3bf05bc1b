"""Says once why the clock stands, and that it goes on; the coordinator's registration says it too."""

from __future__ import annotations

from swarm.logs import get_logger
from swarm.node.base.presence import Presence
from swarm.node.coordinator.coordinator_machine import MOST_EMPTY, Look
from swarm.records.standing import IN_WORDS, why_it_stands
from swarm.types import RoundKey

logger = get_logger(__name__)
MOST_NAMED = 8
"""Workers that the event names."""


class Standing:
    """Logs once why one coordinator's clock stands, and once that it goes on."""

    def __init__(self, presence: Presence, round_interval: float) -> None:
        self._presence = presence
        self._interval = round_interval
        self._key: RoundKey | None = None
        self._since = 0.0

    def look(self, key: RoundKey | None, look: Look, *, finished: bool) -> None:
        """Take note of a look.

        Args:
            key: the open round; None: workers are awaited before the first.
        """
        if key != self._key:
            self._key, self._since = key, look.now
        phase = "" if key is None or finished else self._why(key, look)
        if phase == self._presence.phase:
            return
        if phase and key:
            workers = sorted(look.live or look.coming)[:MOST_NAMED]
            logger.warning("clock.stands", round=key.round, why=IN_WORDS[phase], workers=workers)
        else:
            logger.info("clock.goes_on", round=key.round if key else None)
        self._presence.phase = phase

    def _why(self, key: RoundKey, look: Look) -> str:
        return why_it_stands(
            live=look.live,
            coming=look.coming,
            overdue=look.now - self._since >= self._interval,
            somebody_counts=bool(look.counted_lately if look.live else look.counted),
            first_rounds=key.round < MOST_EMPTY,
        )
