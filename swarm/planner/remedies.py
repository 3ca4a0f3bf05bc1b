"""Finds what would fit where a plan does not: the same nodes in one process, with adapters, or with less of something.

Plan that does not fit ─▶ other plans of the same device ─▶ Remedy: the flags, and what it would come to

Nobody takes one of them but a person: an adapter trains something else, and fewer nodes are another swarm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from swarm.config import Settings
from swarm.errors import ModelError
from swarm.planner.plan import Plan

LORA: Literal["lora"] = "lora"


class Remedy(NamedTuple):
    """One way to make it fit."""

    flags: str
    plan: Plan | None = None
    """What it would come to; None: it is the plan's own count."""


Planning = Callable[[Settings, bool], Plan]
"""The plan for these settings, of nodes that are in one process or not."""


def remedies(made: Plan, settings: Settings, planning: Planning) -> list[Remedy]:
    """Returns the changes with which a plan fits that does not; those come first that change nothing of what is
    learned."""
    tried = [Remedy(flags, plan) for flags, plan in _other_plans(made, settings, planning) if plan.fits]
    if made.longest_completion:
        tried.append(Remedy(f"--max-new-tokens {made.longest_completion}"))
    if made.most_nodes:
        tried.append(Remedy(f"--nodes {made.most_nodes}"))
    return tried


def _other_plans(made: Plan, settings: Settings, planning: Planning) -> Iterator[tuple[str, Plan]]:
    several = made.nodes > 1 and not made.in_process
    try:
        if several:
            yield "--in-process", planning(settings, True)
        if settings.adapter.kind != LORA:
            adapted = settings.with_values({"adapter": LORA})
            yield f"--adapter {LORA}", planning(adapted, made.in_process)
            if several:
                yield f"--adapter {LORA} --in-process", planning(adapted, True)
    except ModelError:  # this model cannot be adapted as the settings say
        return
