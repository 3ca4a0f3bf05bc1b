"""Lists the commands of the lab, for `swarm.commands`."""

from __future__ import annotations

from swarm.cli.command import Command

COMMANDS = {
    "model build": Command(
        "swarm.plugins.lab.model_build:build",
        "Train the embedded tiny models anew.",
        "models --names tiny-2-qwen2",
    ),
    "task audit": Command(
        "swarm.plugins.lab.task_audit:audit",
        "Say what a task pays to who does not think.",
        "propositional_logic coin_flip",
    ),
}
