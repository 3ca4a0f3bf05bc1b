"""The JSON forms of a conversation's earlier turns; rules of growth as in messages.py."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from swarm.types import LONGEST_REPLY, MOST_TURNS

EARLIER = Meta(min_length=1, max_length=MOST_TURNS - 1)
"""How many turns there are before the last one, where there are any."""
Reply = Annotated[str, Meta(min_length=1, max_length=LONGEST_REPLY)]


class TurnEntry(msgspec.Struct, kw_only=True):
    """A turn of the model before its last one, and what the task replied to it."""

    response: str
    """As in RolloutEntry."""
    reply: Reply
    """The environment's words, of 4,000 characters at most. Readers make them anew, and refuse others."""
    finished: bool = True
    """As in RolloutEntry."""
    token_ids: Annotated[Raw, Meta(description="list of integers")] | UnsetType = UNSET
    """As in RolloutEntry; used where each turn of the completion has them."""
    logprobs: Annotated[Raw, Meta(description="list of numbers")] | UnsetType = UNSET
    """As in RolloutEntry."""


class SampledTurn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A turn before the last one, as its node sampled it."""

    text: str
    """As in SampledCompletion."""
    finished: bool
    """As in SampledCompletion."""
    reply: Reply
    """What the task replied to it."""
    token_ids: list[Annotated[int, Meta(ge=0, lt=2**31)]]
    """As in SampledCompletion."""
    logprobs: list[float]
    """As in SampledCompletion."""
