"""The experiments and studies of a place, side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from swarm.config import EXPERIMENT_NAME
from swarm.errors import SwarmError
from swarm.records.made_by import as_ours
from swarm.records.reader import snapshot
from swarm.store.place import Place
from swarm.views.studies import StudyContents, reader_of, studies
from swarm.web.harmless import bounded, cut

MOST_EXPERIMENTS = 40
"""That are looked into."""
MOST_STUDIES = 40
MOST_RUNS = 200
"""Runs of one study."""


def place_document(place: Place, folder: Path | None) -> dict[str, Any]:
    """Lists the experiments and studies. Blocking; raises StoreError where the place cannot be listed.

    Args:
        folder: where studies are; None: the place has none.
    """
    names = [name for name in place.experiments() if EXPERIMENT_NAME.fullmatch(name)]
    found = {
        "experiments": [_experiment(place, name) for name in names[:MOST_EXPERIMENTS]],
        "left_out": max(0, len(names) - MOST_EXPERIMENTS),
        "studies": [] if folder is None else [_study(folder, name) for name in studies(folder)[:MOST_STUDIES]],
    }
    return bounded(found)  # type: ignore[no-any-return]


def _experiment(place: Place, name: str) -> dict[str, Any]:
    """Returns a row of one that cannot be read, too; a link is not followed."""
    if place.is_link(name):
        return {"name": name, "problem": "it is a link, and is not followed"}
    return {"name": name} | _or_problem(lambda: _look_into(place, name))


def _or_problem(read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return read()
    except SwarmError as error:
        return {"problem": cut(str(error), 200)}


def _look_into(place: Place, name: str) -> dict[str, Any]:
    now = snapshot(as_ours(place.open(name)))
    seen = max([p.last_seen for p in now.peers.values()] + ([now.state.updated_at] if now.state else []), default=None)
    return {
        "rounds_done": now.rounds_done,
        "max_rounds": now.rounds_expected,
        "finished": now.finished is not None,
        "workers": len(now.workers),
        "seen": seen,
        "cumulative": sum(of_node.cumulative_reward for of_node in now.progress.values()),
        "made_by": now.made_by,
    }


def _study(folder: Path, name: str) -> dict[str, Any]:
    return {"name": name} | _or_problem(lambda: study_document(reader_of(folder, name).contents(folder, name)))


def study_document(study: StudyContents) -> dict[str, Any]:
    """Makes the document of what a study compares, with its runs by configuration."""
    runs = study.runs[:MOST_RUNS]
    return {
        "title": study.title,
        "rounds": study.rounds,
        "configurations": [
            {"name": name, "runs": [experiment for configuration, experiment in runs if configuration == name]}
            for name in study.configurations
        ],
    }
