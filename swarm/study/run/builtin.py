"""The built-in matrices of `swarm study run`."""

from __future__ import annotations

from typing import Any

from swarm.errors import ConfigError
from swarm.study.record import ConfigurationRecord
from swarm.study.run.matrix import Matrix, did_you_mean, with_baseline

SETTINGS = {"model": ("tiny-qwen2-rare",), "learning_rate": 2e-4}
"""Of all runs of the built-in matrices. Sharing pays where informative groups are rare; tiny-qwen2, which begins with
seven times the reward, gains little by it (docs/study/starting-reward)."""
ROUNDS = 100
SEEDS = (1, 2, 3, 4, 5)
ADAPTIVE_RULES = ("reward-trend", "gradient", "multi-signal", "supply", "random")
"""The last one is a control: it moves as much as the others, and follows nothing. They are held against 6/2, the best
of the fixed splits of `sapo`."""


def _split(local: int, external: int) -> ConfigurationRecord:
    """I local and J external groups, named as in the paper."""
    return ConfigurationRecord(
        name=f"{local}/{external}", settings={"local_groups": local, "external_groups": external}
    )


def _half(name: str, **settings: Any) -> ConfigurationRecord:
    """4/4 to begin with, and something on top of it."""
    return ConfigurationRecord(name=name, settings={"local_groups": 4, "external_groups": 4, **settings})


def _matrix(name: str, title: str, baseline: str, *configurations: ConfigurationRecord, nodes: int = 8) -> Matrix:
    return Matrix(
        name=name,
        title=title,
        nodes=nodes,
        rounds=ROUNDS,
        seeds=SEEDS,
        configurations=with_baseline(configurations, baseline),
        settings=SETTINGS,
    )


MATRICES = {
    matrix.name: matrix
    for matrix in (
        _matrix("sapo", "Does sharing help? (SAPO, table 1)", "8/0", *(_split(8 - j, j) for j in (0, 2, 4, 6))),
        _matrix("five-node", "Four workers and a coordinator", "4/0", *(_split(4 - j, j) for j in range(4)), nodes=4),
        _matrix(
            "adaptive",
            "Can the split adapt?",
            "6/2",
            _split(6, 2),
            _split(4, 4),
            *(_half(rule, adaptive=True, adaptive_rule=rule) for rule in ADAPTIVE_RULES),
        ),
        _matrix(
            "samplers",
            "Which external groups are worth sampling?",
            "uniform",
            *(_half(sampler, sampler=sampler) for sampler in ("uniform", "informative", "balanced")),
        ),
    )
}
"""By name."""


def built_in(name: str) -> Matrix:
    """The matrix of that name. Raises ConfigError if there is none."""
    if name not in MATRICES:
        raise ConfigError(
            f"no built-in matrix {name!r}{did_you_mean(name, MATRICES)}; a file of one's own ends in .toml"
        )
    return MATRICES[name]
