"""Knows which sinks there are, and opens them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import cast

from swarm.errors import ConfigError
from swarm.extras import lacking
from swarm.sinks.base import Sink, SinkRun

SINKS = {"tensorboard": "TensorBoardSink", "trackio": "TrackioSink", "wandb": "WandbSink"}
"""Kind, which is the name of its library, its extra and its module here -> the class."""


def refuse_kinds(kinds: Iterable[str], named: str) -> None:
    """See that each is a kind of sink, and its library is installed.

    Args:
        named: where they were, such as a variable.

    Raises:
        ConfigError: one is none.
    """
    for kind in kinds:
        if kind not in SINKS:
            raise ConfigError(f"{named}: expected {', '.join(SINKS)}, got {kind!r}")
        found = find_spec(kind)
        if found is None or found.origin is None:  # a folder of that name, which wandb makes, is no library
            raise lacking(f"the sink {kind}", kind, kind)


def open_sink(kind: str, of: SinkRun) -> Sink:
    """Returns a sink for a run, which its library may still refuse with any error. Raises ConfigError as refuse_kinds
    does."""
    refuse_kinds([kind], "the sink")
    made = getattr(import_module(f"swarm.sinks.{kind}"), SINKS[kind])
    return cast(Sink, made(of))
