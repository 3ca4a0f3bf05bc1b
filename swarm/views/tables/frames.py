"""The public frames: the records of runs as pandas DataFrames with documented columns.

    folder ─ rows ─▶ list of plain rows ─ columns ─▶ DataFrame

Every function works during a run and after a crash, and returns the same columns and dtypes whether or not there is a
row yet. What nobody recorded, as in a run made by rl-swarm, is missing, in the nullable dtype where there is one.
docs/metrics.md says what each column means. pandas is imported when a frame is made, not before: it costs half a
second, and is part of the extra `analysis`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm.extras import lacking
from swarm.records.made_by import as_ours
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.views.tables import columns, rows
from swarm.views.tables.columns import Columns
from swarm.views.tables.rows import Row

if TYPE_CHECKING:
    from pandas import DataFrame


NULLABLE = {"int64": "Int64", "bool": "boolean"}
BLOCK = 4096
"""Rows that are held as Python's objects at a time: they take several times as much as a frame."""
BLOCK_TEXT = 2**20
"""Characters of their texts after which a block ends."""


class FrameKind(NamedTuple):
    """One kind of frame."""

    columns: Columns
    read: Callable[[Run], Iterable[Row]]


TABLES = {
    "metrics": FrameKind(columns.METRICS, rows.metrics_rows),
    "events": FrameKind(columns.EVENTS, rows.event_rows),
    "rollouts": FrameKind(columns.ROLLOUTS, rows.rollout_rows),
    "rollout_files": FrameKind(columns.ROLLOUT_FILES, rows.rollout_file_rows),
    "rewards": FrameKind(columns.REWARDS, rows.reward_rows),
    "judge": FrameKind(columns.JUDGE, rows.judge_rows),
}


def get_experiment_metrics(path: Path | str, name: str) -> DataFrame:
    """Returns one row per node, round and stage of an experiment, the fields of MetricsRow, by round and node.

    Args:
        path: the shared folder.
        name: of the experiment.

    Raises:
        ExperimentError: there is none of that name; says which there are.
        ConfigError: pandas is not installed.
    """
    return experiment_frame(path, name, TABLES["metrics"])


def get_events(path: Path | str, name: str) -> DataFrame:
    """Returns one row per event of all nodes of an experiment, by time. Raises as get_experiment_metrics does."""
    return experiment_frame(path, name, TABLES["events"])


def get_rollouts(path: Path | str, name: str, rounds: Collection[int] | None = None) -> DataFrame:
    """Returns one row per published completion of an experiment, by round, stage, node, slot and place in its group.
    Raises as get_experiment_metrics does.

    Args:
        rounds: only these, so that a long run need not be read whole; None: all that lie there or in the archive.
    """
    return experiment_frame(path, name, FrameKind(columns.ROLLOUTS, partial(rows.rollout_rows, rounds=rounds)))


def get_rollout_files(path: Path | str, name: str) -> DataFrame:
    """Returns one row per round, stage and node that published rollouts: how many files lie there. Raises as
    get_experiment_metrics does."""
    return experiment_frame(path, name, TABLES["rollout_files"])


def get_rewards(path: Path | str, name: str) -> DataFrame:
    """Returns one row per reward that a node submitted, by round, stage and node. Raises as get_experiment_metrics
    does."""
    return experiment_frame(path, name, TABLES["rewards"])


def get_judge_metrics(path: Path | str, name: str) -> DataFrame:
    """Returns one row per node, round and judged question of an experiment. Raises as get_experiment_metrics does."""
    return experiment_frame(path, name, TABLES["judge"])


def experiment_frame(path: Path | str, name: str, table: FrameKind) -> DataFrame:
    """Returns one table of an experiment. Raises as get_experiment_metrics does."""
    return joined(experiment_blocks(path, name, table))


def experiment_blocks(path: Path | str, name: str, table: FrameKind) -> Iterator[DataFrame]:
    """Yields one table of an experiment, at most BLOCK rows at a time. Raises as get_experiment_metrics does."""
    return _blocks(table.read(as_ours(open_place(path).open(name))), table.columns)


def frame_of(found: Iterable[Row], dtypes: Columns) -> DataFrame:
    """Returns rows as a frame with these columns; with no row at all, too. Raises ConfigError: pandas is missing."""
    return joined(_blocks(found, dtypes))


def joined(blocks: Iterable[DataFrame]) -> DataFrame:
    """Returns blocks of one table, of which there is one at least, as a single frame."""
    there = list(blocks)
    full = [block for block in there if len(block)] or there[:1]
    frame: DataFrame = _pandas().concat(full, ignore_index=True) if len(full) > 1 else full[0]
    return frame


def _blocks(found: Iterable[Row], dtypes: Columns) -> Iterator[DataFrame]:
    """Yields rows as frames, the first of which may have no row."""
    pandas, left = _pandas(), iter(found)
    yield _block(pandas, _some(left), dtypes)
    for row in left:
        yield _block(pandas, chain([row], _some(left)), dtypes)


def _some(rows: Iterable[Row]) -> Iterator[Row]:
    """Yields at most BLOCK rows less one, and none behind BLOCK_TEXT characters."""
    characters = 0
    for row in islice(rows, BLOCK - 1):
        yield row
        characters += sum(len(value) for value in row.values() if isinstance(value, str))
        if characters > BLOCK_TEXT:
            return


def _block(pandas: Any, found: Iterable[Row], dtypes: Columns) -> DataFrame:
    columns = {name: list[Any]() for name in dtypes}
    for row in found:  # one at a time: as a dict it takes several times as much
        for name, values in columns.items():
            values.append(row[name])
    series = {name: pandas.Series(values, dtype=_dtype(dtypes[name], values)) for name, values in columns.items()}
    block: DataFrame = pandas.DataFrame(series)
    return block


def _dtype(dtype: str, values: list[Any]) -> str:
    """Returns the nullable dtype where what each row of this program has is missing, as in a run of another program."""
    return NULLABLE.get(dtype, dtype) if None in values else dtype


def _pandas() -> Any:
    try:
        import pandas  # slow to import, and only in the extra
    except ImportError:
        raise lacking("a frame", "pandas", "analysis") from None
    return pandas
