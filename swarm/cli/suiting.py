"""The difficulty of the questions where nobody chooses one: `paper` for models that are not embedded, said aloud.

    somebody chose a profile, or a model is embedded ─────▶ nothing
    the experiment goes on that these settings name ──────▶ its own profile
    else ─────────────────────────────────────────────────▶ `paper`

What comes of it lies below all that a person, a file or a preset says. Who joins an experiment takes what that has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from swarm.cli.flags import CommonFlags, as_settings, open_experiment, settings_from
from swarm.cli.say import warn
from swarm.config import Settings, sources_of
from swarm.config.sources import Given
from swarm.node.base.experiment import identity_of, is_begun, read_experiment
from swarm.policy.embedded import FOR_OTHERS, any_embedded
from swarm.spelling import named
from swarm.views.text import shorten

PROFILE = "profile"
WRITER = "suiting"
"""Who looks for the experiment; nothing is written by that name."""
MOST_NAMED, LONGEST = 4, 80


def suited(
    flags: CommonFlags | None,
    environ: Mapping[str, str] = os.environ,
    *,
    own: Mapping[str, Any] | None = None,
    begins: bool = False,
    tells: bool = True,
    **defaults: Any,
) -> Given:
    """Setting -> value and where it came from, of what suits the models and nobody chose; the `base` of settings_from.

    Args:
        flags, environ, own, defaults: as of settings_from.
        begins: the command begins the experiment that is named, or goes on with it.
        tells: say on the terminal what is chosen.

    Raises:
        ConfigError: an unknown or malformed setting.
        StoreError: the experiment is there and cannot be read.
    """
    given = flags or CommonFlags()
    settings = settings_from(flags, environ, own=own, **defaults)
    if PROFILE in sources_of(as_settings(given) | dict(own or {}), environ, given.config, **defaults):
        return {}
    if settings.endpoint is not None or any_embedded(settings.model):
        return {}
    found = _of_the_experiment(settings) if begins else {}
    if found and tells:
        warn(f"profile {found[PROFILE][0]}, as {found[PROFILE][1]} has it")
    elif tells:
        say_chosen(settings.model)
    return found or {PROFILE: (FOR_OTHERS, "the model, which is not embedded")}


def suited_settings(flags: CommonFlags | None, *, own: Mapping[str, Any] | None = None, **defaults: Any) -> Settings:
    """Of a command that asks what a run would be asked, and begins none. Raises ConfigError."""
    return settings_from(flags, base=suited(flags, own=own, **defaults), own=own, **defaults)


def say_chosen(models: Iterable[str]) -> None:
    """Say which profile was chosen for these models, and why."""
    names = [shorten(name, LONGEST) for name in dict.fromkeys(models)]
    are = "is not an embedded model" if len(names) == 1 else "are no embedded models"
    warn(f"profile {FOR_OTHERS}, because {named(names, MOST_NAMED)} {are} (SWARM_PROFILE chooses another one)")


def _of_the_experiment(settings: Settings) -> Given:
    """An experiment that goes on keeps what it is; nothing where none was begun."""
    run = open_experiment(settings, WRITER)
    experiment = read_experiment(run)
    if experiment is None or not is_begun(run):
        return {}
    made = identity_of(experiment).get(PROFILE)
    return {PROFILE: (made, f"the experiment {run.experiment}")} if made else {}
