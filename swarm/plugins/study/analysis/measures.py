"""Measures of a run: sums, the agent average over rounds, rounds to a threshold, oscillation.

    metrics (one row per run, node and round) ─▶ totals          one row per run
                                              └▶ agent_average   one row per run and round ─▶ rounds_to_threshold
                                                                                           └▶ oscillation

Every frame begins with the columns that name a run: configuration, seed, experiment.

Format and content: a completion without a closed `<answer>` is never shown to a scorer and earns exactly 0, in every
task family (swarm.tasks.answer). So a node's mean reward is the share of tagged completions (answer_tag_rate) times the
mean reward of these, and sums of my_reward over sums of answer_tag_rate are rewards given tagged. Every node and round
has its share in them by its tagged completions (not a mean of means), and those of runs whose rows have no
reward_given_tagged are known, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from swarm.plugins.study.analysis.by_model import weaker_over_stronger
from swarm.plugins.study.analysis.curves import FINAL_ROUNDS, RUN, ratio
from swarm.plugins.study.analysis.learned import learned_from_others
from swarm.plugins.study.analysis.planted import planted_measures
from swarm.plugins.study.analysis.splits import quality_and_split, splits_by_round
from swarm.plugins.study.record import StudyRecord

WINDOW = 10
"""Rounds of the moving average that thresholds and drops are measured on; figures take curves.window_for."""
STEEP = 0.1
"""A drop is steep if it takes more than this share of the run's highest smoothed reward within WINDOW rounds."""
SHARES_OF_BEST = (0.25, 0.5, 0.75)
SPENT = (
    *("bytes_published", "bytes_fetched", "tokens_generated", "tokens_trained"),
    *("external_wanted", "external_groups", "seconds_round"),
)
"""Columns of the metrics that are summed over nodes and rounds."""
SUMS = ("cumulative_reward", "cumulative_tagged")
"""Columns of totals that are multiplied by the study's nodes over the run's; means, and what was spent, stay."""
SHARES = ("tokens_per_node", "trained_per_node")
"""Columns of agent_average that are divided by it."""
COSTS = ("tokens_per_node", "trained_per_node", "seconds")
"""Columns of agent_average that say what a run had spent by the end of a round."""


def totals(metrics: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per run: swarm.plugins.study.measures.MEASURES but for those of `oscillation`."""
    runs = metrics.groupby(RUN, sort=False)
    found = runs.agg(
        cumulative_reward=("my_reward", "sum"),
        cumulative_tagged=("answer_tag_rate", "sum"),
        rounds=("round", "nunique"),
        nodes=("node_id", "nunique"),
        rows=("node_id", "size"),
        **{name: (name, "sum") for name in SPENT},
    )
    for name in ("answer_tag_rate", *SPENT):  # a sum of nothing that anybody recorded is not 0
        column = "cumulative_tagged" if name == "answer_tag_rate" else name
        found[column] = found[column].where(runs[name].count() > 0)
    found["reward_given_tagged"] = ratio(found["cumulative_reward"], found["cumulative_tagged"])
    found["reward_given_tagged_balanced"] = _balanced(metrics)
    found["learned_from_others"] = learned_from_others(metrics)
    found = found.join(planted_measures(metrics))
    found["weaker_over_stronger"] = weaker_over_stronger(metrics)
    found = found.join(quality_and_split(splits_by_round(metrics)))
    splits = metrics.astype({"adaptive_I": "float64", "adaptive_J": "float64"}).groupby(RUN, sort=False)
    found["mean_adaptive_I"], found["mean_adaptive_J"] = splits["adaptive_I"].mean(), splits["adaptive_J"].mean()
    found["least_adaptive_J"], found["most_adaptive_J"] = splits["adaptive_J"].min(), splits["adaptive_J"].max()
    return found.join(_from_curve(agent_average(metrics))).reset_index()


def _balanced(metrics: pd.DataFrame) -> pd.Series[float]:
    tasks = _task_sums(metrics)
    given = ratio(tasks["reward"], tasks["tagged"])
    return given.groupby(RUN).mean().where(~given.isna().groupby(RUN).any())


def _from_curve(curves: pd.DataFrame) -> pd.DataFrame:
    runs = curves.groupby(RUN, sort=False)
    return pd.DataFrame(
        {
            "starting_reward": runs["mean"].first(),
            "starting_reward_3": curves[runs.cumcount() < 3].groupby(RUN)["mean"].mean(),
            "final_reward": curves[runs.cumcount(ascending=False) < FINAL_ROUNDS].groupby(RUN)["mean"].mean(),
            "wall_seconds": runs["seconds"].last(),
        }
    )


def agent_average(metrics: pd.DataFrame) -> pd.DataFrame:
    """Returns the curve of each run, one row per round.

    Columns:
        round, nodes: the round, and how many nodes have a row for it.
        mean: of my_reward over these nodes.
        tagged: mean of answer_tag_rate over them.
        given_tagged: sum of their my_reward / sum of their answer_tag_rate; NaN where no completion was tagged.
        full_answers: mean of full_answer_rate over them.
        local_groups, informative_own, informative_external: own groups, those of them with an advantage, and external
            groups trained on, which all have one: means over them.
        tokens_per_node, trained_per_node: tokens generated, and trained on, up to and with this round, by the run's
            nodes on average.
        seconds: from the start of the first round to the end of this one, by the nodes' own clocks on average: the sum
            over rounds of their mean seconds_round + seconds_wait. While a run is stopped it does not grow.
    """
    timed = metrics.assign(seconds=metrics["seconds_round"] + metrics["seconds_wait"])
    timed["informative_own"] = (timed["local_groups"] * (1 - timed["zero_advantage_local"])).round()
    rounds = timed.groupby([*RUN, "round"], sort=True)
    curves = rounds.agg(
        nodes=("node_id", "nunique"),
        mean=("my_reward", "mean"),
        tagged=("answer_tag_rate", "mean"),
        full_answers=("full_answer_rate", "mean"),
        tokens_per_node=("tokens_generated", "sum"),
        trained_per_node=("tokens_trained", "sum"),
        seconds=("seconds", "mean"),
        local_groups=("local_groups", "mean"),
        informative_own=("informative_own", "mean"),
        informative_external=("external_groups", "mean"),
    )
    curves["given_tagged"] = ratio(curves["mean"], curves["tagged"])
    so_far = curves[[*COSTS]].groupby(level=RUN).cumsum()
    nodes = metrics.groupby(RUN)["node_id"].nunique()
    curves["tokens_per_node"] = so_far["tokens_per_node"] / nodes
    curves["trained_per_node"] = so_far["trained_per_node"] / nodes
    curves["seconds"] = so_far["seconds"]
    return curves.reset_index()


def as_of_equal_sizes(frame: pd.DataFrame, record: StudyRecord) -> pd.DataFrame:
    """Returns the frame with its SUMS and SHARES brought to the study's size; as it is where all swarms are equal.

    A swarm of one node that earns 10 is beside eight nodes that earn 60 together the better one: 8 x 10 = 80. So sums
    are shown for as many nodes as the study has, and what a node spent as the share of one of so many.

    Args:
        frame: rows of runs with a column `configuration`.
        record: the study.
    """
    for name, nodes in record.sizes.items():
        rows, factor = frame["configuration"] == name, record.nodes / nodes
        scaled = {column: frame[column] * factor for column in SUMS if column in frame}
        scaled |= {column: frame[column] / factor for column in SHARES if column in frame}
        frame = frame.assign(**{column: frame[column].where(~rows, values) for column, values in scaled.items()})
    return frame


def by_task(metrics: pd.DataFrame) -> pd.DataFrame:
    """Format and content of each task: one row per run and task, none where the rows do not tell tasks' tag rates.

    Columns:
        tagged_first, tagged_last: mean share of tagged completions, over the nodes that asked themselves the task in
            the first, and in the last, FINAL_ROUNDS rounds of the run; NaN where none did.
        given_tagged_first, given_tagged_last: sum of their rewards in the task / sum of these shares.
    """
    columns = [*RUN, "task", "tagged_first", "tagged_last", "given_tagged_first", "given_tagged_last"]
    end = metrics.groupby(RUN, sort=False)["round"].transform("max")
    parts = {
        "first": metrics[metrics["round"] < FINAL_ROUNDS],
        "last": metrics[metrics["round"] > end - FINAL_ROUNDS],
    }
    first, last = (_task_sums(rows).add_suffix(f"_{part}") for part, rows in parts.items())
    found = first.join(last, how="outer")
    for part in parts:
        found[f"given_tagged_{part}"] = ratio(found[f"reward_{part}"], found[f"tagged_{part}"])
    return found.reset_index()[columns]


def _task_sums(metrics: pd.DataFrame) -> pd.DataFrame:
    """Run and task -> mean tag rate and mean reward, over its rows that tell both."""
    columns = [*RUN, "task_rewards", "task_tag_rates"]
    told = [
        (*run, task, rewards[task], rate)
        for *run, rewards, rates in metrics[columns].itertuples(index=False)
        for task, rate in (rates or {}).items()
        if task in rewards
    ]
    rows = pd.DataFrame(told, columns=[*RUN, "task", "reward", "tagged"]).astype({"reward": float, "tagged": float})
    return rows.groupby([*RUN, "task"])[["reward", "tagged"]].mean()


def smoothed(curves: pd.DataFrame, window: int = WINDOW) -> pd.Series[float]:
    """Moving average of each run's `mean`, looking back: over the round itself and the window - 1 before it.

    At the start it is over those rounds that there are, so that the curve begins at round 0 (and noisily).
    """
    means = curves.groupby(RUN, sort=False)["mean"].rolling(window, min_periods=1).mean()
    return means.droplevel([*RUN]).reindex(curves.index)


def thresholds_of(totals: pd.DataFrame, shares: Sequence[float] = SHARES_OF_BEST) -> list[float]:
    """Thresholds from the data: shares of the best configuration's final reward, its mean over seeds."""
    best = float(totals.groupby("configuration")["final_reward"].mean().max())
    return [share * best for share in shares]


def rounds_to_threshold(curves: pd.DataFrame, thresholds: Sequence[float], window: int = WINDOW) -> pd.DataFrame:
    """Says how soon each run got there: one row per run and threshold.

    Columns:
        threshold: of the smoothed agent average.
        round: the first in which it is at least that; NaN if never, which is censored: it took more than rounds_run.
        rounds_run: rounds that the run has.
        tokens_per_node, trained_per_node, seconds: what had been spent by the end of that round, NaN if never.
    """
    means, lengths = smoothed(curves, window), curves.groupby(RUN, sort=False).size()
    parts = []
    for threshold in thresholds:
        first = curves[means >= threshold].groupby(RUN, sort=False)[["round", *COSTS]].first()
        parts.append(first.astype("float64").reindex(lengths.index).assign(threshold=threshold, rounds_run=lengths))
    found = pd.concat(parts).reset_index() if parts else pd.DataFrame(columns=RUN)
    return found.reindex(columns=[*RUN, "threshold", "round", "rounds_run", *COSTS])


def oscillation(curves: pd.DataFrame, window: int = WINDOW, steep: float = STEEP) -> pd.DataFrame:
    """Says how steadily each run rose, by its smoothed agent average from the first full window on: one row per run.

    Columns:
        steep_drops: how often it fell, within `window` rounds, by more than `steep` of its highest value in the run. A
            share of the highest, so that the noise of the low start is no drop; rounds in a row are one drop.
        max_drawdown: the most by which it ever lay below what it had reached before, in reward.
        max_drawdown_share: the same as a share of its highest value, 0 where that is 0.
    """
    smooth = curves.assign(smoothed=smoothed(curves, window))
    runs = smooth.groupby(RUN, sort=False)
    first = runs["round"].transform("size").clip(upper=window) - 1
    full = smooth.loc[runs.cumcount() >= first, [*RUN, "smoothed"]].reset_index(drop=True)
    runs = full.groupby(RUN, sort=False)
    lately = runs["smoothed"].rolling(window + 1, min_periods=1).max().droplevel([*RUN]).reindex(full.index)
    falling = lately - full["smoothed"] > steep * runs["smoothed"].transform("max")
    begun = falling & ~falling.groupby([full[name] for name in RUN], sort=False).shift(fill_value=False)
    drawdown = runs["smoothed"].cummax() - full["smoothed"]
    found = full.assign(steep_drops=begun, drawdown=drawdown).groupby(RUN, sort=False)
    table = found.agg(steep_drops=("steep_drops", "sum"), max_drawdown=("drawdown", "max"))
    share = ratio(table["max_drawdown"], found["smoothed"].max()).fillna(0.0)
    return table.assign(max_drawdown_share=share).reset_index()
