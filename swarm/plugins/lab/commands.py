"""Lists the commands of the lab, for `swarm.commands`."""

from __future__ import annotations

from swarm.cli.command import Command

COMMANDS = {
    "model build": Command(
        "swarm.plugins.lab.model_build:build",
        "Train the embedded tiny models anew.",
        "models --names tiny-2-qwen2",
    ),
}
