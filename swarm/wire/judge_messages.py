"""The JSON forms of the judge and of the exam as msgspec structs; rules of growth as in messages.py."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from swarm.types import Origin
from swarm.wire.kinds import SCHEMA_VERSION, Count, Reward, Round, Share, UnixSeconds
from swarm.wire.messages import PolicyInfo
from swarm.wire.turns import EARLIER, TurnEntry


class JudgeQuestion(msgspec.Struct, kw_only=True):
    """`judge/questions/round_R/{node}.json`: what a judge asks one node in one round.

    It holds neither the answer nor the origin, from which the answer could be made, unless the task converses.
    """

    round: Count
    """As in the path."""
    node: str
    """As in the path."""
    profile: str
    """Difficulty."""
    question_id: str
    """To be repeated in the answer; says nothing about the question."""
    prompt: str
    """The question's text, without any model's prompt format."""
    asked_at: UnixSeconds
    """When it was written."""
    task: str = ""
    """For people."""
    origin: Origin | UnsetType = UNSET
    """Of a task that converses alone: the node needs it to have the replies made."""
    schema_version: int = SCHEMA_VERSION


class JudgeAnswer(msgspec.Struct, kw_only=True):
    """`judge/answers/round_R/{node}.json`: one completion, sampled after the update of that round."""

    peer_id: str
    """As in the path."""
    round: Count
    """As in the path."""
    question_id: str
    """As in the question."""
    response: str
    """The decoded completion, without special tokens."""
    answered_at: UnixSeconds
    """When it was written."""
    finished: bool = True
    """The model ended it itself; false: cut at the length limit."""
    policy: PolicyInfo = msgspec.field(default_factory=PolicyInfo)
    """Who wrote it."""
    turns: Annotated[list[TurnEntry], EARLIER] | UnsetType = UNSET
    """Of a conversation: the turns before the response."""
    schema_version: int = SCHEMA_VERSION


class JudgedRow(msgspec.Struct, kw_only=True):
    """One line of `logs/judge/judge.jsonl`: one per node and round that was answered."""

    timestamp: UnixSeconds
    """When it was judged, by the judge's clock."""
    round: Round
    """After whose update the node was asked, counted from 0."""
    node_id: str
    """The node that answered."""
    task: str
    """Task of the question."""
    profile: str
    """Difficulty and scoring, such as `tiny-3` or `paper-2`."""
    question_id: str
    """The question's name."""
    reward: Reward
    """Of the one completion, by the judge's verifier, 0 to 1."""
    full_answer: bool
    """The reward is full: pass@1 is the mean of this."""
    answered: bool
    """The completion holds a closed `<answer>`."""
    experiment: str
    """The experiment."""
    model: str = ""
    """As the node calls its policy."""
    rounds_trained: Count = 0
    """Updates that the policy says it has had."""
    finished: bool = True
    """The model ended it itself, as the node says."""
    schema_version: int = SCHEMA_VERSION


PASS_AT = (2, 4, 8, 16, 32)
"""k of pass@k beside 1, as far as there are so many completions."""


class ExamRow(msgspec.Struct, kw_only=True):
    """One entry of the list in `exam.json`: how well one node does in one task on the frozen held-out questions."""

    node_id: str
    """The node."""
    model: str
    """Name of its policy."""
    rounds_done: Count
    """Rounds behind the checkpoint; 0: the model that the node started from."""
    task: str
    """Task of the questions."""
    n: Count
    """Questions."""
    pass_at_1: Share
    """Of completions, those with the full reward."""
    mean_reward: Reward
    """Per completion."""
    answered: Share
    """Of completions, those with a closed `<answer>`."""
    samples: Count = 1
    """Completions per question."""
    pass_at_2: Share | UnsetType = UNSET
    """pass@k for k = 2, and so on: the share of questions of which k completions hold one with the full reward,
    estimated without bias from all of them (arXiv:2107.03374, equation 1). Missing where there are fewer than k."""
    pass_at_4: Share | UnsetType = UNSET
    """k = 4."""
    pass_at_8: Share | UnsetType = UNSET
    """k = 8."""
    pass_at_16: Share | UnsetType = UNSET
    """k = 16."""
    pass_at_32: Share | UnsetType = UNSET
    """k = 32."""
    stage: Count | UnsetType = UNSET
    """Of a round of several stages one after the first: the model was shown its own answers of the stage before."""
