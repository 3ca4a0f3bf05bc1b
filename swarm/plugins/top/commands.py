"""Commands of this plugin; what they call is imported when called."""

from __future__ import annotations

from swarm.cli.command import Command

COMMANDS = {
    "top": Command(
        "swarm.plugins.top.top:top",
        "Watch a swarm live: nodes, curves, who learns from whom, an answer.",
        "--experiment demo",
    ),
}
