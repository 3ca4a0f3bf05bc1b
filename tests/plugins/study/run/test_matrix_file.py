"""A TOML file as a matrix: what it may say, and how what it may not say is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from swarm.errors import ConfigError
from swarm.plugins.study.run.matrix_file import read_matrix

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
        (
            "rounds = 10",
            "rounds = 10\nzzz = 3",
            "unknown key 'zzz'; expected one of baseline, comparisons, configurations, exploratory, name",
        ),
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


def test_a_configuration_may_have_a_size_of_its_own(tmp_path: Path) -> None:
    own = read_matrix(written(tmp_path, GOOD.replace('name = "fast"', 'name = "fast"\nnodes = 1', 1)))
    assert [one.nodes for one in own.configurations] == [msgspec.UNSET, 1]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_matrix(tmp_path / "none.toml")
