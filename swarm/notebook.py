"""`from swarm.notebook import watch`, `%load_ext swarm.notebook`: forwards to the plugin `notebook`."""

from typing import TYPE_CHECKING, Any

from swarm.entry_points import of_plugin

if TYPE_CHECKING:
    from swarm.plugins.notebook import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return of_plugin("notebook", name)
