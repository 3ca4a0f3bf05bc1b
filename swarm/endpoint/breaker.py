"""Decides whether an endpoint is worth a request now. Pure; the clock is an argument.

closed ── too many failures in a row, or a refusal of everything ─▶ open ── rest is over ─▶ trial ── reply ─▶ closed
                                                                     ▲                        │
                                                                     └─── failure, rest x 2 ──┘
"""

from __future__ import annotations

from typing import Literal

from swarm.endpoint.config import EndpointConfig

State = Literal["closed", "open", "trial"]


class Breaker:
    """Knows failures and replies, one after the other."""

    def __init__(self, config: EndpointConfig) -> None:
        self._limit = config.breaker_failures
        self._first_rest = config.breaker_rest
        self._longest_rest = config.breaker_longest_rest
        self._failures = 0
        self._rest = 0.0
        self._until = 0.0

    def state(self, now: float) -> State:
        if not self._rest:
            return "closed"
        return "open" if now < self._until else "trial"

    def succeeded(self) -> None:
        self._failures, self._rest = 0, 0.0

    def failed(self, now: float, *, at_once: bool = False) -> None:
        """`at_once`: the endpoint refuses everything, so there is no use in trying on."""
        self._failures += 1
        state = self.state(now)
        if state == "trial" or (state == "closed" and (at_once or self._failures >= self._limit)):
            self._rest = min(self._longest_rest, self._rest * 2 or self._first_rest)
            self._until = now + self._rest
