"""Decides what a setting that nobody names means in a study: today's defaults in a new one, in an old one those it
began with. Extends a study that is there by rounds, seeds and configurations.

    nobody named it │ new study                           │ study that is there
    ────────────────┼─────────────────────────────────────┼───────────────────────────────────────────────────────
    setting         │ DEFAULTS, else the field's default  │ its record: `settings`, else `defaults`
    built-in matrix │ its settings                        │ those that the record has for it

So a study goes on with what it was begun with, whatever the defaults are by then; who names another value is refused
(`grown`). Of the settings in FREE, which do not decide what a run computes, today's count.

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
from swarm.errors import ExperimentError
from swarm.plugins.study.record import ConfigurationRecord, StudyRecord
from swarm.plugins.study.run.matrix import DEFAULTS, FREE, OWNED, Matrix, refuse_strangers_words, runs_of, stated
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


# ── a study may grow ────────────────────────────────────────────────────────────────────────────────────────────────
def grown(there: StudyRecord, asked: StudyRecord) -> StudyRecord:
    """Returns the study with the rounds, seeds and configurations of both.

    Titles, groups and baselines are how results are shown: those asked for count. Comparisons are declared beforehand:
    those that are there stay as they are, and only such are added whose configuration has no runs yet.

    Raises:
        ExperimentError: runs that are there would have been others; names every difference.
    """
    if changed := differences(there, asked):
        raise ExperimentError(
            f"study {there.study!r} was begun with other settings ({'; '.join(changed)}): use those to go on with it, "
            f"or choose another --name for a new one"
        )
    now = {one.name: one for one in asked.configurations}
    for one in there.configurations:  # code of one's own is run only if it is asked for, not if it is found
        if one.name not in now:
            refuse_strangers_words(one.settings, f"the configuration {one.name!r} of the study {there.study!r}")
    configurations = tuple(now.pop(one.name, one) for one in there.configurations) + tuple(now.values())
    before = [one.name for one in there.configurations]
    declared = (*there.declared, *(one for one in asked.declared if one.configuration not in before))
    seeds = tuple(dict.fromkeys((*there.seeds, *asked.seeds)))
    now_stated = stated(asked)
    shared = {**stated(there), **now_stated}  # the same but for FREE, and what is code is the user's word here alone
    named = (there.settings.keys() - set(FREE)) | (asked.settings.keys() & set(FREE))
    return msgspec.structs.replace(
        asked,
        created_at=there.created_at,
        seeds=seeds,
        configurations=configurations,
        runs=runs_of(there.study, configurations, seeds),
        settings={name: value for name, value in shared.items() if name in named},
        defaults={name: value for name, value in shared.items() if name not in named},
        declared=declared,
        versions=there.versions,
    )


def differences(there: StudyRecord, asked: StudyRecord) -> list[str]:
    """Returns one text per difference that growing does not allow."""
    changed = [
        f"{what} was {was!r}, now {now!r}"
        for what, was, now in (
            ("nodes", there.nodes, asked.nodes),
            ("judged", there.judged, asked.judged),
        )
        if was != now
    ]
    if asked.rounds < there.rounds:
        changed.append(f"rounds were {there.rounds}, now {asked.rounds}: they can only become more")
    was, now = stated(there), stated(asked)
    changed += _changed("", was, now)
    before = {one.name: one.settings for one in there.configurations}
    for one in asked.configurations:
        if one.name in before:
            changed += _changed_in(one, before[one.name], was, now)
            nodes, nodes_now = there.nodes_of(one.name), asked.nodes_of(one.name)
            if nodes != nodes_now and there.nodes == asked.nodes:
                changed.append(f"{one.name}: nodes was {nodes}, now {nodes_now}")
    return changed


def _changed_in(
    one: ConfigurationRecord, before: dict[str, object], was: dict[str, object], now: dict[str, object]
) -> list[str]:
    """Differences of one configuration that do not lie in what all runs share."""
    named = (*before, *one.settings)
    there, asked = {**was, **before}, {**now, **one.settings}
    return _changed(f"{one.name}: ", {name: there[name] for name in named}, {name: asked[name] for name in named})


def _changed(where: str, was: dict[str, object], now: dict[str, object]) -> list[str]:
    return [
        f"{where}{name} was {was[name]!r}, now {now[name]!r}"
        for name in now
        if name not in FREE and was[name] != now[name]
    ]
