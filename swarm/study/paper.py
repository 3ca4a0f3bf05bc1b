"""What the SAPO paper measured (arXiv:2509.08721, section 5): Qwen2.5-0.5B, 8 nodes, 2000 rounds, one run each."""

from __future__ import annotations

from swarm.study.record import StudyRecord

CUMULATIVE_REWARD = {"8/0": 561.79, "6/2": 854.43, "4/4": 1093.31, "2/6": 945.87}
"""Configuration (I/J) -> cumulative reward."""
BASELINE = "8/0"
NODES = 8
ROUNDS = 2000


def improvement(configuration: str) -> float | None:
    """Percent above the paper's 8/0; None for what it did not run, and for 8/0 itself."""
    if configuration not in CUMULATIVE_REWARD or configuration == BASELINE:
        return None
    return 100 * (CUMULATIVE_REWARD[configuration] / CUMULATIVE_REWARD[BASELINE] - 1)


def same_scale(record: StudyRecord) -> bool:
    """A sum over 8 nodes and 2000 rounds, as the paper's are: only then may the sums stand beside each other."""
    return record.nodes == NODES and record.rounds == ROUNDS
