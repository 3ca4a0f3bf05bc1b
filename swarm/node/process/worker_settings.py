"""Decides which worker gets which settings, if several start on one machine; names such as `amber-otter-4f2a`."""

from __future__ import annotations

from dataclasses import replace
from random import Random, SystemRandom

from swarm.config import NODE_ID, Settings
from swarm.errors import ConfigError

_COLOURS = (
    *("amber", "azure", "coral", "copper", "cyan", "golden", "green", "indigo"),
    *("ivory", "jade", "lilac", "olive", "pearl", "ruby", "silver", "teal"),
)
_ANIMALS = (
    *("badger", "crane", "falcon", "fox", "gecko", "heron", "ibex", "lynx"),
    *("marten", "newt", "otter", "panda", "quail", "raven", "seal", "wolf"),
)


def readable_name(rng: Random) -> str:
    """Returns one of 16,777,216 names; registration settles the rare clash."""
    return f"{rng.choice(_COLOURS)}-{rng.choice(_ANIMALS)}-{rng.randrange(2**16):04x}"


def number_flags(numbers: range) -> list[str]:
    """Returns the flags of `swarm node` that run the workers of these numbers in one process."""
    return ["--nodes", str(len(numbers)), *(["--first", str(numbers.start)] if numbers.start else [])]


def settings_of_workers(settings: Settings, numbers: range) -> list[Settings]:
    """Returns the settings of each of several workers; lists of models and of mixtures are dealt out in turn.

    With NODE_ID=w they are called by their numbers, such as w-0; without it each gets a name of its own.

    Raises:
        ConfigError: NODE_ID leaves no room for the numbers.
    """
    name = settings.node_id
    if name and not NODE_ID.fullmatch(f"{name}-{numbers[-1]}"):
        raise ConfigError(f"NODE_ID={name} is too long for {len(numbers)} workers: {name}-{numbers[-1]} is no node id")
    return [
        replace(
            settings,
            role="worker",
            node_id=f"{name}-{n}" if name else readable_name(SystemRandom()),
            model=(settings.model[n % len(settings.model)],),
            mixture=settings.mixture and (settings.mixture[n % len(settings.mixture)],),
        )
        for n in numbers
    ]
