"""The examples of every JSON form, which lie in tests/golden."""

from __future__ import annotations

from pathlib import Path

import msgspec

from swarm.wire.codec import decode
from swarm.wire.judge_messages import JudgeAnswer, JudgedRow, JudgeQuestion
from swarm.wire.messages import (
    ArchiveFile,
    CleanedFile,
    CompletionsFile,
    ExperimentFile,
    MetricsRow,
    NodeStart,
    NodeState,
    PeerFile,
    RewardFile,
    RolloutFile,
    StateFile,
    WinnersFile,
)

GOLDEN = Path(__file__).parents[2] / "golden"
_FORM_OF: dict[str, type[msgspec.Struct]] = {
    "state.json": StateFile,
    "peer.json": PeerFile,
    "rollouts.json": RolloutFile,
    "rollouts_early.json": RolloutFile,
    "rollouts_last.json": RolloutFile,
    "rollouts_with_logprobs.json": RolloutFile,
    "rollouts_with_turns.json": RolloutFile,
    "completions.json": CompletionsFile,
    "completions_with_turns.json": CompletionsFile,
    "reward.json": RewardFile,
    "reward_with_winners.json": RewardFile,
    "winners.json": WinnersFile,
    "experiment.json": ExperimentFile,
    "metrics.jsonl": MetricsRow,
    "node_state.json": NodeState,
    "judge_question.json": JudgeQuestion,
    "judge_answer.json": JudgeAnswer,
    "judge.jsonl": JudgedRow,
    "starts.jsonl": NodeStart,
    "cleaned.json": CleanedFile,
    "archive.json": ArchiveFile,
}
FORMS = {name: decode((GOLDEN / name).read_bytes(), form, name) for name, form in _FORM_OF.items()}
"""File in tests/golden -> what it holds. What a form has more since then is at its default, until `make docs`."""


def rollouts(name: str) -> RolloutFile:
    """Returns what a file of rollouts in tests/golden holds."""
    return decode((GOLDEN / name).read_bytes(), RolloutFile, name)


PEER = decode((GOLDEN / "peer.json").read_bytes(), PeerFile, "peer.json")
ROLLOUTS = rollouts("rollouts.json")
ROLLOUTS_EARLY = rollouts("rollouts_early.json")
ROLLOUTS_WITH_LOGPROBS = rollouts("rollouts_with_logprobs.json")

MINIMAL: dict[str, tuple[type[msgspec.Struct], bytes]] = {
    "cleaned": (CleanedFile, b'{"rollouts_before":3}'),
    "archive": (ArchiveFile, b'{"experiment":"e","created_at":1.0,"round":3,"files":{}}'),
    "state": (
        StateFile,
        b'{"round":3,"stage":0,"created_at":1.0,"updated_at":2.0,"updated_by":"c","experiment_name":"e"}',
    ),
    "peer": (PeerFile, b'{"peer_id":"anna","registered_at":1.0,"node_role":"worker"}'),
    "rollouts": (
        RolloutFile,
        b'{"peer_id":"anna","round":3,"stage":0,"timestamp":1.0,"rollouts":{"0":['
        b'{"prompt":"1 + 1?","response":"2","reward":1.0},{"prompt":"1 + 1?","response":"3","reward":0.0}]}}',
    ),
    "completions": (
        CompletionsFile,
        b'{"peer_id":"anna","round":3,"stage":0,"model":"tiny-qwen2","tokenizer":"8c","rounds_trained":3,"groups":[]}',
    ),
    "reward": (RewardFile, b'{"round":3,"stage":0,"reward":0.5,"peer_id":"anna","submitted_at":1.0}'),
    "winners": (WinnersFile, b'{"round":3,"winners":["anna"],"peer_id":"anna","submitted_at":1.0}'),
    "experiment": (ExperimentFile, b'{"experiment_name":"e","created_at":1.0,"created_by":"c","identity":{}}'),
    "metrics": (
        MetricsRow,
        b'{"timestamp":1.0,"round":3,"stage":0,"node_id":"anna","experiment":"e","my_reward":0.5,"total_agents":2}',
    ),
    "start": (
        NodeStart,
        b'{"timestamp":1.0,"node_id":"anna","experiment":"e","role":"worker","incarnation":"9f","settings":{}}',
    ),
    "node_state": (
        NodeState,
        b'{"node_id":"anna","rounds_done":3,"seed":42,"cumulative_reward":1.5,"model":"tiny-qwen2"}',
    ),
    "judge_question": (
        JudgeQuestion,
        b'{"round":3,"node":"anna","profile":"tiny","question_id":"6c","prompt":"1 + 1?","asked_at":1.0}',
    ),
    "judge_answer": (JudgeAnswer, b'{"peer_id":"anna","round":3,"question_id":"6c","response":"2","answered_at":1.0}'),
    "judged": (
        JudgedRow,
        b'{"timestamp":1.0,"round":3,"node_id":"anna","task":"bf","profile":"tiny","question_id":"6c","reward":0.5,'
        b'"full_answer":false,"answered":true,"experiment":"e"}',
    ),
}
"""Every form with the fields of its first version alone: these lines must decode for ever."""
