"""Commands of this plugin; what they call is imported when called."""

from __future__ import annotations

from swarm.cli.command import Command

COMMANDS = {
    "invite": Command(
        "swarm.plugins.syncthing.inviting:invite",
        "Make a folder that Syncthing replicates, and let other machines in.",
        "~/swarm --as lab",
    ),
}
