"""`swarm up --dry-run`: all that would be started, and with what; nothing is written."""

from __future__ import annotations

from swarm.cli.local_swarm import OURS, LocalSwarm, plan_of, within_memory
from swarm.cli.plan_text import render_plan
from swarm.cli.say import say
from swarm.config import Asked, Settings
from swarm.views.starts import settings_table


def show_dry_run(swarm: LocalSwarm, asked: Asked, loaded: Settings) -> None:
    """Print the settings with their sources, the memory plan, and the command of each daemon.

    Args:
        asked: what the user asked for.
        loaded: the settings that this came to.
    """
    made = plan_of(swarm)
    fitting = within_memory(swarm, made, force=True)
    nodes = [node.as_recorded() for node in (*fitting.coordinators, *fitting.workers)]
    say(settings_table(nodes, [asked.sources], OURS))
    say("\n" + (render_plan(made, loaded) if made else "no memory plan: the size of the model cannot be known here"))
    say("")
    for child in fitting.children(asked, loaded):
        say(f"{child.node_id:<12} {child.command}")
    say("nothing was started or written; the same command without --dry-run does it")
