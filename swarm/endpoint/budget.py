"""The spending cap: whether one more request may be sent. Pure.

    hold(worst case) ─▶ request under way ─▶ settle(what it cost)

What is spent and what is held never exceed the cap together. So the cap holds as long as no request costs more than its
worst case; by what a server counts beyond that it can be exceeded, for the requests that were under way then.
"""

from __future__ import annotations

import msgspec

from swarm.endpoint.usage import Prices, Tokens, Usage


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
