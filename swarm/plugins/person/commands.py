"""Commands of this plugin; what they call is imported when called."""

from __future__ import annotations

from swarm.cli.command import Command

COMMANDS = {
    "answer": Command(
        "swarm.plugins.person.answer:answer",
        "Answer a swarm's questions yourself, at a terminal.",
        "/mnt/shared --name anna",
    ),
}
