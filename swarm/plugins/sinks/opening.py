"""Knows which sinks there are, and opens them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import cast

from swarm import entry_points
from swarm.errors import ConfigError
from swarm.extras import lacking
from swarm.plugins.sinks.base import Sink, SinkRun


def refuse_kinds(names: Iterable[str], named: str) -> None:
    """See that each is a kind of sink, and the library of ours is installed.

    Args:
        named: where they were, such as a variable.

    Raises:
        ConfigError: one is none.
    """
    ours = entry_points.bundled(entry_points.SINKS)  # the library of each has its name, as its extra does
    for kind in names:
        if kind not in ours and kind not in (there := entry_points.found(entry_points.SINKS)):
            raise ConfigError(f"{named}: expected {', '.join(there)}, got {kind!r}")
        if kind in ours and _is_missing(kind):
            raise lacking(f"the sink {kind}", kind, kind)


def _is_missing(library: str) -> bool:
    found = find_spec(library)
    return found is None or found.origin is None  # a folder of that name, which wandb makes, is no library


def open_sink(kind: str, of: SinkRun) -> Sink:
    """Returns a sink for a run, which its library may still refuse with any error. Raises ConfigError as refuse_kinds
    does."""
    refuse_kinds([kind], "the sink")
    return cast(Sink, entry_points.needed(entry_points.SINKS, kind, f"the sink {kind}")(of))
