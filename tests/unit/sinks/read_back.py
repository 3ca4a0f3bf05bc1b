"""Prints what a sink keeps of a run, read by its own library, as JSON: python -m tests.unit.sinks.read_back KIND ..."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from swarm.sinks.base import SinkRun
from tests.unit.sinks.libraries import KEPT

if __name__ == "__main__":
    kind, experiment, name, folder, *nodes = sys.argv[1:]
    of = SinkRun(experiment, name, Path(folder))
    print(json.dumps({node: KEPT[kind](of, node) for node in nodes}))  # noqa: T201
