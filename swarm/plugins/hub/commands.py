"""Commands of this plugin; what they call is imported when called."""

from __future__ import annotations

from swarm.cli.command import Command

COMMANDS = {
    "model push": Command(
        "swarm.plugins.hub.model_push:push",
        "Push a node's model to the Hugging Face Hub, once or while it is being trained.",
        "anna --repo lab/anna --experiment demo --follow --every 100",
    ),
}
