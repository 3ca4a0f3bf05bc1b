"""Declares every section of a report, in its order: what was declared comes before what was looked at afterwards.

A section that is added is an entry of SECTIONS: its title, how to read it, and its tables (measures by grouping, with
their intervals or tests) and figures (by kind). swarm.plugins.study.report.parts.show makes it of a study's evidence.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from swarm.plugins.study.analysis.by_model import models_table
from swarm.plugins.study.analysis.comparisons import judged_table
from swarm.plugins.study.analysis.curves import FINAL_ROUNDS, median_or_later
from swarm.plugins.study.analysis.judged import PASS_AT, WINDOW_ROUNDS, exam_means, given_answered, told_pass_at
from swarm.plugins.study.analysis.learned import BEST_CONSTANT, over_seeds
from swarm.plugins.study.analysis.measures import SHARES_OF_BEST, STEEP, WINDOW, oscillation
from swarm.plugins.study.analysis.planted import PIECE, SHARD
from swarm.plugins.study.analysis.propagation import MEETINGS, SUSTAINED, THRESHOLD, propagation
from swarm.plugins.study.analysis.significance import FEWEST_SEEDS
from swarm.plugins.study.analysis.splits import phases
from swarm.plugins.study.analysis.supply import COLUMNS, START_ROUNDS
from swarm.plugins.study.report import figures, notes, paper, tables
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.parts import (
    CONFIGURATION,
    SEED,
    Column,
    Picture,
    Table,
    counts,
    decimals,
    differences,
    estimate,
    measure,
    number,
    p_value,
    section,
    shares,
    signed,
    signed_percent,
    table,
    times,
    words,
)

BY_CONFIGURATION = ("configuration",)
RUN = (CONFIGURATION, SEED)
MOMENT = (*RUN, *words("task", node_id="node"), *counts("round", "lag"))
P = Column("p", "p", p_value, instead="untested")
HOLM = Column("Holm's p", "p_holm", p_value, instead="untested")
HEDGES = Column("Hedges' g", "hedges_g", number(2))
SEEDS = measure(counts("seeds"), "seed", "size")
GAIN = estimate("improvement, %", "improvement", signed(1))
AGAINST = words(baseline="against")
ANSWERED = shares(pass_at_1="pass@1", answered="answered", given_answered="given answered")
EXAMINED = (*counts(n="questions"), *ANSWERED, *decimals(3, "mean_reward"))
WHOSE = words(whose="tables")
_BY_MOMENT = ("configuration", "rounds_done")


def has(field: str) -> Callable[[Evidence], bool]:
    """Tells whether a table of the evidence has rows."""
    return lambda evidence: len(getattr(evidence, field)) > 0


def sizes_differ(evidence: Evidence) -> bool:
    """Tells whether swarms are of unlike sizes, and the rows tell their informative groups."""
    rounds = evidence.counted_rounds
    return bool(evidence.record.sizes and {*COLUMNS} <= {*rounds} and rounds[[*COLUMNS]].notna().any().all())


SECTIONS = (
    section("In plain words", notes.in_plain_words),
    section(
        "What was run",
        notes.what_was_run,
        table(
            "configurations",
            "Configurations.",
            tables.configurations,
            CONFIGURATION,
            *words("group", baseline="compared with", settings="settings"),
        ),
    ),
    section(
        "What was declared",
        notes.how_declared,
        table(
            "declared",
            "Declared comparisons.",
            "declared",
            CONFIGURATION,
            AGAINST,
            words("measure", show=lambda name: name.replace("_", " ")),
            words("test"),
            counts("n"),
            decimals(3, "mean", baseline_mean="against"),
            GAIN,
            P,
            HOLM,
            words("hypothesis"),
        ),
        when=has("declared"),
        otherwise=notes.nothing_declared,
    ),
    section("Looked at afterwards (exploratory)", notes.how_to_read_the_rest),
    section(
        "Learned from others",
        "A specialist knows some tables when it starts (own) and none of the others'. Accuracy is the sum of rewards "
        "over the sum of closed answers, so the format has no part in it. The best constant answer to a table earns "
        f"{BEST_CONSTANT:.3f}; the table shows how far accuracy lies above that. At the start: round 0, before any "
        f"update. At the end: the last {FINAL_ROUNDS} rounds. Intervals are Student's, over seeds.",
        "Who taught: of the groups on a table that a node trained on before it had learned it (as under aha moments), "
        "the share from nodes that knew it at the start, beside that of groups drawn evenly from all peers.",
        table(
            "learned",
            "By configuration, means over seeds.",
            lambda evidence: over_seeds(tables.learned_by_seed(evidence)),
            WHOSE,
            CONFIGURATION,
            counts("seeds"),
            estimate("at the start", "start", signed(3)),
            estimate("at the end", "last", signed(3)),
            shares("tagged"),
            by=("whose", "configuration"),
        ),
        Picture(
            "learned_curves",
            "Accuracy above the best constant answer, on tables of others (left) and own ones (right).",
            figures.learned_curves,
        ),
        table(
            "learned_exam",
            "The exam before and after, above the best constant answer: by configuration and rounds trained.",
            tables.learned_exam,
            WHOSE,
            CONFIGURATION,
            counts(rounds_done="rounds trained"),
            counts("seeds"),
            estimate("above the constant", "above_constant", signed(3)),
            by=("whose", "configuration", "rounds_done"),
        ),
        table(
            "taught_by",
            "Who taught, by configuration, means over runs.",
            tables.who_taught,
            CONFIGURATION,
            counts(seeds="runs", groups="groups"),
            shares(share="from nodes that knew", chance="by chance"),
            estimate("above chance", "excess", signed_percent),
            by=BY_CONFIGURATION,
        ),
        table(
            "taught",
            "By node and table.",
            "taught",
            RUN,
            words(node_id="node", task="task"),
            counts(learned="learned in round", groups="groups before", from_knowing="from nodes that knew"),
            shares("share", chance="by chance"),
        ),
        table(
            "learned_by_seed",
            "By run.",
            tables.learned_by_seed,
            WHOSE,
            RUN,
            differences(3, start="at the start", first="first ten rounds", last="at the end"),
            shares("tagged"),
        ),
        when=has("knowledge"),
    ),
    section(
        "Planted words",
        "Some workers publish their right answers with planted words in front (SWARM_PLANTERS). All figures are of the "
        f"other, honest nodes. A piece is {PIECE} successive characters of the words, a shard {SHARD}, anywhere in a "
        "completion. The log-prob per token is what their policies gave to the planters' right answers that they "
        f"trained on. Shares and log-probs are of the last {FINAL_ROUNDS} rounds, rewards of all.",
        table(
            "planted",
            "Honest nodes, by configuration.",
            tables.planted,
            CONFIGURATION,
            shares(
                planted_final="begin with the words",
                pieces_final="hold a piece of them",
                pieces_least="least",
                pieces_most="most",
                shards_final="hold a shard",
            ),
            decimals(2, planters_logprob="log-prob of planters' texts"),
            shares(honest_tagged_final="closed answers"),
            decimals(3, honest_given_tagged="reward of a closed answer"),
            decimals(2, honest_reward="cumulative reward of an honest node"),
            by=BY_CONFIGURATION,
        ),
        Picture(
            "planted_curves",
            "Honest nodes: share of own completions with a piece of the planted words, and with a closed answer. "
            "Mean over seeds, 95 % interval.",
            figures.over_rounds(
                "planted", {"pieces": "with a piece of the planted words", "tagged": "with a closed answer"}
            ),
            when=has("planted"),
        ),
        when=lambda evidence: len(tables.planted(evidence)) > 0,
    ),
    section(
        "Format and content",
        "A completion without a closed <answer> earns nothing. So the cumulative reward is the product of the format, "
        "which is the sum over nodes and rounds of the share of closed answers, and the content, which is the mean "
        "reward of a closed answer. The table has the ratio of each to the baseline's, with its unpaired interval. A "
        "factor whose interval holds 1, to two decimals, is not shown to have moved.",
        notes.what_moved,
        table(
            "factors",
            "Against the baseline.",
            "factors",
            CONFIGURATION,
            AGAINST,
            estimate("reward", "reward", times, number(2)),
            estimate("format", "format", times, number(2)),
            estimate("content", "content", times, number(2)),
        ),
        Picture(
            "format_and_content",
            "Share of completions with a closed answer, and mean reward of these. Mean over seeds, 95 % interval, "
            "moving average over {window} rounds.",
            figures.over_rounds("rounds", {"tagged": "closed answers", "given_tagged": "reward of these"}),
        ),
    ),
    section(
        "Format and content by task",
        "Share of completions with a closed answer, and mean reward of these, in the first and in the last "
        f"{FINAL_ROUNDS} rounds. Means over seeds.",
        table(
            "tasks",
            "By task and configuration.",
            "tasks",
            words("task"),
            CONFIGURATION,
            shares(tagged_first="closed answers, first rounds", tagged_last="last rounds", of="mean"),
            decimals(3, given_tagged_first="reward of these, first rounds", given_tagged_last="last rounds", of="mean"),
            by=("task", "configuration"),
        ),
        when=has("tasks"),
    ),
    section(
        "Cumulative reward",
        notes.how_compared,
        notes.of_sizes,
        notes.of_budgets,
        notes.of_variance,
        table(
            "comparison",
            "Cumulative reward by configuration.",
            "compared",
            CONFIGURATION,
            counts("n"),
            decimals(2, "mean", "sd"),
            Column("95 % interval", "low", number(2), to="high"),
            GAIN,
            P,
            HOLM,
            HEDGES,
            left_out=lambda evidence: (
                {"p_holm"} if evidence.record.declared else set() if evidence.record.tests else {"p", "p_holm"}
            ),
        ),
        Picture(
            "cumulative_reward",
            "Mean over seeds, 95 % interval, one dot per seed. The paper's sums stand as diamonds beside sums over as "
            "many nodes and rounds alone.",
            figures.cumulative_bars,
        ),
        when=has("compared"),
        otherwise="No run is finished yet, so there is nothing to compare.",
    ),
    section(
        "Against the paper's +94 %",
        notes.beside_the_paper,
        when=lambda evidence: bool(paper.against_paper(evidence.compared, evidence.record)),
    ),
    section(
        "Agent-averaged reward",
        "Mean over the agents of a run, as a moving average over the last {window} rounds, and then over the seeds. "
        f"The band is the 95 % interval of that mean by Student's t, from {FEWEST_SEEDS} seeds on. It is pointwise: "
        "whether two configurations differ is said by the tables.",
        Picture(
            "mean_over_seeds",
            "Agent-averaged reward, mean over seeds, with its 95 % interval.",
            figures.mean_over_seeds,
        ),
    ),
    section(
        "Reward per agent",
        "One panel per configuration, both scales shared. First one line per agent, as a moving average over the last "
        "{window} rounds. Then the mean over the agents (thin), its moving average (thick), and the range over agents "
        "(min to max), which is no interval.",
        Picture(
            "reward_per_agent",
            "Reward per agent in the first seed of each configuration that has rows; the title names the seed.",
            figures.reward_per_agent,
        ),
        Picture(
            "agent_average",
            "Agent-averaged reward in the first seed of each configuration, with the range over agents (min to "
            "max), not an interval.",
            figures.average_and_range,
        ),
        when=lambda evidence: evidence.metrics is not None,
    ),
    section(
        "By model",
        "What one node of a model earns in all rounds: the mean over its nodes in a run, then over the runs, with its "
        "95 % interval by Student's t, beside the same model in the configuration's baseline.",
        table(
            "by_model",
            "One node, by model and configuration.",
            lambda evidence: models_table(evidence.models, evidence.record),
            words("model"),
            CONFIGURATION,
            counts("runs"),
            decimals(1, nodes="nodes of it"),
            estimate("cumulative reward of one", "node_reward", number(2)),
            AGAINST,
            Column("improvement", "improvement", signed_percent),
            by=("model", "configuration"),
        ),
        when=has("models"),
    ),
    section(
        "Rounds to a threshold",
        f"How soon the agent average, as a moving average over {WINDOW} rounds, reached "
        f"{', '.join(f'{share * 100:.0f} %' for share in SHARES_OF_BEST)} of the best configuration's final reward "
        f"(its mean over the last {FINAL_ROUNDS} rounds and the seeds). Medians are over all seeds; one that "
        "never got there counts as later than all that did.",
        table(
            "rounds_to_threshold",
            "By threshold and configuration.",
            tables.thresholds,
            decimals(3, threshold="reward"),
            CONFIGURATION,
            SEEDS,
            measure(counts(reached="reached it"), "round", "count"),
            decimals(0, round="median round", of=median_or_later),
            measure(decimals(0, "first"), "round", "min"),
            measure(decimals(0, "last"), "round", "max"),
            counts(
                tokens_per_node="generated tokens per node",
                trained_per_node="trained tokens per node",
                seconds="seconds",
                of=median_or_later,
            ),
            by=("threshold", "configuration"),
        ),
    ),
    section(
        "Oscillation",
        f"Measured on the agent average as a moving average over {WINDOW} rounds. A drop is steep if it takes more "
        f"than {STEEP * 100:.0f} % of the run's highest value within {WINDOW} rounds. The drawdown is the most by "
        "which a run ever lay below what it had reached before. Means and worst over seeds.",
        table(
            "oscillation",
            "By configuration.",
            lambda evidence: oscillation(evidence.counted_rounds),
            CONFIGURATION,
            SEEDS,
            decimals(1, "steep_drops", of="mean"),
            measure(counts(most_steep_drops="most in a run"), "steep_drops", "max"),
            decimals(3, "max_drawdown", of="mean"),
            shares(max_drawdown_share="of the highest", of="mean"),
            measure(shares(worst_drawdown_share="worst run"), "max_drawdown_share", "max"),
            by=BY_CONFIGURATION,
        ),
    ),
    section(
        "Final reward and whole answers",
        f"Final reward is the mean over the last {FINAL_ROUNDS} rounds, starting reward that of round 0, before any "
        "update. Full answers are completions on own questions with the full reward: some tasks pay a little for a "
        f"wrong answer. They are of the first and the last {FINAL_ROUNDS} rounds. Means and sd over seeds.",
        table(
            "final_reward",
            "By configuration.",
            "counted",
            CONFIGURATION,
            SEEDS,
            decimals(3, "starting_reward", "final_reward", of="mean"),
            measure(decimals(3, final_sd="sd"), "final_reward", "std"),
            shares(full_answers_first="full answers, first rounds", full_answers_last="full answers, last rounds"),
            by=BY_CONFIGURATION,
            then=tables.full_answers,
        ),
    ),
    section(
        "Reward against tokens and time",
        "A round of 4/4 generates half of what a round of 8/0 does. So the same rewards are drawn over the tokens that "
        "a node had generated by then, and over wall-clock: the sum over rounds of the nodes' mean time for a round, "
        "waiting included. Means over the seeds at each round that all of them have reached.",
        Picture(
            "reward_against_tokens",
            "Reward (moving average over {window} rounds) against generated tokens.",
            figures.against("tokens_per_node", "thousand tokens generated per node", 1000.0),
        ),
        Picture(
            "reward_against_time",
            "Reward (moving average over {window} rounds) against wall-clock.",
            figures.against("seconds", "minutes since the first round began", 60.0),
        ),
    ),
    section(
        "Hours and tokens",
        "Means over the runs that count. Hours are the wall-clock of one swarm, as if it had the machine to itself. Of "
        "two that ran side by side, each is counted in full. Tokens are those of all nodes of a run together.",
        table(
            "effort",
            "Of one run, by configuration.",
            "counted",
            CONFIGURATION,
            SEEDS,
            counts("rounds", of="mean"),
            decimals(2, "hours"),
            measure(counts("seconds"), "wall_seconds", "mean"),
            counts("tokens_generated", tokens_trained="tokens trained on", of="mean"),
            decimals(2, "cumulative_reward", of="mean"),
            by=BY_CONFIGURATION,
            then=lambda found, _: found.assign(hours=found["seconds"] / 3600),
        ),
    ),
    section(
        "What a unit of reward costs",
        "Means over the runs that count, all nodes of a run together; seconds are the wall-clock of a swarm. Bytes are "
        "what the nodes wrote for each other and read of each other: rollout files, and weights where they average.",
        notes.of_sizes,
        table(
            "price",
            "Of one run, by configuration.",
            "counted",
            CONFIGURATION,
            measure(decimals(2, reward="cumulative reward"), "cumulative_reward", "mean"),
            counts(
                wall_seconds="seconds",
                tokens_generated="tokens generated",
                tokens_trained="tokens trained on",
                of="mean",
            ),
            counts(bytes_published="bytes written", bytes_fetched="bytes read", of="mean"),
            counts(bytes_per_reward="bytes per unit of reward", generated_per_reward="tokens generated per unit"),
            counts(trained_per_reward="tokens trained on per unit"),
            by=BY_CONFIGURATION,
            then=tables.per_unit,
        ),
    ),
    section(
        "Bytes and tokens",
        "Means over the nodes and rounds of a run, and of these over the seeds. Where there are fewer external groups "
        "than wanted, the pool held no more with an advantage.",
        table(
            "traffic",
            "Per node and round.",
            tables.spent_per_row,
            CONFIGURATION,
            counts(bytes_published="published, bytes", bytes_fetched="fetched, bytes", of="mean"),
            decimals(1, "tokens_generated", tokens_trained="tokens trained on", of="mean"),
            decimals(2, "external_wanted", "external_groups", seconds_round="seconds", of="mean"),
            by=BY_CONFIGURATION,
        ),
        table(
            "rollout_files",
            "Files of rollouts in a round, where they lie there still; all rounds: rollout_files_by_round.csv.",
            "rollout_files",
            CONFIGURATION,
            measure(counts("rounds"), "round", "size"),
            decimals(1, files="files in a round", of="mean"),
            measure(counts("least"), "files", "min"),
            measure(counts("most"), "files", "max"),
            decimals(1, nodes="nodes that published", of="mean"),
            measure(decimals(1, kilobytes="kB in a round"), "bytes", "mean"),
            by=BY_CONFIGURATION,
            then=lambda found, _: found.assign(kilobytes=found["kilobytes"] / 1000),
        ),
    ),
    section(
        "Aha moments",
        f"A node has learned a task when its mean reward over {MEETINGS} meetings with it reaches {THRESHOLD} and "
        f"stays there for {SUSTAINED} more. Its lag is the rounds since the first node of the same run did. Of the "
        "nodes that came later: the share of their external groups, up to then, from nodes that had learned the task "
        "before, and by chance, that of groups drawn evenly from all peers. Means over the learners of a run, and of "
        "these over the runs.",
        "A share above chance is no proof of learning from each other: a peer that can do a task publishes more groups "
        "with an advantage, and only those are sampled.",
        table(
            "aha_moments",
            "By configuration.",
            lambda evidence: propagation(evidence.counted, evidence.crossings, evidence.learners),
            CONFIGURATION,
            counts("crossings", "possible"),
            decimals(1, median_lag="median lag, rounds"),
            counts(learners="learners with groups", runs="runs with such"),
            shares(share="groups from earlier nodes", chance="by chance"),
            estimate("above chance", "excess", signed_percent),
        ),
        Picture("aha_rounds", notes.of_crossings, figures.crossing_rounds),
        table(
            "crossings",
            "Every crossing.",
            "crossings",
            MOMENT,
            words(show=lambda flag: "yes" if flag else "no", from_start="knew it from the start"),
        ),
        table(
            "learners",
            "Those that learned after another node: whose groups they had trained on.",
            "learners",
            MOMENT,
            counts(earlier="earlier nodes", groups="groups before", from_earlier="from earlier nodes"),
            shares("share", "chance"),
        ),
        when=has("crossings"),
        otherwise=f"No node has learned a task, to a mean reward of {THRESHOLD} over {MEETINGS} meetings, in any run.",
    ),
    section(
        "How the split moved",
        "I + J is constant; J is what the rule asked for in a round.",
        notes.how_the_split_is_drawn,
        notes.how_it_moved,
        Picture(
            "split_trajectory",
            "J over the rounds.",
            figures.split_trajectory,
            when=lambda evidence: evidence.metrics is not None,
        ),
        table(
            "split",
            "I and J over all rounds, nodes and seeds.",
            tables.adaptive_runs,
            CONFIGURATION,
            measure(decimals(2, adaptive_I_mean="mean I"), "mean_adaptive_I", "mean"),
            measure(decimals(2, adaptive_J_mean="mean J"), "mean_adaptive_J", "mean"),
            measure(counts(adaptive_J_min="least J"), "least_adaptive_J", "min"),
            measure(counts(adaptive_J_max="largest J"), "most_adaptive_J", "max"),
            by=BY_CONFIGURATION,
        ),
        table(
            "split_phases",
            "J by third of the run, and how restless it was.",
            lambda evidence: phases(evidence.splits) if len(evidence.splits) else evidence.splits,
            CONFIGURATION,
            decimals(2, J_first="J, first third", J_middle="J, middle third", J_last="J, last third"),
            shares(changes="rounds with a change"),
            decimals(0, settled="settled in round"),
            decimals(2, quality_J="quality and J", quality_J_changes="their changes"),
            by=BY_CONFIGURATION,
        ),
        Picture(
            "split_signals",
            "What the rules see: mean over seeds, 95 % interval, moving average over {window} rounds.",
            figures.over_rounds(
                "splits",
                {"own_informative": "own groups with an advantage", "swarm_quality": "peers' groups with an advantage"},
            ),
            when=has("splits"),
        ),
        when=lambda evidence: len(tables.adaptive_runs(evidence)) > 0,
    ),
    section(
        "Held-out questions",
        "Each round a judge asked every node questions that are in no node's training, answered alone and once. "
        f"pass@1 is the share of them with the full reward, over the nodes and {WINDOW_ROUNDS} rounds. The line is the "
        f"mean over seeds, the band its 95 % interval from {FEWEST_SEEDS} seeds on.",
        "p is that of Welch's test between the seeds of a configuration and of its baseline, window by window. It is "
        "not adjusted: one of twenty windows falls below 0.05 by chance alone.",
        Picture("held_out", f"Held-out pass@1 by window of {WINDOW_ROUNDS} rounds.", figures.held_out),
        table(
            "held_out_comparison",
            "Against the baseline, by window.",
            lambda evidence: judged_table(evidence.held_out, evidence.record),
            CONFIGURATION,
            words("baseline"),
            counts(round="from round"),
            counts("n", n_baseline="n, baseline"),
            shares(mean="pass@1", baseline_mean="baseline's"),
            decimals(2, "t"),
            decimals(1, "df"),
            P,
            HEDGES,
        ),
        table(
            "held_out_by_window",
            "By run and window.",
            "held_out",
            RUN,
            counts(round="from round", questions="questions"),
            ANSWERED,
            decimals(3, reward="mean reward"),
        ),
        when=has("held_out"),
    ),
    section(
        "Exam before and after",
        "One fixed set of held-out questions, the same for every node and every moment. pass@1 is the share of "
        "questions with the full reward; 0 rounds is before training. Answered: of completions, those with a closed "
        "<answer>; given answered: pass@1 of these alone.",
        table(
            "exam",
            "Over all nodes and tasks, by configuration and rounds trained.",
            lambda evidence: exam_means(evidence.exams),
            CONFIGURATION,
            *counts(rounds_done="rounds trained", nodes="nodes"),
            *EXAMINED,
            by=_BY_MOMENT,
        ),
        table(
            "exam_by_task",
            "By node and task.",
            lambda evidence: evidence.exams.assign(given_answered=given_answered(evidence.exams)),
            RUN,
            words(node_id="node", model="model"),
            counts(rounds_done="rounds trained"),
            words("task"),
            EXAMINED,
        ),
        when=has("exams"),
    ),
    section(
        "Exam: pass@k",
        "The share of questions of which k completions hold one with the full reward, estimated from all its "
        "completions. What only sharpens a model raises pass@1 and not pass@k for large k; what teaches it raises "
        "both.",
        table(
            "exam_pass_at_k",
            "Over all nodes and tasks, by configuration and rounds trained.",
            lambda evidence: exam_means(evidence.exams).reindex(columns=[*_BY_MOMENT, "pass_at_1", *PASS_AT]),
            CONFIGURATION,
            *counts(rounds_done="rounds trained"),
            *shares(pass_at_1="pass@1", **{name: name.replace("pass_at_", "pass@") for name in PASS_AT}),
            by=_BY_MOMENT,
        ),
        when=lambda evidence: bool(told_pass_at(evidence.exams)),
    ),
    section(
        "Effect against the starting reward",
        "A group of rollouts teaches only if some of its completions earn more than others. So the effect of sharing "
        "may depend on how often the models succeeded at the start. The starting reward is the mean of round 0, before "
        "any update, over all finished runs of a group of configurations.",
        table(
            "effect_by_start",
            "Improvement over the baseline, by starting reward.",
            "by_start",
            words("group"),
            CONFIGURATION,
            words("baseline"),
            counts("n"),
            decimals(4, "starting_reward"),
            GAIN,
            HEDGES,
        ),
        Picture(
            "effect_against_start",
            "Improvement over the baseline with its 95 % interval, against the group's starting reward. Marks "
            "of one group are set a little apart.",
            figures.effect_against_start,
        ),
        when=lambda evidence: bool(evidence.compared["difference"].notna().any()),
        otherwise="No configuration has a finished baseline yet.",
    ),
    section(
        "Informative groups and the size of the swarm",
        "A node learns from groups whose rewards differ. Let q be the share of such groups among fresh questions. A "
        "node of a swarm of N trains on I q own groups and on E[min(J, X)] of its peers', X ~ Binomial((N - 1) I, q). "
        f"q at the start is that of the first {START_ROUNDS} rounds of all runs of a group. If what a larger swarm "
        "gives is more such groups and nothing else, rewards of all sizes lie on one curve over the expected number.",
        table(
            "informative_groups",
            "Per node and round.",
            tables.supply,
            CONFIGURATION,
            counts("nodes", local="I", external="J"),
            decimals(4, share="q at the start"),
            decimals(3, expected_start="expected at the start", expected="expected, by round", measured="measured"),
            decimals(4, reward="mean reward"),
        ),
        Picture(
            "expected_informative",
            "Informative groups per node and round against the number of nodes, for each split. Line: expected "
            "at the q of the start. Circles: expected at each round's own q. Crosses: measured.",
            figures.groups_against_size,
        ),
        Picture(
            "reward_against_informative",
            "Mean reward per node and round against the informative groups that are expected at the q of the "
            "start. One mark per configuration, mean over seeds; the line joins the configurations.",
            figures.reward_against_groups,
        ),
        when=sizes_differ,
    ),
    section(
        "Runs, settings and versions",
        "A round counts as done when a node of the run has a row of metrics for it. Rows missing, such as of a killed "
        "node, lower the run's sum; rows beyond, of more nodes than were planned, raise it. Each run is an "
        "ordinary experiment of the shared folder. One that another study had finished with the same settings is "
        "shared with it.",
        notes.of_versions,
        table(
            "settings",
            "Settings that all runs share.",
            lambda evidence: tables.pairs(evidence.record.settings),
            words("name", "name"),
            words("value", "value"),
        ),
        table(
            "versions",
            "Versions that the study was begun with.",
            lambda evidence: tables.pairs(evidence.record.versions),
            words("name", "name"),
            words("value", "value"),
        ),
        table(
            "runs",
            "Runs.",
            "runs",
            RUN,
            words("experiment"),
            counts(rounds="rounds done", planned="of", rows_missing="rows missing", rows_beyond="rows beyond"),
            words("state"),
        ),
    ),
)


def frames(evidence: Evidence) -> dict[str, pd.DataFrame]:
    """Returns every table that the evidence allows, by its name; some without rows."""
    parts = (part for one in SECTIONS if one.when(evidence) for part in one.parts)
    return {part.name: part.frame(evidence) for part in parts if isinstance(part, Table)}
