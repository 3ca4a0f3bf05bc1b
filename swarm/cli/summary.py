"""`swarm summary`: what an experiment learned, as text or JSON, and as a plot."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, settings_from
from swarm.records.rows import read_metrics
from swarm.store.place import open_place
from swarm.views.plot import save_reward_plot
from swarm.views.summary import render, summarise


def summary(
    *,
    common: CommonFlags | None = None,
    plot: Path | None = None,
    as_json: Annotated[bool, Parameter("--json")] = False,
) -> None:
    """Show what an experiment learned, and plot it.

    Args:
        common: which experiment.
        plot: Draw reward per round to this PNG or SVG file.
        as_json: JSON instead of tables.
    """
    settings = settings_from(common, os.environ)
    metrics = read_metrics(open_place(settings.shared_folder).open(settings.experiment))
    found = summarise(metrics)
    sys.stdout.write((msgspec.json.encode(found).decode() if as_json else render(found)) + "\n")
    if plot is not None:
        save_reward_plot(metrics, plot)
