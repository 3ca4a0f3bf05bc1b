"""Decides what holds the next request back: failures in a row, the spending cap. Pure; the clock is an argument.

    Breaker   closed ── too many failures in a row, or a refusal of everything ─▶ open ── rest over ─▶ trial
              trial ── reply ─▶ closed, or ── failure ─▶ open, for twice the rest
    Budget    hold(worst case) ─▶ request under way ─▶ settle(what it cost)

What is spent and what is held never exceed the cap together. So the cap holds as long as no request costs more than its
worst case; by what a server counts beyond that it can be exceeded, for the requests that were under way then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

import msgspec

from swarm.algo.seeds import derive_random
from swarm.remote.outcomes import Failure, Reply, Tokens

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Running totals, of all lives of a node together if each hands the last one's to the next: a small JSON state."""

    requests: Count = 0
    """Sent, repetitions and those that failed included."""
    replies: Count = 0
    """That could be used."""
    tokens_in: Count = 0
    """Tokens of prompts, as the server counts them, else estimated."""
    tokens_out: Count = 0
    """Tokens of replies, likewise."""
    tokens_estimated: Count = 0
    """Tokens of both that no server counted: estimated from the text, or the worst case where no reply came."""
    money: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """At the prices of the time."""

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    def plus(self, **more: float) -> Usage:
        """Returns the totals with so much added to some of them."""
        now = msgspec.structs.asdict(self)
        return msgspec.structs.replace(self, **{name: now[name] + amount for name, amount in more.items()})


class Prices(NamedTuple):
    """Money per million tokens."""

    prompt: float = 0.0
    reply: float = 0.0

    def of(self, tokens: Tokens) -> float:
        return (tokens.prompt * self.prompt + tokens.reply * self.reply) / 1e6


State = Literal["closed", "open", "trial"]


class Breaker:
    """Knows failures and replies, one after the other."""

    def __init__(self, failures: int | None = None, rest: float = 0.0, longest_rest: float = 0.0) -> None:
        """`failures`: so many in a row open it; None: it stays closed. `rest`: seconds, the first time."""
        self._limit = failures
        self._first_rest, self._longest_rest = rest, longest_rest
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
        """`at_once`: the server refuses everything, so there is no use in trying on."""
        if self._limit is None:
            return
        self._failures += 1
        state = self.state(now)
        if state == "trial" or (state == "closed" and (at_once or self._failures >= self._limit)):
            self._rest = min(self._longest_rest, self._rest * 2 or self._first_rest)
            self._until = now + self._rest


@dataclass
class Budget:
    """Totals, and caps of what may be used."""

    usage: Usage = field(default_factory=Usage)
    prices: Prices = field(default_factory=Prices)
    cap_tokens: int | None = None
    cap_money: float | None = None
    _held: list[Tokens] = field(default_factory=list)

    def allows(self, worst: Tokens) -> bool:
        """Tells whether a request of this worst case fits under the caps, beside those that are under way."""
        held = [*self._held, worst]
        tokens = self.usage.tokens + sum(map(sum, held))
        money = self.usage.money + sum(map(self.prices.of, held))
        return (self.cap_tokens is None or tokens <= self.cap_tokens) and (
            self.cap_money is None or money <= self.cap_money
        )

    @property
    def holds(self) -> bool:
        """Tells whether requests are under way, of whichever call."""
        return bool(self._held)

    def hold(self, worst: Tokens) -> None:
        """A request is sent."""
        self._held.append(worst)
        self.usage = self.usage.plus(requests=1)

    def settle(self, worst: Tokens, outcome: Reply | Failure) -> None:
        """Notes what came of a request that was held: a failure that may be billed costs the worst case."""
        self._held.remove(worst)
        if isinstance(outcome, Reply):
            spent, estimated = outcome.spent, outcome.estimated
        else:
            spent = worst if outcome.billed else Tokens(0, 0)
            estimated = sum(spent)
        self.usage = self.usage.plus(
            replies=isinstance(outcome, Reply),
            tokens_in=spent.prompt,
            tokens_out=spent.reply,
            tokens_estimated=estimated,
            money=self.prices.of(spent),
        )


@dataclass
class ServerLimits:
    """Holds what bounds the requests to one server, from one generation to the next."""

    budget: Budget = field(default_factory=Budget)
    breaker: Breaker = field(default_factory=Breaker)
    paused_until: float = float("-inf")
    """Throttled: nothing is sent before."""


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
