"""Names and groups of settings that more than one module needs: what may be named, presets, defaults of an experiment.

A preset is no setting but a source of settings, like a settings file: it counts where flags, environment and file say
nothing. docs/paper.md holds each value of `paper` against the paper and against genrl, the framework it used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarm.errors import ConfigError
from swarm.types import FIRST_FAMILY

JUDGE = "judge"
"""The name under which a judge keeps its logs; it registers nowhere, and no node may have it."""
SAMPLERS = ("uniform", "whole-pool", "informative", "balanced")
"""Named here for the messages; what they do is in swarm.algo.sampling. Others are named `package.module:function`."""
LOSSES = ("grpo", "grpo_sequence", "dr_grpo", "gspo", "cispo", "grpo_masked")
"""Named here for the messages; what they do is in swarm.algo.losses. Others are named `package.module:function`."""
ADVANTAGE_SCALINGS = ("std", "none", "std_sample", "std_batch")
"""Named here for the messages; what they do is in swarm.algo.advantages, and of others likewise."""
TASK_FAMILIES = (FIRST_FAMILY, "dataset", "facts", "python", "verifiers")
"""Named here for what a place may say; where they are is in swarm.tasks.registry, or known to an entry point of ours.
Others: `package.module:object`."""
DATASET_SCORERS = ("exact", "number", "choice", "json", "regex", "math", "tests")
"""Scorers of datasets, named here likewise; what they do is in swarm.tasks.dataset.scorers."""
FUNCTIONS = ("sampler", "adaptive_rule", "loss", "advantage_scaling")
"""Settings that may name a function of the user's own."""
QUICK: dict[str, Any] = {"max_rounds": 3, "local_groups": 4, "generations": 4}
"""What test mode sets where nobody says otherwise."""
IDENTITY_DEFAULTS: dict[str, Any] = {
    "adaptive": False,
    "adaptive_min_j": 0,
    "adaptive_max_j": None,
    "sampler": "uniform",
    "clock": "coordinator",
    "loss": "grpo",
    "advantage_scaling": "std",
    "task_families": [FIRST_FAMILY],
    "task_table": None,
    "empty_update": "skip",
    "dynamic_sampling": 1,
    "max_stages": 1,
    "revise": None,
}
"""What an experiment has whose identity does not say it, such as one of a version that knew nothing else."""


LITERAL_RULES = ("reward-trend", "gradient", "multi-signal")
"""Earlier versions knew those of SCALED_RULES by these names; see `recorded_rule`."""
_LITERAL = " (literal)"
SCALED_RULES = tuple(f"{rule}-scaled" for rule in LITERAL_RULES)
ADAPTIVE_RULES = (*LITERAL_RULES, *SCALED_RULES, "supply", "supply-measured", "random", "constant")
"""Named here for the messages; swarm.algo.registry finds them. Others are named `package.module:function`."""

MEASURING_RULES = ("supply-measured",)
"""They go by what is measured of the gradient's halves, which is measured for them."""


def recorded_rule(name: str) -> str:
    """Returns an adaptive rule as an experiment's identity names it.

    `gradient` alone was another formula in earlier versions: the one now called `gradient-scaled`. So an experiment of
    either kind never goes on with the other's, whichever version looks at it.
    """
    return name + _LITERAL if name in LITERAL_RULES else name


def rule_in_settings(recorded: str) -> str:
    """Returns the name in the settings of a rule as an experiment's identity names it."""
    return f"{recorded}-scaled" if recorded in LITERAL_RULES else recorded.removesuffix(_LITERAL)


PRESET = "preset"
"""Its key in a settings file, and its flag."""
PRESET_VARIABLE = "SWARM_PRESET"
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "model": ("Qwen/Qwen2.5-0.5B-Instruct",),
        "max_rounds": 2000,
        "local_groups": 4,
        "external_groups": 4,
        "generations": 8,
        "sampler": "uniform",
        "profile": "rl-swarm",
        "learning_rate": 1e-3,
        "warmup_steps": 0,
        "weight_decay": 0.0,
        "max_grad_norm": 0.0,
        "empty_update": "step",
        "loss": "grpo",
        "advantage_scaling": "std_sample",
        "clip_low": 0.2,
        "clip_high": 0.28,
        "kl_weight": 0.0,
        "grpo_iterations": 1,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "max_new_tokens": 256,
    },
}
"""Preset -> setting -> value. What the paper leaves open is as in genrl's code; I and J are its best configuration."""


def preset(name: object, source: str) -> dict[str, tuple[object, str]]:
    """Returns the settings of a preset and where they came from. Raises ConfigError if there is none of that name."""
    values = PRESETS.get(name) if isinstance(name, str) else None
    if values is None:
        raise ConfigError(
            f"{PRESET_VARIABLE} ({PRESET}) must be one of {', '.join(PRESETS)}, got {name!r} from {source}; correct it "
            "or leave it out"
        )
    return {setting: (value, f"the preset {name}") for setting, value in values.items()}
