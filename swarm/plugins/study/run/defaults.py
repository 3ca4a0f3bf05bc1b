"""Decides what a setting that nobody names means in a study: today's defaults in a new one, in an old one those it
began with.

    nobody named it │ new study                           │ study that is there
    ────────────────┼─────────────────────────────────────┼───────────────────────────────────────────────────────
    setting         │ DEFAULTS, else the field's default  │ its record: `settings`, else `defaults`
    built-in matrix │ its settings                        │ those that the record has for it

So a study goes on with what it was begun with, whatever the defaults are by then; who names another value is refused
(growth.py). Of the settings in FREE, which do not decide what a run computes, today's count.

Models that are not embedded get the questions and the learning rate that suit them, where nobody says otherwise:

    nobody named it │ new study, no embedded model        │ study that is there
    ────────────────┼─────────────────────────────────────┼───────────────────────────────────────────────────────
    profile         │ `paper-2`                           │ its own
    learning rate   │ the model's, not a built-in matrix's│ its own

An embedded model through adapters takes the rate of that, too: a built-in matrix has one for all weights.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import msgspec

from swarm.config import Settings
from swarm.config.environment import is_secret
from swarm.config.settings import FIELDS
from swarm.config.sources import parse
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.run.matrix import DEFAULTS, FREE, OWNED, Matrix, refuse_strangers_words, stated
from swarm.policy.embedded import FOR_OTHERS, any_embedded

PROFILE, RATE = "profile", "learning_rate"


def as_begun(matrix: Matrix, there: StudyRecord) -> Matrix:
    """Returns a matrix with what the study was begun with in the place of today's defaults.

    Of a built-in matrix its settings, and those of its configurations, are defaults as well; a file names its own.

    Raises:
        ConfigError: the record names code, or reaches out of its place, where the matrix does not.
    """
    named = {} if matrix.built_in else dict(matrix.settings)
    begun = {name: value for name, value in stated(there).items() if _was_default(name, there, matrix)}
    configurations = matrix.configurations
    if matrix.built_in:
        before = {one.name: one.settings for one in there.configurations}
        configurations = tuple(
            msgspec.structs.replace(one, settings=before.get(one.name, one.settings)) for one in configurations
        )
    for settings in (begun, *(one.settings for one in configurations)):
        refuse_strangers_words(settings, f"the study {there.study!r}")
    return replace(matrix, settings=begun | named, configurations=configurations)


def _was_default(name: str, there: StudyRecord, matrix: Matrix) -> bool:
    if name in OWNED or name in FREE or name not in FIELDS or is_secret(name):
        return False
    return name not in there.settings or name in DEFAULTS or (matrix.built_in and name in matrix.settings)


def suited(matrix: Matrix, shared: Settings, named: Collection[str], there: StudyRecord | None = None) -> Matrix:
    """Returns the matrix with what suits its models.

    Args:
        shared: what the matrix comes to as it is.
        named: settings that somebody named beside it.
        there: the study that goes on.
    """
    embedded, settings = any_embedded(models_of(matrix, shared)), dict(matrix.settings)
    if not embedded and PROFILE not in named and (matrix.built_in or PROFILE not in settings):
        settings[PROFILE] = stated(there)[PROFILE] if there else FOR_OTHERS
    other_rate = not embedded or shared.adapter.kind != "none"
    if other_rate and matrix.built_in and there is None and RATE not in named:
        settings.pop(RATE, None)
    return replace(matrix, settings=settings)


def models_of(matrix: Matrix, shared: Settings) -> list[str]:
    """Returns the models of all configurations."""
    own = [parse("model", one.settings["model"], one.name) for one in matrix.configurations if "model" in one.settings]
    everywhere = len(own) == len(matrix.configurations)
    return [name for names in (*own, *([] if everywhere else [shared.model])) for name in names]
