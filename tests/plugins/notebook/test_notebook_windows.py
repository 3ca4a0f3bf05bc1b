"""The functions for notebooks work on a system that lacks what Windows lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.test_windows import python
from tests.unit.views.factories import make_experiment

NOTEBOOK = """
import json, sys, time
from tests import windows
there, place = sys.argv[1:]
time.time = lambda: 1.8e9
if there == "windows":
    windows.pretend("pandas")
from swarm.plugins import notebook
each = {
    "list_experiments": lambda: notebook.list_experiments(place),
    "compare_experiments": lambda: notebook.compare_experiments(place, ["exp", "exp"]).to_csv(),
    "get_experiment_metrics": lambda: notebook.get_experiment_metrics(place, "exp").to_csv(),
    "export_experiment_summary": lambda: notebook.export_experiment_summary(place, "exp", f"{place}/summary.json"),
}
read = "swarm.plugins.notebook.experiments"
functions = [name for name in notebook.__all__ if name.islower() and getattr(notebook, name).__module__ == read]
found = {name: each.get(name, lambda: getattr(notebook, name)(place, "exp"))() for name in functions}
found["written"] = json.load(open(f"{place}/summary.json", encoding="utf-8"))
print(json.dumps(found))
"""


def test_functions_for_notebooks_give_there_what_they_give_here(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    make_experiment(tmp_path)
    there, here = (json.loads(python(NOTEBOOK, system, str(tmp_path))) for system in ("windows", "this"))
    assert there == here
    assert here["get_cumulative_rewards"].keys() == {"alice", "bob"}
    assert here["tail_logs"]
    assert here["written"]["experiment_name"] == "exp"
