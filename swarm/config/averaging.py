"""Finds which settings contradict the averaging of weights (docs/averaging.md)."""

from __future__ import annotations

from swarm.config.settings import Settings, variable
from swarm.errors import ConfigError

_OF_DILOCO = {"outer_rate": 0.7, "outer_momentum": 0.9}


def check_averaging(settings: Settings) -> None:
    """Raises ConfigError: settings of averaging without an effect, or beside what excludes it."""
    if not settings.average_every:
        if settings.averaging != "plain":
            raise ConfigError(
                f"{variable('averaging')} = {settings.averaging} has no effect, for {variable('average_every')} is 0: "
                "say after how many rounds weights are averaged, or leave it out"
            )
        return
    said = f"{variable('average_every')} = {settings.average_every}"
    others = (
        ("generation_server", settings.generation_server, "a server writes with the adapter of an update"),
        ("signing", settings.signing != "off", "files of weights are not signed"),
    )
    for name, at_work, why in others:
        if at_work:
            raise ConfigError(
                f"{said} and {variable(name)} = {getattr(settings, name)} exclude each other: {why}; "
                "leave one of them out"
            )
    if settings.averaging == "plain" and (
        idle := [name for name, at in _OF_DILOCO.items() if getattr(settings, name) != at]
    ):
        raise ConfigError(
            f"{', '.join(map(variable, idle))} would have no effect: a plain average has no outer step; "
            f"say {variable('averaging')}=diloco, or leave it out"
        )
