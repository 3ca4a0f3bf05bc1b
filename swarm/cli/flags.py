"""Command-line flags that several commands share, and how they become settings.

A flag that is not given is None and leaves the setting to the environment, the settings file and the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

from cyclopts import Parameter

from swarm.config import Settings, load_settings

_SETTING_OF_FLAG = {
    "rounds": "max_rounds",
    "local": "local_groups",
    "external": "external_groups",
    "test": "test_mode",
}
"""Flags whose names differ from their settings."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CommonFlags:
    """Which experiment, and which settings file."""

    path: Annotated[str | None, Parameter(help="The shared folder.")] = None
    experiment: Annotated[str | None, Parameter(help="Name of the experiment.")] = None
    config: Annotated[str | None, Parameter(help="TOML file of settings.")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunFlags(CommonFlags):
    """What a run does."""

    model: Annotated[
        str | None, Parameter(help="Embedded name, local path or Hugging Face id; several separated by commas.")
    ] = None
    seed: Annotated[int | None, Parameter(help="Seed of questions, sampling and training.")] = None
    rounds: Annotated[int | None, Parameter(help="Rounds to run.")] = None
    local: Annotated[int | None, Parameter(help="I: own rollout groups per round.")] = None
    external: Annotated[int | None, Parameter(help="J: peers' rollout groups per round.")] = None
    generations: Annotated[int | None, Parameter(help="G: completions per group.")] = None
    tasks: Annotated[str | None, Parameter(help="reasoning-gym tasks to draw from, separated by commas.")] = None
    profile: Annotated[str | None, Parameter(help="Difficulty of the tasks: tiny or paper.")] = None
    learning_rate: Annotated[float | None, Parameter(help="Step size of Adam.")] = None
    round_interval: Annotated[float | None, Parameter(help="Longest time a round stays open, in seconds.")] = None
    checkpoint_interval: Annotated[int | None, Parameter(help="Rounds between checkpoints; 0: only at the stop.")] = (
        None
    )
    threads: Annotated[int | None, Parameter(help="CPU threads of the compute step.")] = None
    device: Annotated[str | None, Parameter(help="Torch device such as cpu or cuda:0.")] = None
    log_level: Annotated[str | None, Parameter(help="What the terminal shows: debug, info, warning, error.")] = None
    test: Annotated[bool | None, Parameter(negative="--no-test", help="Quick validation: 3 rounds, I = 4, G = 4.")] = (
        None
    )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class NodeFlags(RunFlags):
    """Which node this is."""

    role: Annotated[str | None, Parameter(help="worker or coordinator.")] = None
    node_id: Annotated[str | None, Parameter(help="Unique name of the node; generated if not given.")] = None
    standby: Annotated[
        bool | None, Parameter(negative="", help="A coordinator that takes over when no other one is alive.")
    ] = None


def settings_from(flags: CommonFlags | None, environ: Mapping[str, str], **defaults: Any) -> Settings:
    """Settings from flags, the environment, the settings file named by `--config`, and a command's own defaults.

    Raises:
        ConfigError: an unknown or malformed setting.
    """
    flags = flags or CommonFlags()
    return load_settings(given(flags), environ, flags.config, **defaults)


def given(flags: CommonFlags) -> dict[str, Any]:
    """Setting name -> value of the flags that were given."""
    named = {f.name: getattr(flags, f.name) for f in fields(flags) if f.name != "config"}
    return {_SETTING_OF_FLAG.get(name, name): value for name, value in named.items() if value is not None}
