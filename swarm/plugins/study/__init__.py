"""Studies: run a matrix of swarms, load the results as frames, analyse and report them.

    matrix, seeds ─run─▶ experiments/ in the shared folder ─tables─▶ frames ─analysis─▶ figures of merit ─report─▶ page
         └────────────────── record: study.json ──────────────────────────────────────────┘

The frames are the way in for notebooks: `from swarm.plugins.study import get_experiment_metrics`.
"""

from swarm.plugins.study.frames import get_study_judge_metrics, get_study_metrics, get_study_rollout_files
from swarm.views.tables.frames import (
    get_events,
    get_experiment_metrics,
    get_judge_metrics,
    get_rewards,
    get_rollout_files,
    get_rollouts,
)

__all__ = [
    "get_events",
    "get_experiment_metrics",
    "get_judge_metrics",
    "get_rewards",
    "get_rollout_files",
    "get_rollouts",
    "get_study_judge_metrics",
    "get_study_metrics",
    "get_study_rollout_files",
]
