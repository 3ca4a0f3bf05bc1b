"""Commands of this plugin; what they call is imported when called."""

from __future__ import annotations

from swarm.cli.command import Command

COMMANDS = {
    "experiment import": Command(
        "swarm.plugins.rl_swarm.import_experiment:import_experiment",
        "Take over one that rl-swarm made, to read.",
        "/data/their-run --as theirs",
    ),
}
