"""Readable names for nodes that were given none, such as `amber-otter-4f2a`."""

from __future__ import annotations

from random import Random

_COLOURS = (
    *("amber", "azure", "coral", "copper", "cyan", "golden", "green", "indigo"),
    *("ivory", "jade", "lilac", "olive", "pearl", "ruby", "silver", "teal"),
)
_ANIMALS = (
    *("badger", "crane", "falcon", "fox", "gecko", "heron", "ibex", "lynx"),
    *("marten", "newt", "otter", "panda", "quail", "raven", "seal", "wolf"),
)


def readable_name(rng: Random) -> str:
    """One of 16,777,216 names; registration settles the rare clash."""
    return f"{rng.choice(_COLOURS)}-{rng.choice(_ANIMALS)}-{rng.randrange(2**16):04x}"
