"""Decides what holds the next request back: a limit per minute, failures in a row, the spending cap. Pure; the clock
is an argument.

    Window    no more than so much in any 60 seconds
    Breaker   closed ── too many failures in a row, or a refusal of everything ─▶ open ── rest over ─▶ trial
              trial ── reply ─▶ closed, or ── failure ─▶ open, for twice the rest
    Budget    hold(worst case) ─▶ request under way ─▶ settle(what it cost)

What is spent and what is held never exceed the cap together. So the cap holds as long as no request costs more than its
worst case; by what a server counts beyond that it can be exceeded, for the requests that were under way then.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

import msgspec

from swarm.algo.seeds import derive_random
from swarm.endpoint.config import EndpointConfig
from swarm.endpoint.usage import Prices, Tokens, Usage

MINUTE = 60.0


@dataclass(slots=True)
class Taken:
    """One amount in the window."""

    at: float
    amount: int


class Window:
    """Lets no more than `limit` through in any 60 seconds; one amount that is larger by itself goes alone."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._taken: deque[Taken] = deque()
        self._sum = 0

    def wait(self, now: float, amount: int) -> float:
        """Returns seconds until so much may be taken."""
        if self._limit is None:
            return 0.0
        self._forget(now)
        left, over = len(self._taken), self._sum + amount - self._limit
        for taken in self._taken:
            if over <= 0:
                break
            over -= taken.amount
            left -= 1
            until = taken.at + MINUTE
        return max(0.0, until - now) if left < len(self._taken) else 0.0

    def take(self, now: float, amount: int) -> Taken:
        """Take it; what it turns out to have been is said to `correct`."""
        taken = Taken(now, amount)
        if self._limit is not None:
            self._taken.append(taken)
            self._sum += amount
        return taken

    def correct(self, taken: Taken, amount: int) -> None:
        if any(entry is taken for entry in self._taken):
            self._sum += amount - taken.amount
            taken.amount = amount

    def _forget(self, now: float) -> None:
        while self._taken and self._taken[0].at + MINUTE <= now:
            self._sum -= self._taken.popleft().amount


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


class Budget:
    """Totals and caps of one endpoint."""

    def __init__(
        self, usage: Usage, prices: Prices, *, cap_tokens: int | None = None, cap_money: float | None = None
    ) -> None:
        self.usage = usage
        self._prices = prices
        self._cap_tokens = cap_tokens
        self._cap_money = cap_money
        self._held: list[Tokens] = []

    def allows(self, worst: Tokens) -> bool:
        """Tells whether a request of this worst case fits under the caps, beside those that are under way."""
        held = [*self._held, worst]
        tokens = self.usage.tokens + sum(map(sum, held))
        money = self.usage.money + sum(map(self._prices.of, held))
        return (self._cap_tokens is None or tokens <= self._cap_tokens) and (
            self._cap_money is None or money <= self._cap_money
        )

    def hold(self, worst: Tokens) -> None:
        """A request is sent."""
        self._held.append(worst)
        self.usage = msgspec.structs.replace(self.usage, requests=self.usage.requests + 1)

    def settle(self, worst: Tokens, spent: Tokens, *, estimated: int = 0) -> None:
        """Notes that a request has ended. `estimated`: how many of the tokens spent nobody counted."""
        self._held.remove(worst)
        usage = self.usage
        self.usage = msgspec.structs.replace(
            usage,
            tokens_in=usage.tokens_in + spent.prompt,
            tokens_out=usage.tokens_out + spent.reply,
            tokens_estimated=usage.tokens_estimated + estimated,
            money=usage.money + self._prices.of(spent),
        )

    def count_reply(self, *, trimmed: bool) -> None:
        usage = self.usage
        self.usage = msgspec.structs.replace(usage, replies=usage.replies + 1, trimmed=usage.trimmed + trimmed)


LONGEST_ASKED = 900.0
"""Most seconds that a server may ask for: it is a stranger."""


def backoff(first: float, longest: float, failures: int, seed: int, *purpose: str | int, asked: float | None) -> float:
    """Returns seconds before the next attempt: doubled with each failure, between half of that and all of it, and never
    less than the server asks for.

    Args:
        failures: so far, at least 1.
        purpose: tells the requests of one seed apart, so that they do not come back together.
        asked: by the server (`Retry-After`); None: it said nothing.
    """
    whole = min(longest, first * 2.0 ** min(failures - 1, 60))
    jittered = whole * (0.5 + 0.5 * derive_random(seed, "backoff", failures, *purpose).random())
    return max(jittered, min(asked or 0.0, LONGEST_ASKED))
