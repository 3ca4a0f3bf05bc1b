"""`swarm up --dry-run`: all that would be started, and with what; nothing is written."""

from __future__ import annotations

from collections.abc import Sequence

from swarm.cli.elsewhere import Elsewhere, part_of
from swarm.cli.local_swarm import OURS, LocalSwarm, plan_of, within_memory
from swarm.cli.plan_text import render_plan
from swarm.cli.say import say
from swarm.cli.supervisor import DaemonChild
from swarm.config import Settings, StartRequest
from swarm.views.starts import settings_table

NOTHING_STARTED = "nothing was started or written; the same command without --dry-run does it"


def show_nodes(children: Sequence[DaemonChild], *, commands: bool) -> None:
    """A line for each daemon: what it does, or the command that starts it by hand."""
    width = max((len(child.node_id) for child in children), default=0)
    for child in children:
        say(f"{child.node_id:<{width}}  {child.command if commands else child.about}")


def show_dry_run(swarm: LocalSwarm, asked: StartRequest, loaded: Settings, backend: Elsewhere | None = None) -> None:
    """Print the settings with their sources, the memory plan or what jobs are to have, and the command of each daemon.

    Args:
        asked: what the user asked for.
        loaded: the settings that this came to.
    """
    made = None if backend else plan_of(swarm)
    fitting = within_memory(swarm, made, force=True)
    nodes = [node.as_recorded() for node in (*fitting.coordinators, *fitting.workers)]
    say(settings_table(nodes, [asked.sources], OURS))
    children = fitting.children(asked, loaded)
    if backend:
        parts = [part_of(child.node_id) for child in children]
        say("\n" + backend.describe([(loaded.place, loaded.experiment, part) for part in parts]))
    else:
        say(
            "\n" + (render_plan(made, loaded) if made else "no memory plan: the size of the model cannot be known here")
        )
    say("")
    show_nodes(children, commands=True)
    say(NOTHING_STARTED)


def show_dry_join(node: Settings, asked: StartRequest) -> None:
    """Print the settings of a node that would join, with their sources, and what it needs of memory."""
    from swarm.cli.longest_talk import longest_talk
    from swarm.planner.planner import plan_for

    made = None if node.endpoint else plan_for(node, 1, False, longest_talk(node))
    say(settings_table([node.as_recorded()], [asked.sources], OURS))
    say("\n" + (render_plan(made, node) if made else "no memory plan: the size of the model cannot be known here"))
    say(NOTHING_STARTED)
