"""Declares what is measured of a run: the name of each measure, its unit and its meaning, one value per run.

swarm.plugins.study.analysis computes them (measures.totals, measures.oscillation); tables, exports, `swarm study
compare` and what a matrix declares name them as here. Where a row does not tell one, or a run has nothing of the kind,
it is NaN.
"""

from __future__ import annotations

from typing import NamedTuple


class Measure(NamedTuple):
    """One number that a run gives."""

    unit: str
    meaning: str
    digits: int | None = None
    """Decimals on a terminal; None: those that its size asks for."""
    tested: bool = False
    """A comparison may be declared on it."""


MEASURES = {
    "cumulative_reward": Measure(
        "reward", "sum of my_reward over nodes and rounds, the paper's measure", 2, tested=True
    ),
    "cumulative_tagged": Measure(
        "completions", "sum of answer_tag_rate over nodes and rounds: the format's part", 2, tested=True
    ),
    "rounds": Measure("rounds", "how many have rows"),
    "nodes": Measure("nodes", "how many have rows"),
    "rows": Measure("rows", "pairs of a node and a round"),
    "bytes_published": Measure("bytes", "written for peers, all nodes and rounds"),
    "bytes_fetched": Measure("bytes", "read of peers, all nodes and rounds"),
    "tokens_generated": Measure("tokens", "all nodes and rounds", tested=True),
    "tokens_trained": Measure("tokens", "all nodes and rounds", tested=True),
    "external_wanted": Measure("groups", "of peers that nodes asked for, all rounds"),
    "external_groups": Measure("groups", "of peers that nodes trained on, all rounds"),
    "seconds_round": Measure("seconds", "sum over nodes and rounds, waiting left out"),
    "reward_given_tagged": Measure(
        "reward",
        "cumulative_reward / cumulative_tagged: the content's part, so that their product is the reward",
        3,
        tested=True,
    ),
    "reward_given_tagged_balanced": Measure(
        "reward",
        "mean over the tasks of a task's rewards over its tagged completions, however often it was drawn",
        tested=True,
    ),
    "learned_from_others": Measure(
        "accuracy", "what specialists came to know of what only others knew (analysis.learned)", tested=True
    ),
    "planted": Measure("share", "honest completions that begin with planted words (analysis.planted)", tested=True),
    "planted_final": Measure("share", "the same, over the last rounds", tested=True),
    "planters_logprob": Measure("nats", "honest nodes' log-prob of planters' right answers, per token", tested=True),
    "honest_tagged_final": Measure("share", "honest completions with a closed answer, over the last rounds"),
    "honest_given_tagged": Measure("reward", "of an honest completion with a closed answer"),
    "honest_reward": Measure("reward", "sum over the rounds, mean over the honest nodes", tested=True),
    "weaker_over_stronger": Measure(
        "ratio", "reward of a node of the first model named over that of the last (analysis.by_model)", tested=True
    ),
    "quality_J": Measure("correlation", "of swarm quality and J over the rounds (analysis.splits)", tested=True),
    "quality_J_changes": Measure("correlation", "of their changes from round to round", tested=True),
    "mean_adaptive_I": Measure("groups", "I that an adaptive rule asked for, mean over nodes and rounds"),
    "mean_adaptive_J": Measure("groups", "J, likewise"),
    "least_adaptive_J": Measure("groups", "the least J of any node and round"),
    "most_adaptive_J": Measure("groups", "the largest"),
    "starting_reward": Measure("reward", "mean over the nodes in round 0, before any update", 3, tested=True),
    "starting_reward_3": Measure("reward", "the same over the first three rounds", 3, tested=True),
    "final_reward": Measure("reward", "mean of the agent average over the last rounds", 3, tested=True),
    "wall_seconds": Measure("seconds", "sum over the rounds of the nodes' mean time, waiting included", tested=True),
    "steep_drops": Measure("drops", "by more than a tenth of the run's highest smoothed reward, within ten rounds"),
    "max_drawdown": Measure("reward", "the most by which it lay below what it had reached before", 3),
    "max_drawdown_share": Measure("share", "the same of its highest smoothed reward"),
}
"""In the order of the totals' columns; the last three are of the smoothed agent average."""
TESTED = tuple(name for name, measure in MEASURES.items() if measure.tested)
"""What a comparison may be declared on."""
