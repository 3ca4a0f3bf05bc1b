"""`from swarm.study import get_study_metrics`: forwards to the plugin `study`."""

from typing import TYPE_CHECKING, Any

from swarm.entry_points import of_plugin

if TYPE_CHECKING:
    from swarm.plugins.study import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return of_plugin("study", name)
