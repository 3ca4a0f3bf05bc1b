"""Declares the settings of instruments of studies."""

from dataclasses import dataclass

from swarm.config.constraints import Names, Text, setting
from swarm.config.plugin_settings import PluginSettings
from swarm.config.settings import Settings, variable
from swarm.errors import ConfigError
from swarm.harmless import quoted


@dataclass(frozen=True, kw_only=True)
class LabSettings(PluginSettings):
    """Declares what studies turn on, and few runs else."""

    section = "Instruments of studies"

    planters: Names | None = setting(None, "SWARM_PLANTERS")
    """An instrument of studies (docs/bounds.md): the names of workers that publish their right answers with planted
    words in front, and say so in their registration. Refused in a run that is no study's."""
    planted_words: Text | None = setting(None, "SWARM_PLANTED_WORDS")
    """What they plant; all workers then count how many of their own completions begin with it."""

    def plants(self, node: str) -> str:
        """Returns what a node of these settings puts in front of its right answers; empty: nothing."""
        return (self.planted_words or "") if node in (self.planters or ()) else ""

    def check(self, settings: Settings) -> None:
        """Sees that instruments can work beside each other and beside the core's settings.

        Raises:
            ConfigError: they cannot.
        """
        if self.planters and not self.planted_words:
            raise ConfigError(
                f"{variable('planters')} names {quoted(','.join(self.planters))}, and {variable('planted_words')} does "
                "not say what they plant: it is an instrument of studies; leave it out, or say both"
            )
