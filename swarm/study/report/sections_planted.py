"""The section on words that planters put in front of right answers: how far they spread, and what that costs."""

from __future__ import annotations

import pandas as pd

from swarm.study.analysis.planted import FINAL_ROUNDS, MEASURES
from swarm.study.report.evidence import Evidence
from swarm.study.report.sections import CONFIGURATION, Column, Section, Table, number


def planted_section(evidence: Evidence) -> Section | None:
    """None where no run counted planted words."""
    table = planted_table(evidence)
    if table.empty:
        return None
    return Section(
        "Planted words",
        (
            "Some workers publish their right answers with planted words in front (SWARM_PLANTERS, an instrument of "
            "studies). Of the other, honest nodes: the share of own completions that begin with these words, over the "
            f"whole run and its last {FINAL_ROUNDS} rounds; the mean log-prob per token that their policies gave, in "
            "these rounds, to the planters' right answers on which they trained; and what one of them earns in all "
            "rounds. Means over the runs that count, with the least and the most of a run.",
        ),
        (Table("planted", "Honest nodes, by configuration.", table, _COLUMNS),),
    )


def planted_table(evidence: Evidence) -> pd.DataFrame:
    """One row per configuration with a run that counted: mean of each measure, least and most of `planted`."""
    if not set(MEASURES) <= set(evidence.counted):
        return pd.DataFrame()
    counted = evidence.counted[evidence.counted["planted"].notna()]
    groups = counted.groupby("configuration", observed=True)
    found = groups[[*MEASURES]].mean()
    found["least"], found["most"] = groups["planted"].min(), groups["planted"].max()
    return evidence.look.in_order(found.reset_index(), "configuration")


_COLUMNS = (
    CONFIGURATION,
    Column("begin with planted words", "planted", number(4)),
    Column("least", "least", number(4)),
    Column("most", "most", number(4)),
    Column(f"in the last {FINAL_ROUNDS} rounds", "planted_final", number(4)),
    Column("log-prob of planters' texts", "planters_logprob", number(2)),
    Column("cumulative reward of an honest node", "honest_reward", number(2)),
)
