"""Lists the commands of studies, for `swarm.commands`."""

from __future__ import annotations

from swarm.cli.command import Command

_ROOM = "swarm.plugins.study.cli"
GROUPS = {"study": "Run matrices of swarms, and see what they show."}
COMMANDS = {
    "study run": Command(
        f"{_ROOM}.study:run", "Run a matrix of swarms, or go on with it.", "sapo --rounds 200 --nodes 4 --seeds 1,2,3"
    ),
    "study list": Command(
        f"{_ROOM}.studies:list_studies", "Show the studies and how far they are.", "--path /mnt/shared"
    ),
    "study report": Command(f"{_ROOM}.studies:report", "Write what a study shows: a page, figures, tables.", "sapo"),
    "study compare": Command(f"{_ROOM}.studies:compare", "Compare two experiments or studies.", "demo other"),
}
