"""Every key of an experiment and who may write it; nothing else knows one.

experiment.json                       the settings that make this experiment what it is        its first node
tasks/{sha256}                        a file that the run's own tasks are asked from               its first node
state/current_state.json              the round clock                                          the active coordinator
peers/{node}.json                     registration and heartbeat                               the node
rollouts/round_R/stage_S/{node}.json  the node's rollout groups                                the node
rollouts/round_R/stage_S/{node}.{slot}.json  one of them that was published before the others  the node
completions/round_R/{node}.json       token ids of its own completions, for redo               the node
completions/round_R/stage_S/{node}.json  the same of a stage after the first                   the node
weights/round_R/{node}.safetensors    what it trains, after a round whose weights are averaged      the node
rewards/round_R/stage_S/{node}.json   the node's mean reward                                   the node
winners/round_R/{node}.json           the node's vote                                          the node
judge/questions/round_R/{node}.json   the judge's held-out question to the node                the judge
judge/answers/round_R/{node}.json     the node's answer to it                                  the node
checkpoints/round_R/{node}/           R rounds are done; a bundle                              the node
logs/{node}/metrics.jsonl, training_events.jsonl, stdout.log, starts.jsonl                     the node
logs/judge/judge.jsonl                what the answers were worth                              the judge
exam.json                             held-out questions before and after the training         the examiner
cleaned.json                          rounds whose rollouts were cleaned up                    whoever cleans up
study_run.json                        all that a run of a study was started with               the study
.tmp/{writer}/                        drafts of a folder store; never watched, never counted   the writer
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from swarm.config import JUDGE, NODE_ID
from swarm.types import RoundKey

EXPERIMENT = "experiment.json"
TASKS = "tasks"
STATE = "state/current_state.json"
PEERS = "peers"
ROLLOUTS = "rollouts"
COMPLETIONS = "completions"
WEIGHTS = "weights"
REWARDS = "rewards"
WINNERS = "winners"
JUDGE_QUESTIONS = "judge/questions"
JUDGE_ANSWERS = "judge/answers"
CHECKPOINTS = "checkpoints"
LOGS = "logs"
EXAM = "exam.json"
STUDY_RUN = "study_run.json"
CLEANED = "cleaned.json"
DRAFTS = ".tmp"
JUDGED = f"{LOGS}/{JUDGE}/judge.jsonl"

COORDINATOR = "@clock"
"""Owner of the state file: whoever coordinates, and no node's name."""
EXAMINER = "@exam"
STUDY = "@study"
JANITOR = "@janitor"
ANYBODY = "@first"
"""Owner of experiment.json and of the files of its tasks: the first node that writes them."""

_TENSORS = ".safetensors"
_NUMBER = "0|[1-9][0-9]{0,8}"
_ROUND = re.compile(f"round_({_NUMBER})")
_STAGE = re.compile(f"stage_({_NUMBER})")
_GROUP = re.compile(r"(.+)\.(0|[1-9][0-9]{0,5})\.json")
_PUBLISHED = re.compile(rf"{ROLLOUTS}/{_ROUND.pattern}/{_STAGE.pattern}/([^/]+?)(\.(?:0|[1-9][0-9]{{0,5}}))?\.json")
"""Round, stage, node, and the slot of a file of one group."""
_ARCHIVED = re.compile(rf"round_({_NUMBER})-([0-9a-f]{{16}})\.tar\.gz")
_OF_ROUND, _OF_STAGE = f"round_(?:{_NUMBER})", f"stage_(?:{_NUMBER})"
_OF_NODES = re.compile(
    "|".join(
        (
            rf"{PEERS}/([^/]+)\.json",
            rf"{COMPLETIONS}/{_OF_ROUND}/(?:stage_[1-9][0-9]{{0,8}}/)?([^/]+)\.json",
            rf"{WEIGHTS}/{_OF_ROUND}/([^/]+){re.escape(_TENSORS)}",
            rf"{REWARDS}/{_OF_ROUND}/{_OF_STAGE}/([^/]+)\.json",
            rf"(?:{WINNERS}|{JUDGE_ANSWERS})/{_OF_ROUND}/([^/]+)\.json",
            rf"{CHECKPOINTS}/{_OF_ROUND}/([^/]+)(?:/.*)?",
            rf"(?:{LOGS}|{re.escape(DRAFTS)})/([^/]+)/.+",
        )
    ),
    re.DOTALL,
)
"""What a node writes beside its rollouts; the one group that is there is the node."""
_TASK = re.compile(f"{TASKS}/[0-9a-f]{{64}}")
_FIXED = {
    EXPERIMENT: ANYBODY,
    STATE: COORDINATOR,
    EXAM: EXAMINER,
    STUDY_RUN: STUDY,
    CLEANED: JANITOR,
}
MOST_REMEMBERED = 2**14
"""Names of files that are listed again and again."""


def is_node_id(text: str) -> bool:
    """Tells whether a text is a node id that is safe as a file name: letters, digits, `_`, `-`, `.`, at most 64, no
    leading dot.

    Names that replication tools give to the losers of a conflict are none either.
    """
    return bool(NODE_ID.fullmatch(text))


@lru_cache(MOST_REMEMBERED)
def node_of(file_name: str) -> str | None:
    """Returns the node that a `{node}.json` file speaks for, or None for a name that is not one (temporary, conflict
    copy)."""
    stem, dot, suffix = file_name.rpartition(".")
    return stem if dot and suffix == "json" and is_node_id(stem) else None


@lru_cache(MOST_REMEMBERED)
def is_group_file(file_name: str) -> bool:
    """Tells whether a name in a stage's rollouts is `{node}.{slot}.json`: no node that starts has an id like it."""
    return bool(_GROUP.fullmatch(file_name))


@lru_cache(MOST_REMEMBERED)
def _node_of_all_groups(file_name: str) -> str | None:
    return None if is_group_file(file_name) else node_of(file_name)


def nodes_by_name(prefix: str) -> Callable[[str], str | None]:
    """Returns a function that gives the node that a file in a prefix belongs to; None for a rollout file of a single
    group."""
    return _node_of_all_groups if prefix.startswith(f"{ROLLOUTS}/") else node_of


def round_of(folder_name: str) -> int | None:
    """Returns the R of `round_R`, or None."""
    match = _ROUND.fullmatch(folder_name)
    return int(match[1]) if match else None


def stage_of(folder_name: str) -> int | None:
    """Returns the S of `stage_S`, or None."""
    match = _STAGE.fullmatch(folder_name)
    return int(match[1]) if match else None


def archive(experiment: str) -> str:
    """Returns where a place keeps the archive of an experiment, beside its experiments."""
    return f"archives/{experiment}"


def archived(round_: int, digest: str) -> str:
    """Returns a file of an archive: rollouts of one round. `digest`: 16 hexadecimal digits, of its contents."""
    return f"{ROLLOUTS}/round_{round_}-{digest}.tar.gz"


def archived_round(file_name: str) -> int | None:
    """Returns the R of `round_R-{digest}.tar.gz`, or None."""
    match = _ARCHIVED.fullmatch(file_name)
    return int(match[1]) if match else None


def published_in(key: str) -> tuple[RoundKey, str] | None:
    """Returns stage and node of a rollout file or of a file of one of its groups; None for a key of anything else."""
    match = _PUBLISHED.fullmatch(key)
    return (RoundKey(int(match[1]), int(match[2])), match[3]) if match and is_node_id(match[3]) else None


def group_file_of(key: str) -> tuple[RoundKey, str] | None:
    """Returns stage and node of a file of one group; None for a key of anything else."""
    return published_in(key) if is_group_file(key.rpartition("/")[2]) else None


def peer(node: str) -> str:
    return f"{PEERS}/{node}.json"


def rollouts(key: RoundKey) -> str:
    """Prefix of one stage's rollout files."""
    return f"{ROLLOUTS}/round_{key.round}/stage_{key.stage}"


def rollout(key: RoundKey, node: str) -> str:
    return f"{rollouts(key)}/{node}.json"


def group_file(key: RoundKey, node: str, slot: int) -> str:
    return f"{rollouts(key)}/{node}.{slot}.json"


def task_file(sha256: str) -> str:
    return f"{TASKS}/{sha256}"


def completions(round_: int, node: str, stage: int = 0) -> str:
    return f"{COMPLETIONS}/round_{round_}/{f'stage_{stage}/' if stage else ''}{node}.json"


def weights(round_: int, node: str) -> str:
    return f"{WEIGHTS}/round_{round_}/{node}{_TENSORS}"


def rewards(key: RoundKey) -> str:
    """Prefix of one stage's rewards."""
    return f"{REWARDS}/round_{key.round}/stage_{key.stage}"


def reward(key: RoundKey, node: str) -> str:
    return f"{rewards(key)}/{node}.json"


def winners(round_: int, node: str) -> str:
    return f"{WINNERS}/round_{round_}/{node}.json"


def judge_question(round_: int, node: str) -> str:
    return f"{JUDGE_QUESTIONS}/round_{round_}/{node}.json"


def judge_answers(round_: int) -> str:
    """Prefix of one round's answers."""
    return f"{JUDGE_ANSWERS}/round_{round_}"


def judge_answer(round_: int, node: str) -> str:
    return f"{judge_answers(round_)}/{node}.json"


def checkpoint(rounds_done: int, node: str) -> str:
    """Prefix of a bundle."""
    return f"{CHECKPOINTS}/round_{rounds_done}/{node}"


def metrics(node: str) -> str:
    return f"{LOGS}/{node}/metrics.jsonl"


def events(node: str) -> str:
    return f"{LOGS}/{node}/training_events.jsonl"


def stdout(node: str) -> str:
    return f"{LOGS}/{node}/stdout.log"


def starts(node: str) -> str:
    return f"{LOGS}/{node}/starts.jsonl"


def owner_of(key: str) -> str | None:
    """Returns who may write at a key: a node, JUDGE, one of the names with an @ above; None for a key that is none of
    these."""
    if key in _FIXED:
        return _FIXED[key]
    if _TASK.fullmatch(key):
        return ANYBODY
    if key.startswith(f"{JUDGE_QUESTIONS}/"):
        return JUDGE
    if published := published_in(key):
        return published[1]
    match = _OF_NODES.fullmatch(key)
    node = match[match.lastindex or 0] if match else ""
    return node if is_node_id(node) else None
