"""Logs a problem that comes again at every look once, and once more when it is over."""

from __future__ import annotations

from swarm.logs import get_logger

logger = get_logger(__name__)


class LogOnce:
    """One kind of problem, which comes and goes."""

    def __init__(self, began: str, over: str) -> None:
        """The names of the events that tell of its beginning and of its end."""
        self._began = began
        self._over = over
        self._lasts = False

    def found(self, problem: object) -> None:
        """It is there: a warning, unless it was there already."""
        if not self._lasts:
            logger.warning(self._began, error=str(problem))
        self._lasts = True

    def gone(self) -> None:
        """It is not there, or not any more."""
        if self._lasts:
            logger.info(self._over)
        self._lasts = False
