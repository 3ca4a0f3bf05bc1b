"""Lists the command that prints what completes all others, for `swarm.commands`."""

from __future__ import annotations

from swarm.cli.command import Command

COMMANDS = {
    "completion": Command(
        "swarm.plugins.completion.completion:completion", "Print what completes `swarm` in a shell.", "bash"
    ),
}
