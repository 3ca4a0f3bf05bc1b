"""Which questions of the nine tasks have a meaning, in the profiles that draw again where there is none.

propositional_logic   a conclusion follows from the statements together, and from none alone (together.py)
arc_1d                the rule changes something, in every example and in the test
all others            any
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from swarm.tasks.gym import together
from swarm.types import Origin

Entry = dict[str, Any]


def asked(origin: Origin, entry: Entry) -> Entry | None:
    """The library's entry as it is asked, or None: it has no meaning, draw again."""
    look = _LOOKS.get(origin.task)
    return look(origin, entry) if look else entry


def _logic(origin: Origin, entry: Entry) -> Entry | None:
    told = together.TOLD_BRIEFLY if origin.profile.startswith("tiny") else together.TOLD
    return together.asked(entry, origin.seed, told)


def _changes(_origin: Origin, entry: Entry) -> Entry | None:
    metadata = entry["metadata"]
    grids = [*metadata["train_examples"], metadata["test_example"]]
    return entry if all(grid["input"] != grid["output"] for grid in grids) else None


_LOOKS: Mapping[str, Callable[[Origin, Entry], Entry | None]] = {
    "arc_1d": _changes,
    "propositional_logic": _logic,
}
