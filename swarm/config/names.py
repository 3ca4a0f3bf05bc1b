"""Names and groups of settings that more than one module needs, and what an experiment has that does not say it."""

from __future__ import annotations

from typing import Any

from swarm.types import FIRST_FAMILY

JUDGE = "judge"
"""The name under which a judge keeps its logs; it registers nowhere, and no node may have it."""
SAMPLERS = ("uniform", "whole-pool", "informative", "balanced")
"""Named here for the messages; what they do is in swarm.algo.samplers. Others are named `package.module:function`."""
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
