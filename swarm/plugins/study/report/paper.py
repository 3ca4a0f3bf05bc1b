"""What the SAPO paper reports (arXiv:2509.08721, section 5) beside a study: Qwen2.5-0.5B, 8 nodes, 2000 rounds.

It gives one sum per configuration and no spread, so that how certain its differences are cannot be told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from swarm.plugins.study.budget import split_of, unequal
from swarm.plugins.study.record import StudyRecord

CUMULATIVE_REWARD = {"8/0": 561.79, "6/2": 854.43, "4/4": 1093.31, "2/6": 945.87}
"""Configuration (I/J) -> cumulative reward."""
BEST, ALONE = "4/4", "8/0"
BEST_IN_WORDS = "+94 %"
"""Ratio of BEST over ALONE, as its abstract has it."""
GROUPS = 8
"""I + J."""
MODEL = "Qwen2.5-0.5B"
NODES = 8
ROUNDS = 2000


def same_scale(record: StudyRecord) -> bool:
    """A sum over 8 nodes and 2000 rounds, as the paper's are: only then may the sums stand beside each other."""
    return record.nodes == NODES and record.rounds == ROUNDS


def against_paper(compared: pd.DataFrame, record: StudyRecord) -> list[str]:
    """Returns a sentence for each pair of which one takes half of its groups from peers, as the paper's best, and one
    none.

    Args:
        compared: of swarm.plugins.study.analysis.comparisons.comparison_table.
        record: the study.
    """
    return [_verdict(row, record) for row in compared.to_dict("records") if _is_alike(row, record)]


def _is_alike(row: dict[Any, Any], record: StudyRecord) -> bool:
    if not row["baseline"] or pd.isna(row["improvement"]):
        return False
    ours, alone = split_of(record, str(row["configuration"])), split_of(record, str(row["baseline"]))
    return ours.local == ours.external > 0 == alone.external


def _verdict(row: dict[Any, Any], record: StudyRecord) -> str:
    name, baseline, low, high = (row[of] for of in ("configuration", "baseline", "improvement_low", "improvement_high"))
    theirs = 100 * (CUMULATIVE_REWARD[BEST] / CUMULATIVE_REWARD[ALONE] - 1)
    if pd.isna(low):
        interval, place = f"no interval, {row['untested'] or 'no spread'}", "cannot be held against it"
    else:
        interval = f"95 % interval {low:+.1f} to {high:+.1f}"
        place = f"lies {'above' if theirs > high else 'below' if theirs < low else 'inside'} that interval"
    said = unequal(record, name, baseline)
    budget = f"unequal budgets: {said}" if said else f"an equal budget of {split_of(record, name).total} groups a round"
    return (
        f"Beside the paper: {name} against {baseline} measured {row['improvement']:+.1f} % ({interval}) at {budget}. "
        f"The paper's {BEST_IN_WORDS} ({BEST} against {ALONE}, an equal budget of {GROUPS}) {place}."
    )


def comparable(record: StudyRecord) -> Iterator[str]:
    """Says what of such a verdict compares with the paper, and what does not."""
    yield "Comparable: a percentage over the same swarm without sharing, with half of the groups taken from peers."
    yield (
        f"Not comparable: what depends on the size of the swarm ({record.nodes} nodes here, {NODES} there), the rounds "
        f"({record.rounds}, {ROUNDS}), the model ({', '.join(_models(record)) or 'not said'}; {MODEL}), the "
        "questions' difficulty, which the paper does not say, and the start, on which the effect depends. The paper "
        "gives one sum per configuration without a spread, so how certain its percentage is cannot be told. Unequal "
        "budgets mix the effects of sharing and of more training."
    )


def _models(record: StudyRecord) -> list[str]:
    shared = {**record.defaults, **record.settings}.get("model", [])
    found = [one.settings.get("model", shared) for one in record.configurations]
    return sorted({name for models in found for name in ([models] if isinstance(models, str) else models)})


def order(compared: pd.DataFrame) -> Iterator[str]:
    """Says how the order of the configurations that the paper has too compares."""
    ours = compared[compared["configuration"].isin(CUMULATIVE_REWARD)]
    if len(ours) >= 2 and ours["mean"].any():
        here = ours.sort_values("mean", ascending=False)["configuration"].tolist()
        there = sorted(here, key=lambda name: -CUMULATIVE_REWARD[name])
        ranked = f"By cumulative reward the order here is {' > '.join(here)}"
        yield f"{ranked}, as in the paper." if here == there else f"{ranked}; in the paper it is {' > '.join(there)}."
