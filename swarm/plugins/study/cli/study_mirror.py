"""`swarm study run MATRIX --mirror PLACE`: each of its swarms has a mirror, and the study itself is kept there, too.

before the start  study.json ◀─ mirror, then all runs that the place lacks, so that none is done again
at the start      study.json ─▶ mirror
"""

from __future__ import annotations

from dataclasses import replace

from swarm.cli.copying import BACK, bring_back
from swarm.cli.say import say
from swarm.config import Settings
from swarm.errors import ConfigError, ExperimentError
from swarm.plugins.study.record import LARGEST_RECORD, RECORD, STUDIES, StudyRecord
from swarm.records.files import read_form
from swarm.store.base import Store
from swarm.store.place import open_place


def refuse_own_place(settings: Settings) -> None:
    """Raises ConfigError: the mirror of a study is the place that it runs in."""
    stores = (open_place(place).beside(STUDIES, BACK) for place in (settings.place, str(settings.mirror)))
    if len({store.describe() for store in stores}) < 2:
        raise ConfigError(f"SWARM_MIRROR: expected another place than {settings.place}, got the same")


def bring_back_record(settings: Settings, study: str) -> None:
    """Copy a study's record from the mirror, where the place has none, or one of fewer runs or rounds.

    Raises:
        ExperimentError: another study of that name is in the mirror.
    """
    own, there = (_study_in(place, study) for place in (settings.place, str(settings.mirror)))
    ours, theirs = (read_form(store, RECORD, StudyRecord, LARGEST_RECORD) for store in (own, there))
    if theirs is None:
        return
    if ours and ours.created_at != theirs.created_at:
        raise ExperimentError(
            f"{there.describe()} is another study than {own.describe()}, begun at another time: name another --mirror "
            "or another --name"
        )
    if ours is None or (_extent(ours) < _extent(theirs)):
        say(f"bringing the study {study} back: {there.describe()} -> {own.describe()}")
        _copy_study(there, own)


def _extent(record: StudyRecord) -> tuple[int, int]:
    return len(record.runs), record.rounds


def bring_back_runs(settings: Settings, record: StudyRecord) -> None:
    """Copy from the mirror what the place lacks of each run. Raises as bring_back does."""
    for run in record.runs:
        bring_back(replace(settings, experiment=run.experiment), here=True)


def mirror_study(settings: Settings, study: str) -> None:
    """Copy a study's record into the mirror; its runs copy themselves. Raises StoreError."""
    _copy_study(_study_in(settings.place, study), _study_in(str(settings.mirror), study))


def _study_in(place: str, study: str) -> Store:
    return open_place(place).beside(f"{STUDIES}/{study}", BACK)


def _copy_study(source: Store, target: Store) -> None:
    target.put(RECORD, source.get(RECORD, LARGEST_RECORD).data)
