"""Tells how many groups a round trains on, by configuration: what sharing does is told only between equal budgets.
Pure.

Of swarms of unlike sizes all their nodes together count, else one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from swarm.config import variable
from swarm.config.settings import FIELDS
from swarm.plugins.study.record import StudyRecord

LEFT = 0.5
"""Groups by which J must differ from the first one to have left it: then the nearest whole J is another one."""


class BudgetSplit(NamedTuple):
    """Groups of one node and round; an adaptive rule moves both, and their sum stays."""

    local: int
    """I."""
    external: int
    """J."""

    @property
    def total(self) -> int:
        return self.local + self.external


def split_of(record: StudyRecord, configuration: str) -> BudgetSplit:
    """I and J of a configuration, to begin with."""
    return BudgetSplit(*(int(_stated(record, configuration, name)) for name in ("local_groups", "external_groups")))


def _stated(record: StudyRecord, configuration: str, name: str) -> Any:
    """Returns the value of a setting in a configuration's runs."""
    own = next(one.settings for one in record.configurations if one.name == configuration)
    return {**record.defaults, **record.settings, **own}.get(name, FIELDS[name].default)


class Moves(NamedTuple):
    """Says how far J went in all runs of a configuration."""

    rounds: int
    furthest: float
    """The most by which J, before it was rounded, ever differed from that of the first round."""


def not_adapting(record: StudyRecord, moves: Mapping[str, Moves]) -> list[str]:
    """Returns a sentence on each configuration whose rule never left its first J, with what moves it more."""
    return [
        f"{one.name} did not adapt: J was never more than {seen.furthest:.3f} away from its first value in "
        f"{seen.rounds} rounds, so every round had the split of the first one. More rounds, a larger "
        f"{variable('adaptive_alpha')} or {variable('adaptive_rule')}=gradient-scaled, which takes rewards in units of "
        "their own spread, move J further"
        for one in record.configurations
        if (seen := moves.get(one.name)) and seen.furthest < LEFT
    ]


def unequal(record: StudyRecord, configuration: str, baseline: str) -> str:
    """`4/4 trains on 8 groups a round, 4/0 on 4: 2 times as many`; empty for equal budgets, and without a baseline."""
    if baseline not in {one.name for one in record.configurations}:
        return ""
    ours, theirs = split_of(record, configuration).total, split_of(record, baseline).total
    nodes, others = record.nodes_of(configuration), record.nodes_of(baseline)
    whose = ""
    if nodes != others:
        ours, theirs, whose = ours * nodes, theirs * others, "the whole swarm of "
    if ours == theirs or not theirs:
        return ""
    times = f"{ours / theirs:.3g} times as many"
    return f"{whose}{configuration} trains on {ours} groups a round, {whose}{baseline} on {theirs}: {times}"


def unequal_budgets(record: StudyRecord) -> list[str]:
    """Returns those comparisons of a study with a baseline that are not at equal budgets."""
    return [said for one in record.configurations if (said := unequal(record, one.name, one.baseline))]


def said_of_sizes(record: StudyRecord) -> str:
    """Returns which swarms are of another size, and how their sums are shown; empty where there are none."""
    if not record.sizes:
        return ""
    ones = ", ".join(f"{name} {nodes}" for name, nodes in record.sizes.items())
    return (
        f"Nodes of a swarm, where not {record.nodes}: {ones}. Their sums of rewards over nodes are multiplied by "
        f"{record.nodes} over these numbers, so that they stand for as many nodes. What a node spent by a round "
        "is the share of "
        f"one of {record.nodes} nodes. Bytes and tokens of whole runs are as they were."
    )
