"""The built-in matrices of `swarm study run`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from swarm.config.names import LITERAL_RULES, SCALED_RULES
from swarm.errors import ConfigError
from swarm.plugins.study.record import ConfigurationRecord, DeclaredComparison
from swarm.plugins.study.run.matrix import Matrix, meant_among, with_baseline

RARE = ("tiny-2-qwen2-rare",)
LEARNING_RATE = 2e-4
"""Step size of all runs of the built-in matrices. Sharing pays most where informative groups are rare
(docs/study/starting-reward)."""
PROFILE = "tiny-2"
"""The questions of the published runs, so that they can be repeated."""
ROUNDS = 100
SEEDS = (6, 7, 8, 9, 10)
"""Fresh ones: the splits and rules were chosen after looking at seeds 1 to 5."""
ADAPTIVE_RULES = (*LITERAL_RULES, *SCALED_RULES, "supply", "random")
"""The last one is a control: it moves as much as the others, and follows nothing. They are held against 6/2, the best
fixed split of the first study."""

ALPHAS = (0.05, 0.1, 0.2)
"""Step sizes of the rule `gradient` in `thesis`."""
WEAKER_AND_STRONGER = ("tiny-2-qwen2-rare", "tiny-2-qwen2")
"""The models of `thesis`: the same but for their warm start, which earns 0.004 and 0.013 (docs/models.md)."""

_SMALL = "Sharing raises the cumulative reward of a small swarm: {} is above 4/0."


def _split(local: int, external: int) -> ConfigurationRecord:
    """I local and J external groups, named as in the paper."""
    return ConfigurationRecord(
        name=f"{local}/{external}", settings={"local_groups": local, "external_groups": external}
    )


def _half(name: str, **settings: Any) -> ConfigurationRecord:
    """4/4 to begin with, and something on top of it."""
    return ConfigurationRecord(name=name, settings={"local_groups": 4, "external_groups": 4, **settings})


def _gradient(alpha: float) -> ConfigurationRecord:
    """2/2 to begin with, and J += alpha (r - b) after each round; I + J stays 4."""
    own = {"adaptive": True, "adaptive_rule": "gradient", "adaptive_alpha": alpha}
    split = {"local_groups": 2, "external_groups": 2}
    return ConfigurationRecord(name=f"adaptive-{alpha:g}", settings=split | own, baseline="2/2")


def _twice(hypothesis: str) -> str:
    """Returns the hypothesis of a configuration that trains on twice as many groups as its baseline."""
    return f"{hypothesis} {{}} trains on twice as many groups a round, so that this is not the effect of sharing alone."


_ADAPTING = "RQ3: The cumulative reward of {} differs from that of 2/2, the fixed split that it begins with."
_WEAKER = DeclaredComparison(
    configuration="2/2",
    baseline="4/0",
    measure="weaker_over_stronger",
    test="paired",
    hypothesis="RQ2: A weaker model gains more by sharing. The ratio of its nodes' rewards to the stronger "
    "model's is larger in 2/2 than in 4/0.",
)


def _quality(alpha: float) -> DeclaredComparison:
    name = _gradient(alpha).name
    said = f"RQ4: In {name}, J and swarm quality go together over the rounds: their correlation is not 0."
    return DeclaredComparison(configuration=name, measure="quality_J", test="zero", hypothesis=said)


def _matrix(
    name: str,
    title: str,
    baseline: str,
    hypothesis: str,
    *configurations: ConfigurationRecord,
    nodes: int = 8,
    otherwise: Mapping[str, str] = MappingProxyType({}),
    model: tuple[str, ...] = RARE,
    further: tuple[DeclaredComparison, ...] = (),
) -> Matrix:
    """A built-in one; each configuration is declared against its baseline, on cumulative reward.

    Args:
        baseline: of configurations that name none.
        hypothesis: on a configuration, `{}`.
        otherwise: on those of these names.
        further: comparisons that are declared besides.
    """
    compared = with_baseline(configurations, baseline)
    return Matrix(
        name=name,
        title=title,
        nodes=nodes,
        rounds=ROUNDS,
        seeds=SEEDS,
        configurations=compared,
        settings={"model": model, "profile": PROFILE, "learning_rate": LEARNING_RATE},
        built_in=True,
        declared=(
            *(
                DeclaredComparison(
                    configuration=one.name,
                    baseline=one.baseline,
                    hypothesis=otherwise.get(one.name, hypothesis).replace("{}", one.name),
                )
                for one in compared
                if one.baseline
            ),
            *further,
        ),
    )


MATRICES = {
    matrix.name: matrix
    for matrix in (
        _matrix(
            "sapo",
            "Does sharing help? (SAPO, section 5)",
            "8/0",
            "Sharing raises the cumulative reward: {} is above 8/0, which trains on its own groups alone.",
            *(_split(8 - j, j) for j in (0, 2, 4, 6)),
        ),
        _matrix(
            "five-node",
            "Four workers and a coordinator",
            "4/0",
            _SMALL,
            *(_split(4 - j, j) for j in range(4)),
            nodes=4,
        ),
        _matrix(
            "thesis",
            "Does sharing help five nodes, whom, and can the split adapt?",
            "4/0",
            f"RQ1: {_SMALL}",
            *(_split(4 - j, j) for j in range(4)),
            _split(4, 4),
            *map(_gradient, ALPHAS),
            nodes=4,
            otherwise={"4/4": _twice(f"RQ1: {_SMALL}"), **{_gradient(alpha).name: _ADAPTING for alpha in ALPHAS}},
            model=WEAKER_AND_STRONGER,
            further=(_WEAKER, *map(_quality, ALPHAS)),
        ),
        _matrix(
            "adaptive",
            "Can the split adapt?",
            "6/2",
            "The cumulative reward of {} differs from that of 6/2, the best fixed split of the first study.",
            _split(6, 2),
            _split(4, 4),
            *(_half(rule, adaptive=True, adaptive_rule=rule) for rule in ADAPTIVE_RULES),
        ),
        _matrix(
            "samplers",
            "Which external groups are worth sampling?",
            "uniform",
            "The cumulative reward with the {} sampler differs from that with uniform sampling.",
            *(_half(sampler, sampler=sampler) for sampler in ("uniform", "informative", "balanced")),
        ),
    )
}
"""By name."""


def built_in(name: str) -> Matrix:
    """Returns the matrix of that name. Raises ConfigError if there is none."""
    if name not in MATRICES:
        raise ConfigError(f"no built-in matrix {name!r}{meant_among(name, MATRICES)}; a file of your own ends in .toml")
    return MATRICES[name]
