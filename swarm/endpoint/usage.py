"""Counts what an endpoint was asked and what that cost, as a small JSON state that outlives the process."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Money = Annotated[float, msgspec.Meta(ge=0)]


class Tokens(NamedTuple):
    """Counts the tokens of one request."""

    prompt: int
    reply: int


class Prices(NamedTuple):
    """Money per million tokens."""

    prompt: float = 0.0
    reply: float = 0.0

    def of(self, tokens: Tokens) -> float:
        return (tokens.prompt * self.prompt + tokens.reply * self.reply) / 1e6


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Running totals, of all lives of a node together if each hands the last one's to the next."""

    requests: Count = 0
    """Sent, repetitions and those that failed included."""
    replies: Count = 0
    """That could be used."""
    trimmed: Count = 0
    """Replies among these that began with the prompt."""
    tokens_in: Count = 0
    """Tokens of prompts, as the server counts them, else estimated."""
    tokens_out: Count = 0
    """Tokens of replies, likewise."""
    tokens_estimated: Count = 0
    """Tokens of both that no server counted: estimated from the text, or the worst case where no reply came."""
    money: Money = 0.0
    """At the prices of the time."""

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out
