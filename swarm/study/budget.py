"""How many groups a round trains on, by configuration: what sharing does is told only between equal budgets. Pure."""

from __future__ import annotations

from typing import NamedTuple

from swarm.config.settings import FIELDS
from swarm.study.record import StudyRecord


class Split(NamedTuple):
    """Groups of one node and round; an adaptive rule moves both, and their sum stays."""

    local: int
    """I."""
    external: int
    """J."""

    @property
    def total(self) -> int:
        return self.local + self.external


def split_of(record: StudyRecord, configuration: str) -> Split:
    """I and J of a configuration, to begin with."""
    own = next(one.settings for one in record.configurations if one.name == configuration)
    said = {**(record.defaults or {}), **record.settings, **own}
    local, external = (int(said.get(name, FIELDS[name].default)) for name in ("local_groups", "external_groups"))
    return Split(local, external)


def unequal(record: StudyRecord, configuration: str, baseline: str) -> str:
    """`4/4 trains on 8 groups a round, 4/0 on 4: 2 times as many`; empty for equal budgets, and without a baseline."""
    if baseline not in {one.name for one in record.configurations}:
        return ""
    ours, theirs = split_of(record, configuration).total, split_of(record, baseline).total
    if ours == theirs or not theirs:
        return ""
    return f"{configuration} trains on {ours} groups a round, {baseline} on {theirs}: {ours / theirs:.3g} times as many"


def unequal_budgets(record: StudyRecord) -> list[str]:
    """Of all comparisons of a study with a baseline, those that are not at equal budgets."""
    return [said for one in record.configurations if (said := unequal(record, one.name, one.baseline))]
