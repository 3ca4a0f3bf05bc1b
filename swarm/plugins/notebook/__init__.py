"""What notebooks use: frames and dictionaries of experiments, and all that a session needs beside the commands.

    %load_ext swarm.notebook     ─▶ `%swarm up --nodes 4`: any command, as in a terminal         command.py
    from swarm.notebook import ─┬▶ get_experiment_metrics, ...: what lies in a shared folder     experiments.py
                                ├▶ run_with_live_output: any command, its output as it comes       command.py
                                ├▶ mount_drive, take_secrets, set_up, model_here: a session      session.py
                                └▶ watch: where an experiment stands, in a cell's output         live.py

Nothing here runs a node in the kernel: commands are processes of their own, so that neither the kernel's event loop nor
its end is theirs. docs/notebooks.md has examples; docs/notebooks/ has notebooks.
"""

from typing import Any

from swarm.plugins.notebook.command import load_ipython_extension, run_with_live_output
from swarm.plugins.notebook.experiments import (
    ExperimentInfo,
    ExperimentProgress,
    ExperimentStatus,
    compare_experiments,
    export_experiment_summary,
    get_cumulative_rewards,
    get_experiment_metrics,
    get_experiment_progress,
    get_experiment_status,
    list_experiments,
    tail_logs,
)
from swarm.plugins.notebook.live import watch
from swarm.plugins.notebook.session import model_here, mount_drive, set_up, take_secrets

__all__ = [
    "ExperimentInfo",
    "ExperimentProgress",
    "ExperimentStatus",
    "compare_experiments",
    "export_experiment_summary",
    "get_cumulative_rewards",
    "get_experiment_metrics",
    "get_experiment_progress",
    "get_experiment_status",
    "list_experiments",
    "load_ipython_extension",
    "model_here",
    "mount_drive",
    "run_with_live_output",
    "set_up",
    "tail_logs",
    "take_secrets",
    "watch",
]

_ELSEWHERE = {
    "init_experiment": "an experiment's coordinator begins it; leave the line out",
    "cleanup_experiment": "`%swarm experiment clean NAME` deletes an experiment or parts of it, and asks first",
    "install_package_with_live_output": "run_with_live_output([sys.executable, '-m', 'pip', 'install', PACKAGE]) is it",
}
"""Functions of rl-swarm's notebooks that are something else here."""


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        raise ImportError(f"swarm.notebook has no {name}: {_ELSEWHERE[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
