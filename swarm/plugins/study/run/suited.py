"""Finds what suits models that are not embedded, where nobody says otherwise: their questions, and their learning rate.

nobody named it │ new study, no embedded model        │ study that is there
────────────────┼─────────────────────────────────────┼───────────────────────────────────────────────────────
profile         │ `paper-2`                           │ its own
learning rate   │ the model's, not a built-in matrix's│ its own

An embedded model through adapters takes the rate of that, too: a built-in matrix has one for all weights.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from swarm.config import Settings
from swarm.config.sources import parse
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.run.matrix import Matrix, stated
from swarm.policy.embedded import FOR_OTHERS, any_embedded
from swarm.policy.learning_rates import FULL

PROFILE, RATE = "profile", "learning_rate"


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
    other_rate = not embedded or shared.adapter.kind != FULL
    if other_rate and matrix.built_in and there is None and RATE not in named:
        settings.pop(RATE, None)
    return replace(matrix, settings=settings)


def models_of(matrix: Matrix, shared: Settings) -> list[str]:
    """Returns the models of all configurations."""
    own = [parse("model", one.settings["model"], one.name) for one in matrix.configurations if "model" in one.settings]
    everywhere = len(own) == len(matrix.configurations)
    return [name for names in (*own, *([] if everywhere else [shared.model])) for name in names]
