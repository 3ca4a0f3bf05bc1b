"""Frames of metrics and judged answers that say no more than the measures look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from swarm.plugins.study.record import ConfigurationRecord, DeclaredComparison, StudyRecord
from tests.plugins.study.study_files import study_record

NODES = ("alice", "bob", "carol", "dave")


def make_metrics(
    rewards: Sequence[Sequence[float]], configuration: str = "8/0", seed: int = 1, **columns: Any
) -> pd.DataFrame:
    """One run: rewards[round][node]. Each node tags half, and spends 3 + 1 seconds, 100 tokens and 10 bytes a round."""
    rows = [
        {
            "configuration": configuration,
            "seed": seed,
            "experiment": f"{configuration}-{seed}",
            "round": round_,
            "node_id": NODES[place],
            "my_reward": reward,
            "answer_tag_rate": 0.5,
            "model": "tiny",
            "task_rewards": {},
            "task_tag_rates": {},
            "external_by_peer_task": {},
            "logprobs_by_peer": None,
            "plants": None,
            "planted_rate": float("nan"),
            "local_groups": 4,
            "zero_advantage_local": 0.5,
            "pool_groups": 0,
            "pool_informative": 0,
            "external_wanted": 4,
            "external_groups": 4,
            "full_answer_rate": 0.25,
            "bytes_published": 10,
            "bytes_fetched": 20,
            "tokens_generated": 100,
            "tokens_trained": 50,
            "seconds_round": 3.0,
            "seconds_wait": 1.0,
            "adaptive_I": float("nan"),
            "adaptive_J": float("nan"),
            "adaptive_J_continuous": float("nan"),
            **columns,
        }
        for round_, of_nodes in enumerate(rewards)
        for place, reward in enumerate(of_nodes)
    ]
    return pd.DataFrame(rows)


def make_curve(means: Sequence[float], **columns: Any) -> pd.DataFrame:
    """The agent average of one run."""
    named = {"configuration": "8/0", "seed": 1, "experiment": "8/0-1"} | columns
    return pd.DataFrame({"round": range(len(means)), "mean": means, "tokens_per_node": range(len(means))}).assign(
        trained_per_node=0.0, seconds=0.0, **named
    )


def make_task_rows(
    rewards: Mapping[str, Sequence[float]], task: str = "sums", every: int = 1, **columns: Any
) -> pd.DataFrame:
    """One run in which each node meets one task every `every` rounds: node -> reward per meeting."""
    runs = [
        make_metrics([[0.0]], **columns).assign(
            node_id=node, round=place * every, task_rewards=[{task: reward}], experiment="one"
        )
        for node, own in rewards.items()
        for place, reward in enumerate(own)
    ]
    return pd.concat(runs, ignore_index=True)


def make_totals(values: Mapping[str, Sequence[float]], rounds: int = 10) -> pd.DataFrame:
    """Configuration -> cumulative reward per seed, from seed 1 on."""
    return pd.DataFrame(
        [
            {
                "configuration": name,
                "seed": seed,
                "experiment": f"{name}-{seed}",
                "cumulative_reward": value,
                "rounds": rounds,
                "nodes": 8,
                "starting_reward": 0.1,
            }
            for name, own in values.items()
            for seed, value in enumerate(own, start=1)
        ]
    )


def make_record(
    *configurations: ConfigurationRecord | str, rounds: int = 10, declared: Sequence[DeclaredComparison] = ()
) -> StudyRecord:
    """A study of eight nodes, of which nothing has been run."""
    more = {"nodes": 8, "rounds": rounds, "declared": tuple(declared), "runs": ()}
    return study_record(*configurations, study="small", seeds=(1, 2, 3), **more)


def make_judged(full: Sequence[Sequence[bool]], configuration: str = "8/0", seed: int = 1) -> pd.DataFrame:
    """One run: full[round][node] says whether the held-out question was answered in full."""
    return pd.DataFrame(
        [
            {
                "configuration": configuration,
                "seed": seed,
                "experiment": f"{configuration}-{seed}",
                "round": round_,
                "node_id": NODES[place],
                "question_id": f"{round_}-{place}",
                "reward": 1.0 if answered else 0.25,
                "full_answer": answered,
                "answered": True,
            }
            for round_, of_nodes in enumerate(full)
            for place, answered in enumerate(of_nodes)
        ]
    )
