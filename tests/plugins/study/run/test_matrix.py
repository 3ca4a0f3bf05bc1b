"""A matrix comes to runs with every setting said, or is refused with what to change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.config import with_secrets
from swarm.config.settings import FIELDS
from swarm.errors import ConfigError
from swarm.plugins.study.record import ConfigurationRecord, DeclaredComparison
from swarm.plugins.study.run.matrix import (
    Matrix,
    ignored_settings,
    refuse_owned,
    run_settings,
    shared_settings,
    stated,
    with_baseline,
)
from swarm.plugins.study.run.matrix_file import BUILT_IN, built_in, read_matrix
from tests.plugins.study.study_files import resolved


def configuration(name: str, **settings: Any) -> ConfigurationRecord:
    return ConfigurationRecord(name=name, settings=settings)


ROOT = Path(__file__).parents[4]


def make_matrix(*configurations: ConfigurationRecord, **changes: Any) -> Matrix:
    chosen = configurations or (configuration("a", local_groups=4), configuration("b", local_groups=2))
    base = Matrix(name="m", title="M", nodes=2, rounds=3, seeds=(1, 2), configurations=chosen, settings={})
    return replace(base, **changes)


def test_an_early_look_compares_all_configurations_at_the_first_seed() -> None:
    runs = resolved(make_matrix()).runs
    assert [run.experiment for run in runs] == ["m-a-s1", "m-b-s1", "m-a-s2", "m-b-s2"]


def test_the_paper_s_splits_are_set_as_in_the_paper_and_sharing_is_declared_against_8_0() -> None:
    record = resolved(built_in("sapo"))
    splits = {
        one.name: (one.settings["local_groups"], one.settings["external_groups"]) for one in record.configurations
    }
    assert splits == {"8/0": (8, 0), "6/2": (6, 2), "4/4": (4, 4), "2/6": (2, 6)}
    pairs = [(one.configuration, one.baseline, one.measure, one.test) for one in record.declared]
    assert pairs == [(name, "8/0", "cumulative_reward", "welch") for name in ("6/2", "4/4", "2/6")]


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_matrices_are_runnable_and_everything_but_the_baseline_is_compared_with_it(name: str) -> None:
    record = resolved(built_in(name))
    first, *others = record.configurations
    assert first.baseline == ""
    of_rules = {one.name for one in others if name == "thesis" and one.settings.get("adaptive")}
    assert {one.baseline for one in others if one.name not in of_rules} == {first.name}
    assert len(record.runs) == 5 * len(record.configurations)
    for run in record.runs:
        settings = run_settings(record, run, Path("/shared"))
        budget = settings.local_groups + settings.external_groups
        assert budget == (8 if (name, run.configuration) == ("thesis", "4/4") else record.nodes)
        assert (settings.seed, settings.experiment, settings.max_rounds) == (run.seed, run.experiment, 100)


DOCS = ROOT / "docs/study"


@pytest.mark.parametrize(
    "file", sorted([*DOCS.glob("*.toml"), *DOCS.glob("exploratory/*.toml")]), ids=lambda file: file.stem
)
def test_the_matrices_of_the_documentation_are_runnable_and_declare_what_they_test(file: Path) -> None:
    record, exploratory = resolved(read_matrix(file)), file.parent != DOCS
    assert bool(record.declared) is record.tests is not exploratory
    assert not exploratory or (record.seeds in ((441, 442, 443), (501, 502)) and record.study == file.stem)
    assert all(run_settings(record, run, Path("/shared")) for run in record.runs)


def test_a_configuration_with_nodes_of_its_own_is_a_swarm_of_that_size() -> None:
    record = resolved(make_matrix(configuration("a"), ConfigurationRecord(name="central", settings={}, nodes=1)))
    sizes = {run.configuration: run_settings(record, run, Path("/shared")).expected_workers for run in record.runs}
    assert sizes == {"a": 2, "central": 1}
    assert record.sizes == {"central": 1}


def test_flags_beat_the_environment_which_beats_the_file_which_beats_the_matrix(tmp_path: Path) -> None:
    file = tmp_path / "all.toml"
    file.write_text("generations = 5\nmax_new_tokens = 5\nlearning_rate = 5e-5\n")
    matrix = make_matrix(settings={"generations": 4, "max_new_tokens": 4, "learning_rate": 4e-5, "temperature": 0.5})
    environ = {"SWARM_MAX_NEW_TOKENS": "6", "SWARM_LEARNING_RATE": "6e-5"}
    settings = resolved(matrix, environ, file, learning_rate=7e-5).settings
    expected = {"generations": 5, "max_new_tokens": 6, "learning_rate": 7e-5, "temperature": 0.5}
    assert {name: settings[name] for name in expected} == expected
    record = resolved(make_matrix(), {"NUM_TRAIN_SAMPLES": "7"}, local_groups=6)
    of_configurations = [run_settings(record, run, Path("/p")).local_groups for run in record.runs[:2]]
    assert of_configurations == [4, 2], "they beat everything else"


def test_what_the_environment_says_is_recorded_so_that_nothing_leaks_in_unseen() -> None:
    record = resolved(make_matrix(), {"SWARM_TEMPERATURE": "0.7", "MODEL_NAME": "a,b"})
    assert (record.settings["temperature"], record.settings["model"]) == (0.7, ["a", "b"])
    assert run_settings(record, record.runs[0], Path("/p")).model == ("a", "b")


def test_what_the_study_decides_is_not_taken_from_the_environment_and_said() -> None:
    matrix = make_matrix()
    shared = shared_settings(matrix, {}, {"SEED": "9", "MAX_ROUNDS": "7", "GDRIVE_PATH": "/x"}, None)
    assert ignored_settings(shared) == ["seed", "max_rounds"]
    record = resolved(matrix, {"SEED": "9", "HUGGINGFACE_ACCESS_TOKEN": "hf_secret"})
    assert run_settings(record, record.runs[0], Path("/p")).seed == 1
    assert "secret" not in str(record)


def test_a_secret_reaches_runs_by_its_variable_alone_wherever_it_was_said(tmp_path: Path) -> None:
    (tmp_path / "swarm.toml").write_text('hub_token = "hidden"\n', "utf-8")
    file = str(tmp_path / "swarm.toml")
    shared = shared_settings(make_matrix(), {}, {}, file)
    assert with_secrets({}, shared) == {"HUGGINGFACE_ACCESS_TOKEN": "hidden"}
    assert ignored_settings(shared) == []
    record = resolved(make_matrix(), toml=Path(file))
    assert "hidden" not in str(record)
    of_before = msgspec.structs.replace(record, settings={**record.settings, "hub_token": "hidden"})
    assert "hub_token" not in stated(of_before)


@pytest.mark.parametrize("name", [name for name, field in FIELDS.items() if field.metadata["secret"]])
def test_no_secret_is_for_a_study_to_share_whoever_declares_it(name: str) -> None:
    with pytest.raises(ConfigError, match="it is a secret: leave it to the environment"):
        refuse_owned([name], "a matrix")


def test_a_matrix_names_tables_at_once_or_by_their_keys(tmp_path: Path) -> None:
    configurations = '[[configurations]]\nname = "{}"\nsettings = {{ {} }}\n'
    text = 'name = "m"\nnodes = 2\nrounds = 3\nseeds = [1]\n[settings]\nadapter = {kind = "lora", rank = 8}\n'
    text += configurations.format("a", "limits = {max_peers = 9}") + configurations.format("b", "max_peers = 8")
    (tmp_path / "m.toml").write_text(text, "utf-8")
    matrix = read_matrix(tmp_path / "m.toml")
    assert matrix.settings == {"adapter": "lora", "adapter_rank": 8}
    assert [dict(one.settings) for one in matrix.configurations] == [{"max_peers": 9}, {"max_peers": 8}]


def comparing(*, configuration: str = "b", baseline: str = "a", **more: str) -> Matrix:
    return make_matrix(declared=(DeclaredComparison(configuration=configuration, baseline=baseline, **more),))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (make_matrix(rounds=0), "rounds must be at least 1, got 0"),
        (make_matrix(nodes=0), "nodes must be at least 1, got 0"),
        (make_matrix(ConfigurationRecord(name="one", settings={}, nodes=0)), "'one': nodes must be at least 1, got 0"),
        (make_matrix(seeds=()), "seeds must be different whole numbers"),
        (make_matrix(seeds=(1, 1)), r"seeds must be different whole numbers from 0, got \[1, 1\]"),
        (make_matrix(name="a/b"), "a study's name is"),
        (make_matrix(name="x" * 126), "choose a shorter --name"),
        (make_matrix(configuration("a"), configuration("a")), "'a', 'a' would share a folder"),
        (make_matrix(configuration("4/4"), configuration("4-4")), "'4/4', '4-4' would share a folder"),
        (make_matrix(configuration("a b")), "configuration 'a b': expected letters"),
        (make_matrix(configuration("a", local_grups=1)), "unknown setting 'local_grups'; did you mean 'local_groups'"),
        (make_matrix(configuration("a", seed=1)), "'seed' is not for a study to share: give seeds"),
        (make_matrix(settings={"path": "/x"}), "'path' is not for a study to share: give --path"),
        (make_matrix(configuration("a", local_groups="two")), "'a'.*a whole number from 1, got 'two' from the matrix;"),
        (make_matrix(ConfigurationRecord(name="a", settings={}, baseline="b")), "'a' has the baseline 'b': expected"),
        (make_matrix(configuration("lone", adaptive_rule="supply")), "configuration 'lone'.*ADAPTIVE_IJ_ENABLED"),
        (make_matrix(exploratory=True, declared=comparing().declared), r"expected no \[\[comparisons\]\] where expl"),
        (comparing(configuration="c"), "there is no configuration 'c'; expected one of a, b"),
        (comparing(baseline="c"), "comparison of 'b' with 'c': there is no baseline 'c'"),
        (comparing(measure="cumulative_rewards"), "no measure 'cumulative_rewards'; did you mean 'cumulative_reward'"),
        (comparing(test="wlech"), "no test 'wlech'; did you mean 'welch'"),
        (comparing(configuration="a"), "expected two different configurations"),
        (make_matrix(declared=comparing().declared * 2), "'b' against 'a' on cumulative_reward is declared 2 times"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_to_change(matrix: Matrix, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolved(matrix)


def test_test_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match="TEST_MODE is not for a study"):
        resolved(make_matrix(), {"TEST_MODE": "1"})


def test_a_baseline_counts_within_its_group_and_not_against_what_a_configuration_says() -> None:
    ones = [
        ConfigurationRecord(name="base", settings={}),
        ConfigurationRecord(name="near", settings={}),
        ConfigurationRecord(name="own", settings={}, baseline="near"),
        ConfigurationRecord(name="far", settings={}, group="other"),
    ]
    assert [one.baseline for one in with_baseline(ones, "base")] == ["", "base", "near", ""]


GOOD = """
name = "rates"
nodes = 2
rounds = 10
seeds = [1, 2]
baseline = "slow"
[settings]
NUM_GENERATIONS = 4
[[configurations]]
name = "slow"
settings = { learning_rate = 1e-5 }
[[configurations]]
name = "fast"
settings = { learning_rate = 1e-3 }
[[comparisons]]
configuration = "fast"
baseline = "slow"
hypothesis = "Faster is better."
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "matrix.toml"
    file.write_text(text)
    return file


def test_a_file_is_a_matrix(tmp_path: Path) -> None:
    matrix = read_matrix(written(tmp_path, GOOD))
    assert (matrix.name, matrix.title, matrix.nodes, matrix.rounds, matrix.seeds) == ("rates", "rates", 2, 10, (1, 2))
    assert matrix.settings == {"generations": 4}
    assert [(one.name, one.settings, one.baseline) for one in matrix.configurations] == [
        ("slow", {"learning_rate": 1e-5}, ""),
        ("fast", {"learning_rate": 1e-3}, "slow"),
    ]
    (declared,) = matrix.declared
    assert (declared.configuration, declared.baseline, declared.hypothesis) == ("fast", "slow", "Faster is better.")
    assert (declared.measure, declared.test) == ("cumulative_reward", "welch")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("nodes = 2", "nodes = ", "cannot read the matrix .*matrix.toml"),
        ("nodes = 2", "", "missing required field `nodes`"),
        ("nodes = 2", 'nodes = "2"', "Expected `int`, got `str` - at `\\$.nodes`"),
        ("rounds = 10", "rounds = 10\nround = 3", "unknown key 'round'; did you mean 'rounds'"),
        ('name = "fast"', 'name = "fast"\nsetings = {}', "configuration 'fast': unknown key 'setings'; did you mean"),
        ('hypothesis = "', 'hypotesis = "', "comparison of 'fast': unknown key 'hypotesis'; did you mean 'hypothesis'"),
        ('baseline = "slow"', 'baseline = "slwo"', "no configuration is the baseline 'slwo'; did you mean 'slow'"),
        ("NUM_GENERATIONS", "NUM_GENERATION", "\\[settings\\]: unknown setting 'NUM_GENERATION'"),
        ("NUM_GENERATIONS", "SEED", "\\[settings\\]: 'seed' is not for a study to share: give seeds"),
        ("NUM_GENERATIONS = 4", "NUM_GENERATIONS = 4\ngenerations = 4", "given twice"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError, match=message):
        read_matrix(written(tmp_path, GOOD.replace(old, new, 1)))
