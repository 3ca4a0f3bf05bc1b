"""Declares what a report contains, in its order: what was declared before the runs, then what was looked at afterwards.

A section that is added is an entry of CONTENTS: its title, how to read it, and its tables (rows by grouping, measures,
caption) and figures (rows, kind).
"""

from __future__ import annotations

import pandas as pd

from swarm.plugins.study.analysis.by_model import models_table
from swarm.plugins.study.analysis.comparisons import effect_by_start, variance_table
from swarm.plugins.study.analysis.curves import FINAL_ROUNDS, RUN, median_or_later
from swarm.plugins.study.analysis.judged import WINDOW_ROUNDS, exam_means
from swarm.plugins.study.analysis.learned import BEST_CONSTANT, by_source, exam_by_knowledge, starts_and_ends
from swarm.plugins.study.analysis.measures import (
    SHARES_OF_BEST,
    STEEP,
    WINDOW,
    oscillation,
    rounds_to_threshold,
    thresholds_of,
)
from swarm.plugins.study.analysis.planted import MEASURES as PLANTED
from swarm.plugins.study.analysis.planted import PIECE, SHARD, finals
from swarm.plugins.study.analysis.propagation import MEETINGS, SUSTAINED, THRESHOLD, propagation
from swarm.plugins.study.analysis.significance import FEWEST_SEEDS
from swarm.plugins.study.analysis.splits import NEAR, quality_and_split, split_measures
from swarm.plugins.study.analysis.supply import COLUMNS, START_ROUNDS, supply_by_configuration
from swarm.plugins.study.report import notes
from swarm.plugins.study.report.evidence import DIGITS, NONE, Evidence
from swarm.plugins.study.report.figures import agents, bars, curves, marks, mean_over_seeds
from swarm.plugins.study.report.parts import INTERVAL, Figure, Measures, Table, ratio_of, section

CONFIGURATION = ("configuration",)
RUNS: Measures = {"seeds": ("seed", "size")}
SEEDS: Measures = {"seeds": ("seed", "nunique")}
OVER_SEEDS = "Mean over seeds, 95 % interval, moving average over {window} rounds."


def means(*columns: str) -> Measures:
    """Returns the means of these columns, under their own names."""
    return {column: (column, "mean") for column in columns}


def later(*columns: str) -> Measures:
    """Returns the medians of these columns, runs that never got there counted as later than all that did."""
    return {column: (column, median_or_later) for column in columns}


def intervals(*columns: str) -> Measures:
    """Returns the means of these columns, each with its interval over seeds."""
    return {column: (column, INTERVAL) for column in columns}


# ── rows that are more than one of the per-seed tables; none where a study has none of the kind ──────────────────────
def configurations(evidence: Evidence) -> pd.DataFrame:
    """Returns the configurations of a study, with their settings."""
    return pd.DataFrame(
        {
            "configuration": found.name,
            "group": found.group or "–",
            "baseline": found.baseline or "–",
            "settings": notes.listed(found.settings) or "–",
        }
        for found in evidence.record.configurations
    )


def with_full_answers(evidence: Evidence) -> pd.DataFrame:
    """Returns the runs that count, with their shares of full answers in the first and the last FINAL_ROUNDS rounds."""
    runs = evidence.counted_rounds.dropna(subset=["full_answers"]).groupby(RUN, sort=False)["full_answers"]
    first = runs.agg(lambda shares: shares.head(FINAL_ROUNDS).mean()).rename("full_answers_first")
    last = runs.agg(lambda shares: shares.tail(FINAL_ROUNDS).mean()).rename("full_answers_last")
    return evidence.counted.join(first, on=RUN).join(last, on=RUN)


def variance(evidence: Evidence) -> pd.DataFrame:
    """Returns the analysis of variance of each group, to the digits that all processors agree on; an exploratory study
    tests nothing, and has none."""
    return variance_table(evidence.runs, evidence.record).round(DIGITS) if evidence.record.tests else NONE


def by_whose(knowledge: pd.DataFrame) -> pd.DataFrame:
    """Returns the accuracy of specialists above the best constant answer by run and round, others' tables and own."""
    return knowledge.pivot(index=[*RUN, "round"], columns="whose", values="above_constant").reset_index()


def aha_moments(evidence: Evidence) -> pd.DataFrame:
    """Returns crossings and their learners by configuration."""
    if evidence.crossings.empty:
        return NONE
    return propagation(evidence.counted, evidence.crossings, evidence.learners)


def moved(splits: pd.DataFrame) -> pd.DataFrame:
    """Returns how J moved in each run."""
    return split_measures(splits).join(quality_and_split(splits), on=RUN)


def by_start(evidence: Evidence) -> pd.DataFrame:
    """Returns improvements beside the reward that they began with."""
    return effect_by_start(evidence.runs, evidence.record, evidence.compared)


def supply(evidence: Evidence) -> pd.DataFrame:
    """Returns expected and measured informative groups by configuration, of swarms of unlike sizes."""
    rounds = evidence.counted_rounds
    told = {*COLUMNS} <= {*rounds} and bool(rounds[[*COLUMNS]].notna().any().all())
    return supply_by_configuration(rounds, evidence.record) if evidence.record.sizes and told else NONE


# ── the report ──────────────────────────────────────────────────────────────────────────────────────────────────────
CONTENTS = (
    section("In plain words", notes.in_plain_words),
    section("What was run", notes.what_was_run, Table("configurations", "Configurations.", configurations)),
    section(
        "What was declared",
        "These comparisons, their measures and tests were fixed before this study began any run of their "
        "configurations. Results of runs that it took over were known. Tests are two-sided, and the unit is the seed. "
        "welch tests two independent means (Welch), paired the differences at equal seeds (Student), zero one mean "
        "against 0. All are one family: decide by Holm's p (p holm). An improvement is in percent, and its interval "
        "that of the ratio's logarithm.",
        Table(
            "declared",
            "Declared comparisons.",
            "declared",
            shown=(
                *("configuration", "baseline", "measure", "test", "n", "mean", "baseline_mean", "improvement"),
                *("difference", "p", "p_holm", "untested", "hypothesis"),
            ),
        ),
    ),
    section(
        "Looked at afterwards (exploratory)",
        "All that follows was looked at after the runs: it describes these runs, may suggest what to declare for the "
        "next ones, and proves nothing. p-values there, but for Holm's p, are not adjusted for how many there are. "
        "Intervals hold the true value 95 % of the time one by one, not all at once.",
    ),
    section(
        "Learned from others",
        "A specialist knows some tables when it starts (own) and none of the others'. Accuracy is the sum of rewards "
        "over the sum of closed answers, so the format has no part in it. The best constant answer to a table earns "
        f"{BEST_CONSTANT:.3f}. The tables show how far accuracy lies above that: in round 0, before any update "
        f"(start), and in the last {FINAL_ROUNDS} rounds (last).",
        "Who taught: of the groups on a table that a node trained on before it had learned it (as under aha moments), "
        "the share from nodes that knew it at the start, and of groups drawn evenly from all peers (chance).",
        Table(
            "learned",
            "Accuracy above the best constant answer, by whose tables and configuration: means over seeds.",
            ("knowledge", starts_and_ends),
            by=("whose", "configuration"),
            measures={**SEEDS, **intervals("start", "last"), **means("tagged")},
        ),
        Figure(
            "learned_curves",
            f"Accuracy above the best constant answer. {OVER_SEEDS}",
            ("knowledge", by_whose),
            curves({"others": "tables that only others knew", "own": "own tables"}, "accuracy above the constant"),
        ),
        Table(
            "learned_exam",
            "The exam before and after, above the best constant answer.",
            ("exams", exam_by_knowledge),
            by=("whose", "configuration", "rounds_done"),
            measures={**SEEDS, **intervals("above_constant")},
        ),
        Table(
            "taught_by",
            "Who taught, means over runs; every node and table: taught.csv.",
            ("taught", by_source),
            by=CONFIGURATION,
            measures={**means("share", "chance"), "groups": ("groups", "sum"), **SEEDS, **intervals("excess")},
        ),
    ),
    section(
        "Planted words",
        "Some workers publish their right answers with planted words in front (SWARM_PLANTERS). All figures are of the "
        f"other, honest nodes. A piece is {PIECE} successive characters of the words, a shard {SHARD}, anywhere in a "
        "completion. The log-prob per token is what their policies gave to the planters' right answers that they "
        f"trained on. Shares and log-probs are of the last {FINAL_ROUNDS} rounds (final), rewards of all.",
        Table(
            "planted",
            "Honest nodes, by configuration: means over seeds.",
            lambda evidence: finals(evidence.counted, evidence.planted),
            by=CONFIGURATION,
            measures={
                **means(*PLANTED, "pieces_final"),
                "pieces_least": ("pieces_final", "min"),
                "pieces_most": ("pieces_final", "max"),
                **means("shards_final"),
            },
        ),
        Figure(
            "planted_curves",
            f"Honest nodes: share of own completions with a piece of the planted words, and answered. {OVER_SEEDS}",
            "planted",
            curves({"pieces": "with a piece of the planted words", "tagged": "with a closed answer"}),
        ),
    ),
    section(
        "Format and content",
        "A completion without a closed <answer> earns nothing. So the cumulative reward is the product of the format, "
        "which is the sum over nodes and rounds of the share of closed answers, and the content, which is the mean "
        "reward of a closed answer. The first table has the ratio of each to the baseline's, with its unpaired "
        "interval. A factor whose interval holds 1, to two decimals, is not shown to have moved. Tagged is the share "
        f"of closed answers, given tagged the reward of these, in the first and in the last {FINAL_ROUNDS} rounds.",
        Table("factors", "Ratios to the baseline.", "factors"),
        Figure(
            "format_and_content",
            f"Share of completions with a closed answer, and mean reward of these. {OVER_SEEDS}",
            "rounds",
            curves({"tagged": "closed answers", "given_tagged": "reward of these"}),
        ),
        Table(
            "tasks",
            "By task: means over seeds.",
            "tasks",
            by=("task", "configuration"),
            measures=means("tagged_first", "tagged_last", "given_tagged_first", "given_tagged_last"),
        ),
    ),
    section(
        "Cumulative reward",
        "It is the sum over nodes and rounds of a node's mean reward per completion on its own questions, the paper's "
        "measure. Only finished runs count. sd is over seeds (n - 1), and low to high the interval of the mean "
        "(Student). An improvement is by how many percent the mean lies above the baseline's; its interval is of the "
        "ratio's logarithm, with Welch's degrees of freedom. p is that of Welch's two-sided t-test against the "
        "baseline. Where nothing was declared, Holm's p (p holm) is adjusted over the rows; an exploratory study has "
        f"neither. Hedges' g is the difference in pooled standard deviations. Below {FEWEST_SEEDS} seeds on either "
        "side there is neither interval nor test.",
        Table(
            "comparison",
            "Cumulative reward by configuration.",
            "compared",
            shown=(
                *("configuration", "baseline", "n", "mean", "sd", "low", "high", "improvement", "p", "p_holm"),
                *("untested", "hedges_g"),
            ),
        ),
        Table(
            "variance",
            "One-way analysis of variance over the configurations: Fisher's, and Welch's without equal variances.",
            variance,
        ),
        Figure(
            "cumulative_reward",
            "Mean over seeds, 95 % interval, one dot per seed.",
            "compared",
            bars("cumulative_reward", "cumulative reward (sum over nodes and rounds)"),
        ),
        Figure(
            "mean_over_seeds", f"Reward, averaged over the agents of a run. {OVER_SEEDS}", "rounds", mean_over_seeds
        ),
    ),
    section(
        "Reward per agent",
        "One panel per configuration, of its first seed. The range over agents is no interval.",
        Figure(
            "reward_per_agent",
            "Reward per agent, moving average over {window} rounds.",
            "agents",
            agents(each=True),
        ),
        Figure(
            "agent_average",
            "Agent-averaged reward, its moving average over {window} rounds, and the range over agents (min to max).",
            "agents",
            agents(each=False),
        ),
    ),
    section(
        "By model",
        "What one node of a model earns in all rounds: the mean over its nodes in a run, then over the runs, with its "
        "95 % interval by Student's t. The improvement is the share by which that lies above the same model's in the "
        "configuration's baseline.",
        Table(
            "by_model",
            "One node, by model and configuration.",
            lambda evidence: models_table(evidence.models, evidence.record) if len(evidence.models) else NONE,
            by=("model", "configuration"),
        ),
    ),
    section(
        "Rounds to a threshold",
        f"How soon the agent average, as a moving average over {WINDOW} rounds, reached "
        f"{', '.join(f'{share * 100:.0f} %' for share in SHARES_OF_BEST)} of the best configuration's final reward "
        f"(its mean over the last {FINAL_ROUNDS} rounds and the seeds). Medians are over all seeds; one that never got "
        "there counts as later than all that did. Tokens are those of one node up to that round. Seconds are the sum "
        "over rounds of the nodes' mean time for a round, waiting included.",
        Table(
            "rounds_to_threshold",
            "By threshold and configuration: how many seeds reached it, the median round, the first and the last.",
            lambda evidence: rounds_to_threshold(evidence.counted_rounds, thresholds_of(evidence.counted)),
            by=("threshold", "configuration"),
            measures={
                **RUNS,
                "reached": ("round", "count"),
                **later("round"),
                "first": ("round", "min"),
                "last": ("round", "max"),
                **later("tokens_per_node", "trained_per_node", "seconds"),
            },
        ),
    ),
    section(
        "Oscillation",
        f"Measured on the agent average as a moving average over {WINDOW} rounds. A drop is steep if it takes more "
        f"than {STEEP * 100:.0f} % of the run's highest value within {WINDOW} rounds. The drawdown is the most by "
        "which a run ever lay below what it had reached before, in reward and as a share of the highest.",
        Table(
            "oscillation",
            "Means over seeds, and the worst run.",
            lambda evidence: oscillation(evidence.counted_rounds),
            by=CONFIGURATION,
            measures={
                **RUNS,
                **means("steep_drops"),
                "most_steep_drops": ("steep_drops", "max"),
                **means("max_drawdown", "max_drawdown_share"),
                "worst_drawdown_share": ("max_drawdown_share", "max"),
            },
        ),
    ),
    section(
        "Final reward and whole answers",
        f"Final reward is the mean over the last {FINAL_ROUNDS} rounds, starting reward that of round 0, before any "
        "update. Full answers are completions on own questions with the full reward: some tasks pay a little for a "
        f"wrong answer. They are of the first and the last {FINAL_ROUNDS} rounds.",
        Table(
            "final_reward",
            "Means and sd over seeds.",
            with_full_answers,
            by=CONFIGURATION,
            measures={
                **RUNS,
                **means("starting_reward", "final_reward"),
                "final_sd": ("final_reward", "std"),
                **means("full_answers_first", "full_answers_last"),
            },
        ),
    ),
    section(
        "What it cost",
        "Means over the runs that count. Seconds are the wall-clock of one swarm, as if it had the machine to itself. "
        "Tokens and bytes are those of all nodes of a run together. Bytes are what the nodes wrote for each other and "
        "read of each other: rollout files, and weights where they average.",
        Table(
            "price",
            "One run, and a unit of its reward.",
            "counted",
            by=CONFIGURATION,
            measures={
                "reward": ("cumulative_reward", "mean"),
                **means("wall_seconds", "tokens_generated", "tokens_trained", "bytes_published", "bytes_fetched"),
            },
            derived={
                "bytes_moved": lambda found: found["bytes_published"] + found["bytes_fetched"],
                "bytes_per_reward": ratio_of("bytes_moved", "reward"),
                "generated_per_reward": ratio_of("tokens_generated", "reward"),
                "trained_per_reward": ratio_of("tokens_trained", "reward"),
            },
        ),
    ),
    section(
        "Aha moments",
        f"A node has learned a task when its mean reward over {MEETINGS} meetings with it reaches {THRESHOLD} and "
        f"stays there for {SUSTAINED} more. Its lag is the rounds since the first node of the run did. Of those that "
        "came later (learners): the share of external groups, until then, from nodes that had learned the task "
        "before, and of groups drawn evenly from all peers (chance). Means over the learners of a run, then over the "
        "runs. A share above chance (excess) is no proof of learning from each other: a peer that can do a task "
        "publishes more groups with an advantage, and only those are sampled.",
        Table("aha_moments", "By configuration; each of them: crossings.csv and learners.csv.", aha_moments),
    ),
    section(
        "How the split moved",
        "I + J is constant; J is what the rule asked for. Thirds are those of a run's rounds, by J before it was "
        "rounded, mean over the nodes. Changes is the share of rounds with another rounded J than before. J has "
        f"settled in the first round from which on it stays within {NEAR:g} groups of its mean over the last "
        f"{FINAL_ROUNDS} rounds: the median over seeds, nothing where half of them had not. Swarm quality is the share "
        "of the peers' groups with an advantage. Quality J is its correlation with J over a run's rounds (Pearson). "
        "Two that only rise together correlate, too. So beside it stands the correlation of their changes from round "
        "to round.",
        Table(
            "split",
            "I and J over all rounds, nodes and seeds.",
            lambda evidence: evidence.runs.dropna(subset=["mean_adaptive_J"]),
            by=CONFIGURATION,
            measures={
                "adaptive_I_mean": ("mean_adaptive_I", "mean"),
                "adaptive_J_mean": ("mean_adaptive_J", "mean"),
                "adaptive_J_min": ("least_adaptive_J", "min"),
                "adaptive_J_max": ("most_adaptive_J", "max"),
            },
        ),
        Table(
            "split_phases",
            "J by third of the run, and how restless it was: means over seeds.",
            ("splits", moved),
            by=CONFIGURATION,
            measures={
                **means("J_first", "J_middle", "J_last", "changes"),
                **later("settled"),
                **means("quality_J", "quality_J_changes"),
            },
        ),
        Figure("split_trajectory", f"J, mean over the nodes. {OVER_SEEDS}", "splits", curves({"J": ""}, "J")),
        Figure(
            "split_signals",
            f"What the rules see: shares of groups with an advantage. {OVER_SEEDS}",
            "splits",
            curves({"own_informative": "own groups", "swarm_quality": "peers' groups"}),
        ),
    ),
    section(
        "Held-out questions",
        "Each round a judge asked every node questions that are in no node's training, answered alone and once. pass@1 "
        f"is the share of them with the full reward, over the nodes and {WINDOW_ROUNDS} rounds. Answered: those with a "
        "closed <answer>; given answered: pass@1 of these alone. Intervals are pointwise.",
        Figure(
            "held_out",
            f"Held-out pass@1 by window of {WINDOW_ROUNDS} rounds: mean over seeds, 95 % interval.",
            "held_out",
            curves({"pass_at_1": ""}, "held-out pass@1", window=1),
        ),
        Table(
            "held_out",
            "By window, means over seeds; each run: held_out_by_window.csv.",
            "held_out",
            by=("configuration", "round"),
            measures={**SEEDS, **intervals("pass_at_1"), **means("answered", "given_answered", "reward")},
        ),
    ),
    section(
        "Exam before and after",
        "One fixed set of held-out questions, the same for every node and moment; 0 rounds is before training. pass@1 "
        "is the share of questions with the full reward. Answered: of completions, those with a closed <answer>; "
        "given answered: pass@1 of these alone. pass@k, where all of the exam tells it, is the share of questions of "
        "which k completions hold one with the full reward. What only sharpens a model raises pass@1 and not pass@k "
        "for large k; what teaches it raises both.",
        Table(
            "exam",
            "Over all nodes and tasks, by rounds trained; each node and task: exam_by_task.csv.",
            ("exams", exam_means),
            by=("configuration", "rounds_done"),
        ),
    ),
    section(
        "Effect against the starting reward",
        "A group of rollouts teaches only if some of its completions earn more than others. So the effect of sharing "
        "may depend on how often the models succeeded at the start. The starting reward is the mean of round 0, before "
        "any update, over all finished runs of a group of configurations.",
        Table("effect_by_start", "Improvement over the baseline in percent, by starting reward.", by_start),
        Figure(
            "effect_against_start",
            "Improvement over the baseline with its 95 % interval, against the group's starting reward.",
            by_start,
            marks("starting_reward", "improvement", "starting reward (round 0)", "improvement, percent"),
        ),
    ),
    section(
        "Informative groups and the size of the swarm",
        "A node learns from groups whose rewards differ. Let q be the share of such groups among fresh questions. A "
        "node of a swarm of N trains on I q own groups and on E[min(J, X)] of its peers', X ~ Binomial((N - 1) I, q). "
        f"The share in the table is q of the first {START_ROUNDS} rounds of all runs of a group. If what a larger "
        "swarm gives is more such groups and nothing else, rewards of all sizes lie on one curve over the expected "
        "number.",
        Table(
            "informative_groups",
            "Informative groups per node and round: expected at the q of the start, and at each round's own, measured.",
            supply,
        ),
        Figure(
            "reward_against_informative",
            "Mean reward per node and round against the informative groups that are expected at the q of the start. "
            "One mark per configuration, mean over seeds.",
            supply,
            marks("expected_start", "reward", "informative groups per node and round", "mean reward"),
        ),
    ),
    section(
        "Runs, settings and versions",
        "A round counts as done when a node of the run has a row of metrics for it. Rows missing, such as of a killed "
        "node, lower the run's sum; rows beyond, of more nodes than were planned, raise it. Each run is an ordinary "
        "experiment of the shared folder. One that another study had finished with the same settings is shared with "
        "it.",
        notes.of_versions,
        Table(
            "runs",
            "Runs: rounds done and planned.",
            "runs",
            shown=(
                *("configuration", "seed", "experiment", "rounds", "planned", "rows_missing", "rows_beyond"),
                *("cumulative_reward", "state"),
            ),
        ),
    ),
)
