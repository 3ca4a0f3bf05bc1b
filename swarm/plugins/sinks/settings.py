"""Declares the settings of sinks."""

from dataclasses import dataclass

from swarm.config.constraints import Names, Text, setting
from swarm.config.plugin_settings import PluginSettings


@dataclass(frozen=True, kw_only=True)
class SinksSettings(PluginSettings):
    """Declares which trackers get the rows of a run."""

    section = "Beside the run"

    sinks: Names | None = setting(None, "SWARM_SINKS", up_flag="sink", reaches=True)
    """Experiment trackers to which `swarm up` sends the rows of a run (docs/sinks.md): `tensorboard`, `trackio`,
    `wandb`. Each is an extra.
    """
    sink_folder: Text = setting("./sinks", "SWARM_SINK_FOLDER", reaches=True)
    """Where TensorBoard and wandb have their files, never in the shared place; trackio has its own (TRACKIO_DIR)."""
