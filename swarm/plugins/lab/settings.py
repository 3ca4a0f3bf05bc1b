"""Declares the settings of instruments of studies."""

from dataclasses import dataclass
from typing import Annotated, Literal

from swarm.config.constraints import Names, Text, above, at_most, below, real, setting, whole
from swarm.config.plugin_settings import PluginSettings
from swarm.config.settings import Settings, variable
from swarm.errors import ConfigError
from swarm.harmless import quoted

AVERAGING = "averaging"
"""Name of the trainer's part that averages."""
_OF_DILOCO = {"outer_rate": 0.7, "outer_momentum": 0.9}


@dataclass(frozen=True, kw_only=True)
class LabSettings(PluginSettings):
    """Declares what studies turn on, and few runs else."""

    section = "Instruments of studies"

    planters: Names | None = setting(None, "SWARM_PLANTERS")
    """For studies (docs/bounds.md): names of workers that publish their right answers with planted words in front, and
    say so in their registration. Refused outside a study."""
    planted_words: Text | None = setting(None, "SWARM_PLANTED_WORDS")
    """The words that planters plant; all workers count how many of their own completions begin with them."""
    average_every: Annotated[int, whole(0)] = setting(0, "SWARM_AVERAGE_EVERY", identity=True)
    """Rounds after which the workers of a run take the mean of their weights (docs/averaging.md); 0: never."""
    averaging: Literal["plain", "diloco"] = setting("plain", "SWARM_AVERAGING", identity=True)
    """What becomes of the mean: `plain`: the weights of all; `diloco`: an outer step towards it (DiLoCo)."""
    outer_rate: Annotated[float, above(0)] = setting(0.7, "SWARM_OUTER_RATE", identity=True)
    """Step size of DiLoCo's outer optimizer."""
    outer_momentum: Annotated[float, real(0, 0.9999)] = setting(0.9, "SWARM_OUTER_MOMENTUM", identity=True)
    """Nesterov momentum of DiLoCo's outer optimizer."""

    external_reasoning: Literal["whole", "answer"] = setting("whole", "SWARM_EXTERNAL_REASONING")
    """What is learned of a peer's completion (docs/bounds.md): `answer`: only `<answer>...</answer>` and the end of
    text; `whole`: all of it."""
    external_logprob_floor: Annotated[float, below(0)] | None = setting(None, "SWARM_EXTERNAL_LOGPROB_FLOOR")
    """External tokens whose log-prob under the own policy is below this, such as -5, are not learned (docs/bounds.md).
    None: all are.
    """
    external_negative_floor: Annotated[float, at_most(0)] | None = setting(None, "SWARM_EXTERNAL_NEGATIVE_FLOOR")
    """The same floor for external tokens with a negative advantage. 0: none of these are learned; None: all are."""
    gradient_halves: bool | None = setting(None, "SWARM_GRADIENT_HALVES")
    """Take the gradient in halves, to measure how far peers' groups pull away from own ones (docs/adaptive.md). It
    takes memory for two more copies of the gradient. None: only if the adaptive rule needs it.
    """

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
        if self.gradient_halves is False and settings.needs_halves:
            raise ConfigError(
                f"{variable('gradient_halves')} = False and {variable('adaptive_rule')} = {settings.adaptive_rule} "
                "exclude each other: the rule goes by what is measured of them; leave the first one out, or choose "
                "another rule"
            )
        self._check_averaging(settings)

    def _check_averaging(self, settings: Settings) -> None:
        if not self.average_every:
            if self.averaging != "plain":
                raise ConfigError(
                    f"{variable('averaging')} = {self.averaging} has no effect, for {variable('average_every')} is 0: "
                    "say after how many rounds weights are averaged, or leave it out"
                )
            return
        said = f"{variable('average_every')} = {self.average_every}"
        if settings.signing != "off":
            raise ConfigError(
                f"{said} and {variable('signing')} = {settings.signing} exclude each other: files of weights are not "
                "signed; leave one of them out"
            )
        idle = [name for name, at in _OF_DILOCO.items() if getattr(self, name) != at]
        if self.averaging == "plain" and idle:
            raise ConfigError(
                f"{', '.join(map(variable, idle))} would have no effect: a plain average has no outer step; "
                f"say {variable('averaging')}=diloco, or leave it out"
            )
