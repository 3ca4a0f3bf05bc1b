"""Decides which questions of the nine tasks have a meaning, in the profiles that draw again where there is none.

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
    """Returns the library's entry as it is asked, or None: it has no meaning, draw again."""
    told = together.TOLD_BRIEFLY if origin.profile.startswith("tiny") else together.TOLD
    return asked_of(origin.task, entry, origin.seed, told)


def asked_of(dataset: str, entry: Entry, seed: int, told: str) -> Entry | None:
    """Returns the same of a dataset under any name; `told` is what propositional_logic says besides."""
    look = _LOOKS.get(dataset)
    return look(entry, seed, told) if look else entry


def _changes(entry: Entry, _seed: int, _told: str) -> Entry | None:
    metadata = entry["metadata"]
    grids = [*metadata["train_examples"], metadata["test_example"]]
    return entry if all(grid["input"] != grid["output"] for grid in grids) else None


_LOOKS: Mapping[str, Callable[[Entry, int, str], Entry | None]] = {
    "arc_1d": _changes,
    "propositional_logic": together.asked,
}
