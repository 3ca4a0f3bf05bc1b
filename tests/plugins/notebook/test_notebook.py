"""swarm.notebook: what its functions give of whole, empty, unknown, broken and foreign runs; its page is executed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from swarm.errors import ConfigError, ExperimentError
from swarm.plugins import notebook
from tests.layout import Layout
from tests.unit.test_windows import python
from tests.unit.views.factories import append, append_events, make_event, make_experiment, make_row

pandas = pytest.importorskip("pandas")
msgspec = pytest.importorskip("msgspec")
REPOSITORY = Path(__file__).parents[3]
FIXTURE = REPOSITORY / "tests/fixtures/rl_swarm_run"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """`demo`, in which bob earns more; `empty`, without a round; two runs of rl-swarm."""
    place = Path(shutil.copytree(FIXTURE, tmp_path / "runs"))
    layout = make_experiment(place, name="demo", rounds=4)
    layout.metrics_file("bob").unlink()
    for number in range(4):
        row = make_row(layout, "bob", number, my_reward=0.5, cumulative_reward=0.5 * (number + 1))
        append(layout.metrics_file("bob"), msgspec.json.encode(row))
    append_events(Layout(place, "empty"), "anna", make_event("node.starting", 1.5))
    return place


def test_the_examples_of_the_page_run_in_order(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place.parent)
    page = (REPOSITORY / "docs/notebooks.md").read_text("utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, "docs/notebooks.md", "exec"), names)
    assert len(examples) == 4
    printed = capsys.readouterr().out
    assert "demo 4 finished" in printed
    assert "round 4 of 4, 0 nodes alive" in printed
    assert f"cumulative reward {4 * 0.5 + 0.1 + 0.11 + 0.12 + 0.13:.2f}" in printed
    assert list(names["best"]["node_id"]) == ["bob"] * 4
    assert json.loads((place.parent / "demo_summary.json").read_bytes())["summary"]["rounds"] == 4


def test_every_function_of_the_page_is_there_with_these_arguments() -> None:
    import inspect

    page = (REPOSITORY / "docs/notebooks.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| `(\w+)\((.*?)\)` \|", page, re.MULTILINE))
    functions = {name for name in notebook.__all__ if name.islower()} - {"load_ipython_extension"}
    assert listed.keys() == functions
    for name, arguments in listed.items():
        parameters = inspect.signature(getattr(notebook, name)).parameters.values()
        shown = [p.name if p.default is p.empty else f"{p.name}={p.default!r}".replace("'", '"') for p in parameters]
        assert arguments == ", ".join(shown)


def test_a_row_says_where_its_reward_stands_in_its_round_and_equal_rewards_stand_alike(place: Path) -> None:
    before = sorted(place.rglob("*"))
    metrics = notebook.get_experiment_metrics(place, "demo")
    alice, bob = (metrics[(metrics["round"] == 0) & (metrics["node_id"] == n)].iloc[0] for n in ("alice", "bob"))
    assert (alice["my_rank"], bob["my_rank"]) == (2, 1)
    assert (alice["percentile"], bob["percentile"]) == (0.0, 50.0)
    assert alice["mean_reward"] == bob["median_reward"] == pytest.approx(0.3)
    assert alice["std_reward"] == pytest.approx(0.2)
    assert (bob["min_reward"], bob["max_reward"]) == (pytest.approx(0.1), 0.5)
    notebook.export_experiment_summary(place, "demo")
    notebook.export_experiment_summary(str(place), "two_workers")
    assert sorted(place.rglob("*")) == before, "nothing is written unless a file is named"
    make_experiment(place, rounds=1, workers=("alice", "bob", "cem"))
    equal = notebook.get_experiment_metrics(place, "exp")
    assert (list(equal["my_rank"]), list(equal["percentile"])) == ([1, 1, 1], [0.0, 0.0, 0.0])


def test_aggregated_by_round_nothing_counts_twice_and_adaptive_columns_are_there_if_a_rule_was_on(place: Path) -> None:
    layout = Layout(place, "demo")
    append(layout.metrics_file("bob"), msgspec.json.encode(make_row(layout, "bob", 3, my_reward=0.25)))
    rounds = notebook.get_experiment_metrics(place, "demo", aggregate_by_round=True)
    assert list(rounds.columns) == ["node_id", "round", "my_reward", "timestamp"]
    assert list(rounds[rounds["node_id"] == "bob"]["my_reward"]) == [0.5, 0.5, 0.5, 0.25]
    assert notebook.get_cumulative_rewards(place, "demo")["bob"] == pytest.approx(1.75)
    assert not [c for c in notebook.get_experiment_metrics(place, "demo") if c.startswith("adaptive_")]
    append(layout.metrics_file("bob"), msgspec.json.encode(make_row(layout, "bob", 4, adaptive_I=3, adaptive_J=5)))
    rounds = notebook.get_experiment_metrics(place, "demo", aggregate_by_round=True)
    assert int(rounds["adaptive_J"].iloc[-1]) == 5
    assert {"adaptive_I", "adaptive_J"} == {c for c in rounds if c.startswith("adaptive_")}


@pytest.mark.parametrize(
    "call",
    [
        notebook.get_experiment_status,
        notebook.get_experiment_metrics,
        notebook.get_cumulative_rewards,
        notebook.get_experiment_progress,
        notebook.export_experiment_summary,
        notebook.tail_logs,
        lambda path, name: notebook.compare_experiments(path, ["demo", name]),
    ],
)
def test_an_unknown_experiment_is_an_error_that_names_the_known_ones(place: Path, call: Any) -> None:
    with pytest.raises(ExperimentError, match=r"no experiment 'typo'.*demo, early, empty, two_workers"):
        call(place, "typo")


def test_an_experiment_without_a_round_is_empty_and_no_error(place: Path) -> None:
    status = notebook.get_experiment_status(place, "empty")
    assert (status["current_round"], status["finished"], status["last_updated"]) == (0, False, None)
    assert "total_cumulative_reward" not in status
    assert notebook.get_cumulative_rewards(place, "empty") == {}
    empty, full = (notebook.get_experiment_metrics(place, name) for name in ("empty", "demo"))
    assert len(empty) == 0
    pandas.testing.assert_series_equal(empty.dtypes, full.dtypes)
    assert notebook.get_experiment_progress(place, "empty")["nodes"]["anna"]["latest_event"] == "node.starting"
    assert notebook.export_experiment_summary(place, "empty")["metrics_summary"]["total_rounds"] == 0


def test_a_run_made_by_rl_swarm_has_means_and_no_made_up_zeros(place: Path) -> None:
    status = notebook.get_experiment_status(place, "two_workers")
    assert (status["made_by"], status["current_round"], status["total_metric_entries"]) == ("rl-swarm", 4, 8)
    assert status["total_cumulative_reward"] == pytest.approx(1.57875)
    metrics = notebook.get_experiment_metrics(place, "two_workers")
    assert metrics["my_reward"].between(0, 1).all()
    assert metrics["answer_tag_rate"].isna().all()
    assert metrics["external_groups"].isna().all()
    for node in ("node_1", "node_2"):
        (place / f"experiments/early/logs/{node}/metrics.json").unlink()
    unknown = notebook.get_experiment_status(place, "early")
    assert (unknown["current_round"], unknown["finished"]) == (4, True)
    assert "total_cumulative_reward" not in unknown
    table = notebook.compare_experiments(place, ["demo", "two_workers", "early"])
    assert list(table["made_by"]) == ["", "rl-swarm", "rl-swarm"]
    assert list(table["total_cumulative_reward"].isna()) == [False, False, True]


def test_experiments_are_compared_over_the_rounds_that_all_have(place: Path) -> None:
    make_experiment(place, name="short", rounds=2)
    table = notebook.compare_experiments(place, ["short", "demo"]).set_index("experiment")
    assert list(table["common_rounds"]) == [2, 2]
    assert table["common_cumulative_reward"]["demo"] == pytest.approx(0.5 + 0.5 + 0.1 + 0.11)
    assert table["total_cumulative_reward"]["demo"] == pytest.approx(2.0 + 0.46)


def test_what_cannot_be_read_is_listed_with_the_reason(place: Path, tmp_path: Path) -> None:
    Layout(place, "demo").state_file.write_bytes(b'{"round": 4, "stage": 0, "schema')
    (place / "experiments" / "away").symlink_to(tmp_path)
    found = {one["name"]: one for one in notebook.list_experiments(place)}
    assert "malformed" in found["demo"]["problem"]
    assert found["away"]["problem"] == "it is a link"
    assert (found["two_workers"]["made_by"], found["two_workers"]["problem"]) == ("rl-swarm", "")


def test_the_last_events_come_in_order_and_by_node(place: Path) -> None:
    lines = notebook.tail_logs(place, "demo", lines=3)
    assert len(lines) == 3
    alone = notebook.tail_logs(place, "demo", node="alice", lines=100)
    assert alone
    assert all(" alice " in line for line in alone)
    assert notebook.tail_logs(place, "demo", lines=0) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [({"node": "typo"}, "typo"), ({"level": "loud"}, "expected a level of"), ({"lines": -1}, "lines >= 0")],
)
def test_wrong_arguments_of_the_logs_are_named(place: Path, arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        notebook.tail_logs(place, "demo", **arguments)


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
    make_experiment(tmp_path)
    there, here = (json.loads(python(NOTEBOOK, system, str(tmp_path))) for system in ("windows", "this"))
    assert there == here
    assert here["get_cumulative_rewards"].keys() == {"alice", "bob"}
    assert here["tail_logs"]
    assert here["written"]["experiment_name"] == "exp"
