"""Commands of this plugin; what they call is imported when called."""

from __future__ import annotations

from swarm.cli.command import Command

GROUPS = {"sink": "Hand the rows of a run to a tracker of experiments: TensorBoard, trackio, Weights & Biases."}
COMMANDS = {
    "sink run": Command(
        "swarm.plugins.sinks.run:run",
        "Hand the rows of a run over as they come, or once.",
        "tensorboard --experiment demo --folder ./sinks",
    ),
}
