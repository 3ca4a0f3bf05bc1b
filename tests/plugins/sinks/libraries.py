"""What a sink keeps, as its own library reads it back; `python -m tests.plugins.sinks.libraries` prints it as JSON."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from swarm.plugins.sinks.base import SinkRun

Kept = list[tuple[int, dict[str, float]]]
"""Step and values of each row, as they lie there."""


def of_tensorboard(of: SinkRun, node: str) -> Kept:
    """By the accumulator that TensorBoard itself reads with."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(of.folder / "tensorboard" / of.name / node), size_guidance={"scalars": 0})
    accumulator.Reload()
    rows: dict[tuple[int, str], dict[str, float]] = defaultdict(dict)
    for tag in accumulator.Tags()["scalars"]:
        stage = tag.partition("/")[0] if tag.startswith("stage_") else ""
        for event in accumulator.Scalars(tag):
            assert tag not in rows[event.step, stage], f"{tag} of step {event.step} is there twice"
            rows[event.step, stage][tag] = event.value
    return [(step, values) for (step, _), values in sorted(rows.items())]


def of_trackio(of: SinkRun, node: str) -> Kept:
    """By its interface for programs."""
    import trackio
    from trackio.sqlite_storage import SQLiteStorage

    (project,) = SQLiteStorage.get_projects()
    (run,) = (run for run in trackio.Api().runs(project) if run.id == f"{of.name}/{node}")
    rows = SQLiteStorage.get_logs(project, run_id=run.id)
    return [(row.pop("step"), {k: v for k, v in row.items() if k != "timestamp"}) for row in map(dict, rows)]


def of_wandb(of: SinkRun, node: str) -> Kept:
    """Its files of one run, in the order in which `wandb sync` takes them, by the forms of its own protocol."""
    from tests.plugins.sinks.wandb_file import records_of

    rows: Kept = []
    for file in sorted((of.folder / "wandb").glob("offline-run-*/run-*.wandb")):
        records = [*records_of(file.read_bytes())]
        if {record.run.display_name for record in records if record.HasField("run")} == {node}:
            rows += [_row_of(record.history) for record in records if record.HasField("history")]
    return rows


def _row_of(history: object) -> tuple[int, dict[str, float]]:
    values = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in history.item}  # type: ignore[attr-defined]
    return history.step.num, {k: v for k, v in values.items() if not k.startswith("_") and k != "round"}  # type: ignore[attr-defined]


KEPT: dict[str, Callable[[SinkRun, str], Kept]] = {
    "tensorboard": of_tensorboard,
    "trackio": of_trackio,
    "wandb": of_wandb,
}


def keep_apart(folder: Path) -> dict[str, str]:
    """Variables of a process whose libraries keep everything below a folder, and speak to nobody."""
    home = {"HOME": folder, "HF_HOME": folder / "hf", "TRACKIO_DIR": folder / "trackio", "WANDB_CONFIG_DIR": folder}
    return {name: str(path) for name, path in home.items()} | {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "offline"}


if __name__ == "__main__":
    kind, experiment, name, folder, *nodes = sys.argv[1:]
    of = SinkRun(experiment, name, Path(folder))
    print(json.dumps({node: KEPT[kind](of, node) for node in nodes}))  # noqa: T201
