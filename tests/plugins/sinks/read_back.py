"""Prints what a sink keeps of a run, read by its own library, as JSON: python -m tests.plugins.sinks.read_back."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from swarm.plugins.sinks.base import SinkRun
from tests.plugins.sinks.libraries import KEPT

if __name__ == "__main__":
    kind, experiment, name, folder, *nodes = sys.argv[1:]
    of = SinkRun(experiment, name, Path(folder))
    print(json.dumps({node: KEPT[kind](of, node) for node in nodes}))  # noqa: T201
