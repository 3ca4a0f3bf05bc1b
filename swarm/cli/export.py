"""`swarm export`: an experiment's or a study's records as a file for other tools."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, named_flags, refuse_no_folder_for, settings_from, settings_to_look
from swarm.cli.say import say, warn
from swarm.errors import ConfigError
from swarm.views.studies import reader_of
from swarm.views.tables.export import FORMATS, Format, encoded, refuse_existing, write_table
from swarm.views.tables.frames import TABLES, experiment_blocks

if TYPE_CHECKING:
    from pandas import DataFrame

TableName = Literal["metrics", "events", "rollouts", "rollout_files", "rewards", "judge"]


def export(
    name: str | None = None,
    /,
    *,
    experiment_flags: CommonFlags | None = None,
    study: str | None = None,
    table: Annotated[TableName, Parameter(show_default=True)] = "metrics",
    form: Annotated[Format | None, Parameter("--format")] = None,
    output: Annotated[Path | None, Parameter(("--output", "-o"), allow_leading_hyphen=True)] = None,
    force: bool = False,
) -> None:
    """Write the records of an experiment, or of all runs of a study, as a table for other tools.

    Args:
        name: Of the experiment; without one, what --experiment says, or the only one that can be meant.
        experiment_flags: which experiment.
        study: Name of the study, all runs of which are exported.
        table: What to export.
        form: csv, parquet or jsonl; without one, what the output's name ends in, else csv.
        output: The file, or - for the standard output; without one, a name made of the source and the table, here.
        force: Replace the file that is there.
    """
    if study and (name or (experiment_flags and experiment_flags.experiment)):
        raise ConfigError(f"name one experiment or study, got the study {study} and an experiment")
    settings = settings_from(experiment_flags) if study else settings_to_look(named_flags(name, experiment_flags))
    source = study or settings.experiment
    chosen = form or _format_of(output)
    refuse_no_folder_for("--output", output)
    target = output or Path(f"{source}-{table}.{chosen}")
    if str(target) != "-":
        refuse_existing(target, force=force)  # before the folder is read, which may take a while
    if study:
        folder = settings.shared_folder
        blocks = iter([reader_of(folder, study, warn).frame(folder, study, TABLES[table])])
    else:
        blocks = experiment_blocks(settings.place, source, TABLES[table])
    if str(target) == "-":
        _show(encoded(blocks, chosen), chosen)
        return
    rows = 0

    def counted() -> Iterator[DataFrame]:
        nonlocal rows
        for block in blocks:
            rows += len(block)
            yield block

    write_table(counted(), chosen, target, force=force)
    say(f"wrote {rows} rows of {table} to {target}")


def _format_of(output: Path | None) -> Format:
    suffix = output.suffix[1:] if output else ""
    if suffix and suffix not in FORMATS:
        ends = ", ".join(f".{known}" for known in FORMATS)
        raise ConfigError(f"--output {output}: expected a name that ends in {ends}; say --format for any other")
    return next((known for known in FORMATS if known == suffix), "csv")


def _show(data: Iterable[bytes], form: Format) -> None:
    if form == "parquet" and sys.stdout.isatty():
        raise ConfigError("Parquet is not for a terminal: name a file with --output, or take --format csv")
    sys.stdout.flush()
    sys.stdout.buffer.writelines(data)
