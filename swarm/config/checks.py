"""Refuses settings that contradict each other, and applies test mode."""

from __future__ import annotations

from dataclasses import replace

from swarm.config.settings import ADAPTIVE, QUICK, Settings, variable
from swarm.errors import ConfigError

JUDGE = "judge"
"""The name under which a judge keeps its logs; it registers nowhere, and no node may have it."""


def check(settings: Settings, given: set[str]) -> Settings:
    """The settings that apply, where `given` names those that somebody asked for. Raises ConfigError."""
    if settings.node_id == JUDGE:
        raise ConfigError(
            f"{variable('node_id')} must not be {JUDGE!r}: logs/{JUDGE} belongs to the judge; choose another"
        )
    if settings.liveness_timeout < 3 * settings.heartbeat_interval:
        raise ConfigError(
            f"{variable('liveness_timeout')} must be at least three times {variable('heartbeat_interval')}, got "
            f"{settings.liveness_timeout:g} and {settings.heartbeat_interval:g}; else live nodes are taken for dead"
        )
    if settings.test_mode:
        settings = replace(settings, **{name: value for name, value in QUICK.items() if name not in given})
    _check_adaptive(settings, given)
    return settings


def _check_adaptive(settings: Settings, given: set[str]) -> None:
    total, initial = settings.total_groups, settings.initial_j
    idle = sorted(given & set(ADAPTIVE))
    if idle and "adaptive" not in given:
        raise ConfigError(
            f"{', '.join(map(variable, idle))} would have no effect, for {variable('adaptive')} is off: "
            f"switch it on, say {variable('adaptive')}=False, or leave {'it' if len(idle) == 1 else 'them'} out"
        )
    if not settings.adaptive:
        return
    names = f"{variable('local_groups')} + {variable('external_groups')}"
    if total < 2:
        raise ConfigError(f"{variable('adaptive')} divides {names}, which must be at least 2 for it, got {total}")
    if initial > total - 1:
        raise ConfigError(
            f"{variable('adaptive_initial_j')} must be at most {names} - 1 = {total - 1}, since a node always asks "
            f"itself something, got {initial:g}; lower it, or raise {variable('local_groups')}"
        )
