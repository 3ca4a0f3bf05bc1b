"""`swarm up --dry-run`: all that would be started, and with what; nothing is written."""

from __future__ import annotations

from typing import Any

from swarm.cli.local_swarm import OURS, LocalSwarm, within_memory
from swarm.cli.plan_text import render_plan
from swarm.cli.say import say
from swarm.config import Asked, Settings, variable
from swarm.planner.planner import plan_for
from swarm.views.text import table


def show_dry_run(swarm: LocalSwarm, asked: Asked, loaded: Settings) -> None:
    """Print the settings with their sources, the memory plan, and the command of each daemon.

    Args:
        asked: what the user asked for.
        loaded: the settings that this came to.
    """
    made = plan_for(loaded, len(swarm.workers), swarm.in_process)
    fitting = within_memory(swarm, force=True) if made else swarm
    say(_settings(fitting, asked))
    say("\n" + (render_plan(made, loaded) if made else "no memory plan: the size of the model cannot be known here"))
    say("")
    for child in fitting.children(asked, loaded):
        say(f"{child.node_id:<12} {child.command}")
    say("nothing was started or written; the same command without --dry-run does it")


def _settings(swarm: LocalSwarm, asked: Asked) -> str:
    nodes = (*swarm.coordinators, *swarm.workers)
    recorded = [node.as_recorded() for node in nodes]
    rows = []
    for name in recorded[0]:
        values = [one[name] for one in recorded]
        rows.append((variable(name), _shown(values), asked.sources.get(name) or _default_or_ours(name, values)))
    return table(("variable", "value", "from"), rows, left=(0, 1, 2))


def _default_or_ours(name: str, values: list[Any]) -> str:
    default = Settings().as_recorded()[name]
    return "default" if all(value == default for value in values) else OURS


def _shown(values: list[Any]) -> str:
    """One value, or those of the nodes in their order."""
    texts = [",".join(map(str, value)) if isinstance(value, list) else str(value) for value in values]
    return texts[0] if len(set(texts)) == 1 else " | ".join(dict.fromkeys(texts))
