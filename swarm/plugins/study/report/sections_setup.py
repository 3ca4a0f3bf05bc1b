"""The sections on the matrix that was run, and on its runs, settings and versions."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from swarm.plugins.study.budget import said_of_sizes
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.progress import some_of
from swarm.plugins.study.report.sections import CONFIGURATION, MISSING, SEED, Column, Section, Table, whole


def setup_section(evidence: Evidence) -> Section:
    """Returns the matrix of a study."""
    record = evidence.record
    seeds = ", ".join(map(str, record.seeds)) or "none"
    judged = " A judge asked every node a held-out question each round." if record.judged else ""
    return Section(
        "What was run",
        (
            f"{len(record.configurations)} configurations x {len(record.seeds)} seeds ({seeds}), each a swarm of "
            f"{record.nodes} nodes that trains for {record.rounds} rounds.{judged} A configuration a/b takes a = I "
            "local and b = J external rollout groups per round, unless its settings say otherwise. The unit of all "
            "statistics is the seed, that is, a whole run.",
            *filter(None, [said_of_sizes(record)]),
            f"The runs were made by: {record.command or 'a command that was not recorded'}",
            f"This report was written by: {evidence.command}",
        ),
        (Table("configurations", "Configurations.", _configurations(record), _CONFIGURATION_COLUMNS),),
    )


def runs_section(evidence: Evidence) -> Section:
    """Returns every run, and what decided what it computed."""
    record = evidence.record
    return Section(
        "Runs, settings and versions",
        (
            "A round counts as done when a node of the run has a row of metrics for it; rows missing are those of "
            "other nodes in these rounds, such as of a node that was killed, and lower the run's sum; rows beyond are "
            "those of more nodes than were planned, and raise it. Each run is an ordinary experiment of the shared "
            "folder, under the name that the table gives; one that another study had finished with the same settings "
            "is shared with it.",
            *_other_versions(evidence.runs),
        ),
        (
            Table("settings", "Settings that all runs share.", _pairs(record.settings), _PAIR_COLUMNS),
            Table("versions", "Versions that the study was begun with.", _pairs(record.versions), _PAIR_COLUMNS),
            Table("runs", "Runs.", evidence.runs, _RUN_COLUMNS),
        ),
    )


def _other_versions(runs: pd.DataFrame) -> list[str]:
    """Returns a sentence on runs that were not computed by the versions that the study was begun with, if there are
    any."""
    others = runs[runs["other_versions"] != ""]
    if others.empty:
        return []
    what = "; ".join(others["other_versions"].unique())
    return [f"{len(others)} runs were computed by other versions ({what}): {some_of(others['experiment'].tolist())}."]


def _configurations(record: StudyRecord) -> pd.DataFrame:
    rows = [
        {
            "configuration": found.name,
            "group": found.group or MISSING,
            "baseline": found.baseline or MISSING,
            "settings": ", ".join(f"{name} = {_value(value)}" for name, value in found.settings.items()) or MISSING,
        }
        for found in record.configurations
    ]
    return pd.DataFrame(rows)


def _pairs(values: dict[str, Any]) -> pd.DataFrame:
    rows = [{"name": name, "value": _value(value)} for name, value in values.items()]
    return pd.DataFrame(rows, columns=["name", "value"])


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


_CONFIGURATION_COLUMNS = (
    CONFIGURATION,
    Column("group", "group", numeric=False),
    Column("compared with", "baseline", numeric=False),
    Column("settings", "settings", numeric=False),
)
_PAIR_COLUMNS = (Column("name", "name", numeric=False), Column("value", "value", numeric=False))
_RUN_COLUMNS = (
    CONFIGURATION,
    SEED,
    Column("experiment", "experiment", numeric=False),
    Column("rounds done", "rounds", whole),
    Column("of", "planned", whole),
    Column("rows missing", "rows_missing", whole),
    Column("rows beyond", "rows_beyond", whole),
    Column("state", "state", numeric=False),
)
