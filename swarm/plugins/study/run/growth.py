"""Extends a study that is there by rounds, seeds and configurations; refuses what would change the runs that it has."""

from __future__ import annotations

import msgspec

from swarm.errors import ExperimentError
from swarm.plugins.study.record import ConfigurationRecord, StudyRecord
from swarm.plugins.study.run.matrix import FREE, refuse_strangers_words, runs_of, stated


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
