"""The settings that make an experiment what it is, as `experiment.json` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from swarm.config.adaptive_rules import recorded_rule
from swarm.config.names import IDENTITY_DEFAULTS
from swarm.config.own_code import plain
from swarm.config.task_table import recorded

if TYPE_CHECKING:
    from swarm.config.settings import Settings


def identity_of(settings: Settings) -> dict[str, Any]:
    """Returns the settings that make the experiment what it is; Settings.experiment_identity calls it."""
    identity = {
        name: settings.value(name) for name in ("seed", "local_groups", "external_groups", "generations", "profile")
    }
    identity["tasks"] = list(settings.tasks) if settings.tasks else None
    chosen = {
        name: settings.value(name)
        for name in (
            "sampler",
            "clock",
            "loss",
            "advantage_scaling",
            "empty_update",
            "max_stages",
            "revise",
            "dynamic_sampling",
        )
    }
    table = settings.task_table and {name: recorded(asked) for name, asked in settings.task_table.items()}
    chosen |= {"task_families": list(settings.task_families), "task_table": table}
    if settings.adaptive:
        names = ("adaptive", "adaptive_alpha", "adaptive_baseline_alpha")
        identity |= {name: settings.value(name) for name in names}
        identity |= {"adaptive_rule": recorded_rule(settings.adaptive_rule), "adaptive_initial_j": settings.initial_j}
        highest = None if settings.max_j == settings.total_groups - 1 else settings.max_j
        chosen |= {"adaptive_min_j": settings.adaptive_min_j, "adaptive_max_j": highest}
    identity |= {name: value for name, value in chosen.items() if value != IDENTITY_DEFAULTS[name]}
    return {name: plain(value) for name, value in identity.items()}
