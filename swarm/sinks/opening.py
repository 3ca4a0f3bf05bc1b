"""Knows which sinks there are, and opens them: ours, and what packages register in `swarm.sinks` (docs/plugins.md)."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from swarm import entry_points
from swarm.entry_points import found, load
from swarm.errors import ConfigError
from swarm.extras import lacking
from swarm.sinks.base import Sink, SinkRun

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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
            _registered(kind, named)
            continue
        library = find_spec(kind)
        if library is None or library.origin is None:  # a folder of that name, which wandb makes, is no library
            raise lacking(f"the sink {kind}", kind, kind)


def open_sink(kind: str, of: SinkRun) -> Sink:
    """Returns a sink for a run, which its library may still refuse with any error. Raises ConfigError as refuse_kinds
    does.
    """
    refuse_kinds([kind], "the sink")
    ours = kind in SINKS
    made = getattr(import_module(f"swarm.sinks.{kind}"), SINKS[kind]) if ours else load(_registered(kind, "the sink"))
    return cast(Sink, made(of))


def _registered(kind: str, named: str) -> EntryPoint:
    """Returns the entry point of a sink that is none of ours. Raises ConfigError: no package registers it."""
    there = found(entry_points.SINKS)
    if kind not in there:
        raise ConfigError(f"{named}: expected {', '.join([*SINKS, *there])}, got {kind!r}")
    return there[kind]
