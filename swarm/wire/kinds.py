"""The kinds of number that forms are made of: their range, and their unit for docs/metrics.md."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

SCHEMA_VERSION = 1


def unit(name: str) -> Meta:
    """Makes the mark that says in what unit a field is measured."""
    return Meta(extra={"unit": name})


def counted(name: str) -> Meta:
    """Returns a count of these."""
    return Meta(ge=0, lt=2**53, extra={"unit": name})


Count = Annotated[int, Meta(ge=0, lt=2**53)]
Round = Annotated[int, counted("rounds")]
Stage = Annotated[int, counted("stages")]
Nodes = Annotated[int, counted("nodes")]
Groups = Annotated[int, counted("groups")]
Completions = Annotated[int, counted("completions")]
Tokens = Annotated[int, counted("tokens")]
Bytes = Annotated[int, counted("bytes")]
UnixSeconds = Annotated[float, unit("Unix seconds")]
Seconds = Annotated[float, unit("seconds")]
Spans = Annotated[list[list[float]], unit("seconds")]
"""Pairs of begin and end, in order."""
Reward = Annotated[float, unit("reward")]
Share = Annotated[float, unit("share")]
Nats = Annotated[float, unit("nats")]
