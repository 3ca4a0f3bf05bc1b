"""Measures what specialists learned from each other: accuracy on tables that a node knew at its start, and on those it
did not.

    metrics of runs of the task family `facts`
        ├─ by_knowledge ─▶ one row per run, round and `whose`: accuracy given tagged above the best constant answer
        │                      └─ learned_from_others ─▶ one value per run
        └─ taught ───────▶ one row per run, node and task that it did not know: whose groups it trained on until it did

The name of the model that a node started from says what it knew (known_to_model of swarm.plugins.lab.facts.tables). Of
other models and other tasks no row is kept, so that runs without a specialist have none; without the lab, all are such.
A completion without a closed `<answer>` earns 0, so the sum of rewards over the sum of tag rates is the accuracy of the
tagged completions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.curves import FINAL_ROUNDS, RUN, ratio
from swarm.plugins.study.analysis.propagation import groups_by_peer

try:
    from swarm.plugins.lab.facts.tables import BEST_CONSTANT as BEST_CONSTANT
    from swarm.plugins.lab.facts.tables import FAMILY, TABLES, known_to_model
except ModuleNotFoundError:
    BEST_CONSTANT, FAMILY, TABLES = math.nan, "facts", ()

    def known_to_model(name: str) -> tuple[str, ...] | None:
        """Returns None: no model is a specialist's."""


OWN, OTHERS = "own", "others"
"""Tables that a node knew at its start, and those that only others knew."""
TASKS = tuple(f"{FAMILY}/{table}" for table in TABLES)
_KNOWLEDGE = [*RUN, "round", "whose", "above_constant", "tagged"]
_TAUGHT = [*RUN, "node_id", "task", "learned", "groups", "from_knowing", "share", "knowing", "peers", "chance"]


def known_tasks(model: str) -> tuple[str, ...] | None:
    """Full names of the tasks that a model knows when it starts; None: it is no specialist's."""
    known = known_to_model(model)
    return None if known is None else tuple(f"{FAMILY}/{table}" for table in known)


def by_knowledge(metrics: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per run, round and `whose`, by these.

    Columns:
        whose: OWN or OTHERS.
        above_constant: sum over the nodes and such tasks of the reward / sum of the tag rate, less what the best
            constant answer earns; NaN where no completion was tagged.
        tagged: mean tag rate over these.
    """
    sums = _sums(metrics)
    if sums.empty:
        return pd.DataFrame(columns=_KNOWLEDGE)
    rounds = sums.groupby([*RUN, "round", "whose"], sort=False)
    found = rounds[["reward", "tagged"]].sum()
    found["above_constant"] = ratio(found["reward"], found["tagged"]) - BEST_CONSTANT
    found["tagged"] /= rounds.size()
    return found.reset_index().sort_values([*RUN, "round", "whose"], ignore_index=True)[_KNOWLEDGE]


def learned_from_others(metrics: pd.DataFrame) -> pd.Series[float]:
    """Run -> accuracy given tagged above the best constant answer, on tables that only others knew at the start, over
    the run's last FINAL_ROUNDS rounds. Missing for a run without specialists."""
    sums = _sums(metrics)
    last = sums["round"] > sums.groupby(RUN)["round"].transform("max") - FINAL_ROUNDS
    found = sums[last & (sums["whose"] == OTHERS)].groupby(RUN)[["reward", "tagged"]].sum()
    return (ratio(found["reward"], found["tagged"]) - BEST_CONSTANT).astype("float64")


def _sums(metrics: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per run, round, node and task of a specialist's, with its mean reward and tag rate."""
    columns = [*RUN, "round", "whose", "reward", "tagged"]
    wanted = [*RUN, "round", "model", "task_rewards", "task_tag_rates"]
    rows = list(_told(metrics[wanted]))
    dtypes = {"round": "int64", "reward": "float64", "tagged": "float64"}
    return pd.DataFrame(rows, columns=columns).astype(dtypes)


def _told(metrics: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    for *run, round_, model, rewards, rates in metrics.itertuples(index=False):
        known = known_tasks(str(model))
        for task in TASKS if known is not None else ():
            if task in rewards and task in (rates or {}):
                yield *run, round_, OWN if task in (known or ()) else OTHERS, rewards[task], rates[task]


def starts_and_ends(knowledge: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per run and `whose`.

    Args:
        knowledge: from by_knowledge.

    Columns:
        start: above_constant in round 0, which is answered before any update.
        first, last: its mean over the first, and the last, FINAL_ROUNDS rounds.
        tagged: mean over the last FINAL_ROUNDS rounds.
    """
    by = [*RUN, "whose"]
    end = knowledge.groupby(by)["round"].transform("max")
    windows = {
        "start": knowledge[knowledge["round"] == 0],
        "first": knowledge[knowledge["round"] < FINAL_ROUNDS],
        "last": knowledge[knowledge["round"] > end - FINAL_ROUNDS],
    }
    found = {name: rows.groupby(by, sort=False)["above_constant"].mean() for name, rows in windows.items()}
    found["tagged"] = windows["last"].groupby(by, sort=False)["tagged"].mean()
    return pd.DataFrame(found).reset_index()


def exam_by_knowledge(exams: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per run, moment and `whose` of an exam of specialists: configuration, seed, rounds_done, whose,
    and above_constant: pass@1 of the answered questions, less what the best constant answer earns."""
    by = ["configuration", "seed", "rounds_done", "whose"]
    told = [
        (*run, OWN if task in known else OTHERS, right, answered)
        for *run, model, task, right, answered in exams[
            ["configuration", "seed", "rounds_done", "model", "task", "pass_at_1", "answered"]
        ].itertuples(index=False)
        if task in TASKS and (known := known_tasks(str(model))) is not None
    ]
    sums = pd.DataFrame(told, columns=[*by, "right", "answered"]).groupby(by)[["right", "answered"]].sum()
    found = (ratio(sums["right"], sums["answered"]) - BEST_CONSTANT).astype("float64")
    return found.rename("above_constant").reset_index()


def by_source(taught: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per run with such groups: `share` of them that came from nodes which knew the task, `chance`, the
    mean of the same drawn evenly, and `excess`, the share above chance.

    Args:
        taught: from taught.
    """
    some = taught[taught["groups"] > 0]
    runs = some.assign(expected=some["chance"] * some["groups"]).groupby(RUN, sort=False)
    sums = runs[["groups", "from_knowing", "expected"]].sum()
    shares = {"share": sums["from_knowing"] / sums["groups"], "chance": sums["expected"] / sums["groups"]}
    return sums.assign(**shares, excess=shares["share"] - shares["chance"]).reset_index()


def taught(metrics: pd.DataFrame, crossed: pd.DataFrame) -> pd.DataFrame:
    """Says from whom a node had its groups on tables that it did not know: one row per run, node and such task.

    Args:
        crossed: from swarm.plugins.study.analysis.propagation.crossings: the round in which a node had learned a task.

    Columns:
        learned: the round in which it had learned the task; NaN where it never did.
        groups: external groups on the task that it trained on before that round.
        from_knowing, share: of these, from nodes that knew it at the start.
        knowing, peers: such nodes, and all peers of the run.
        chance: knowing / peers, the share of groups drawn evenly from all peers.
    """
    wanted = [*RUN, "node_id", "round", "model", "external_by_peer_task"]
    moments = {
        (experiment, node, task): round_
        for experiment, node, task, round_ in crossed[["experiment", "node_id", "task", "round"]].itertuples(
            index=False
        )
    }
    runs = (own for _, own in metrics[wanted].groupby(RUN, sort=False))
    rows = [(*own[RUN].iloc[0], *row) for own in runs for row in _taught_in(own, moments)]
    return pd.DataFrame(rows, columns=_TAUGHT).astype(dict.fromkeys(("groups", "from_knowing"), "int64"))


def _taught_in(metrics: pd.DataFrame, moments: Mapping[tuple[str, str, str], int]) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of one run."""
    experiment = str(metrics["experiment"].iloc[0])
    models = metrics.groupby("node_id", sort=True)["model"].first()
    known = {str(node): known_tasks(str(model)) for node, model in models.items()}
    for node, own in known.items():
        history = metrics[metrics["node_id"] == node]
        peers = [peer for peer in known if peer != node]
        for task in TASKS if own is not None else ():
            knowing = [peer for peer in peers if task in (known[peer] or ())]
            if task in (own or ()) or not knowing:
                continue
            learned = moments.get((experiment, node, task), math.nan)
            counts = groups_by_peer(history if math.isnan(learned) else history[history["round"] < learned], task)
            groups, taught_by = sum(counts.values()), sum(counts.get(peer, 0) for peer in knowing)
            share = taught_by / groups if groups else math.nan
            yield node, task, learned, groups, taught_by, share, len(knowing), len(peers), len(knowing) / len(peers)
