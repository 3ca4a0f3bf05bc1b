"""Sections on the rewards over the rounds."""

from __future__ import annotations

import pandas as pd

from swarm.study.analysis.curves import RESAMPLES
from swarm.study.analysis.significance import FEWEST_SEEDS
from swarm.study.report.figure_style import Look
from swarm.study.report.figures_reward import average_and_range, mean_over_seeds, reward_per_agent
from swarm.study.report.sections import Picture, Section


def agents_section(metrics: pd.DataFrame, look: Look, window: int) -> Section:
    """Every agent on its own."""
    return Section(
        "Reward per agent",
        (
            "One panel per configuration, one line per agent, both scales shared. A line is the agent's mean reward "
            f"per completion on its own questions, as a moving average over the last {window} rounds. Lines that lie "
            "close together are agents that learned alike.",
        ),
        (
            Picture(
                "reward_per_agent",
                "Reward per agent in the first seed of each configuration that has rows; the title names the seed.",
                reward_per_agent(metrics, look, window),
            ),
        ),
    )


def average_section(metrics: pd.DataFrame, look: Look, window: int) -> Section:
    """Their mean, in one run and over the seeds."""
    return Section(
        "Agent-averaged reward",
        (
            "Thin line: mean over the agents of one run. Thick line: its moving average over the last "
            f"{window} rounds. The band is the range over agents (min to max), not an interval: it says how far apart "
            "the best and the worst agent of a round were, and nothing about other runs.",
            "The second figure averages that mean over the seeds, over the rounds that all of them have reached. Its "
            f"band is the 95 % percentile bootstrap interval of the mean over seeds ({RESAMPLES:,} resamples of whole "
            f"runs), drawn from {FEWEST_SEEDS} seeds on. It is pointwise: for whether two configurations differ, read "
            "the headline table.",
        ),
        (
            Picture(
                "agent_average",
                "Agent-averaged reward in the first seed of each configuration, with the range over agents (min to "
                "max), not an interval.",
                average_and_range(metrics, look, window),
            ),
            Picture(
                "mean_over_seeds",
                "Agent-averaged reward, mean over seeds, with its 95 % bootstrap interval.",
                mean_over_seeds(metrics, look, window),
            ),
        ),
    )
