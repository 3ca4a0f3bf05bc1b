"""Presets: values for several settings at once, by name.

A preset is no setting but a source of settings, like a settings file: it counts where flags, environment and file say
nothing. docs/paper.md holds each value of `paper` against the paper and against genrl, the framework it used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarm.errors import ConfigError

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
