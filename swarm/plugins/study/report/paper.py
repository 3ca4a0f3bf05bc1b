"""Quotes what the SAPO paper reports (arXiv:2509.08721, section 5): Qwen2.5-0.5B, 8 nodes, 2000 rounds.

It gives one sum per configuration and no spread, so that how certain its differences are cannot be told.
"""

from __future__ import annotations

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


def improvement(configuration: str, baseline: str) -> float | None:
    """Percent by which the paper's sum lies above that of its own `baseline`; None if it did not run both."""
    if not {configuration, baseline} <= CUMULATIVE_REWARD.keys():
        return None
    return 100 * (CUMULATIVE_REWARD[configuration] / CUMULATIVE_REWARD[baseline] - 1)


def same_scale(record: StudyRecord) -> bool:
    """A sum over 8 nodes and 2000 rounds, as the paper's are: only then may the sums stand beside each other."""
    return record.nodes == NODES and record.rounds == ROUNDS
