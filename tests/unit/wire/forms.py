"""One struct of every JSON form, field by field what the files in tests/golden say."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from swarm.types import Origin
from swarm.wire.codec import encode
from swarm.wire.group_files import digest
from swarm.wire.judge_messages import JudgeAnswer, JudgedRow, JudgeQuestion
from swarm.wire.messages import (
    ArchiveFile,
    CleanedFile,
    CompletionsFile,
    ExperimentFile,
    GroupInfo,
    MetricsRow,
    NodeStart,
    NodeState,
    PeerFile,
    PolicyInfo,
    RewardFile,
    RolloutEntry,
    RolloutFile,
    SampledCompletion,
    SampledGroup,
    SampledTurn,
    StateFile,
    Totals,
    TurnEntry,
    WinnersFile,
)

GOLDEN = Path(__file__).parents[2] / "golden"

STATE = StateFile(
    round=17,
    stage=0,
    created_at=1760000000.0,
    updated_at=1760000120.5,
    updated_by="coordinator",
    experiment_name="demo",
    max_rounds=40,
    round_opened_at=1760000120.5,
    round_interval=60.0,
)

PEER = PeerFile(
    peer_id="anna",
    registered_at=1760000001.25,
    node_role="worker",
    beat=121,
    last_seen=1760000122.0,
    status="active",
    round=17,
    stage=0,
    phase="gathering",
    incarnation="5f0c7d1e9b3a4c2d8e6f7a8b9c0d1e2f",
    host="laptop/0f1c6e0a-5b7d-4c39-9d0e-2a4f6b8c1d3e/pid:[4026531836]",
    pid=4711,
    process_started_at=184322.0,
    model="tiny-qwen2",
    needs_from=8,
)

ROLLOUTS = RolloutFile(
    peer_id="anna",
    round=17,
    stage=0,
    timestamp=1760000121.75,
    rollouts={
        "0": [
            RolloutEntry(prompt="Calculate 4 + 10.", response="<answer>14</answer>", reward=1.0),
            RolloutEntry(prompt="Calculate 4 + 10.", response="4 + 10 = 1", reward=0.0, finished=False),
        ],
        "1": [
            RolloutEntry(
                prompt="Starting from Tuesday, July 5, 2022, which weekday falls after a 1-day jump? "
                "State the weekday (Monday through Sunday).",
                response=response,
                reward=reward,
            )
            for response, reward in (("<answer>Wednesday</answer>", 1.0), ("<answer>mañana</answer>", 0.0))
        ],
    },
    groups={
        "0": GroupInfo(
            task="basic_arithmetic",
            answer="14",
            metadata=Raw(b'{"expression":"4 + 10","num_terms":2}'),
            origin=Origin("basic_arithmetic", "tiny", 759014466, 0, "0.1.25"),
        ),
        "1": GroupInfo(
            task="calendar_arithmetic",
            answer="Wednesday",
            metadata=Raw(b'{"task":"weekday_offset","offset_days":1}'),
            origin=Origin("calendar_arithmetic", "tiny", 625668219, 0, "0.1.25"),
        ),
    },
    policy=PolicyInfo(model="tiny-qwen2", rounds_trained=17),
)

ROLLOUTS_EARLY = replace(
    ROLLOUTS, timestamp=0.0, rollouts={"0": ROLLOUTS.rollouts["0"]}, groups={"0": ROLLOUTS.groups["0"]}
)

ROLLOUTS_LAST = replace(
    ROLLOUTS,
    rollouts={"1": ROLLOUTS.rollouts["1"]},
    groups={"1": ROLLOUTS.groups["1"]},
    earlier={"0": digest(encode(ROLLOUTS_EARLY))},
)

ROLLOUTS_WITH_LOGPROBS = replace(
    ROLLOUTS,
    rollouts={
        "0": [
            RolloutEntry(
                prompt="Calculate 4 + 10.",
                response="14",
                reward=0.0,
                token_ids=Raw(b"[20,23,0]"),
                logprobs=Raw(b"[-0.69315,-1.25,-0.00012]"),
            ),
            RolloutEntry(
                prompt="Calculate 4 + 10.",
                response="4 +",
                reward=0.0,
                finished=False,
                token_ids=Raw(b"[23,285]"),
                logprobs=Raw(b"[-2.0,0.0]"),
            ),
        ],
    },
    groups={
        "0": GroupInfo(
            task="basic_arithmetic", answer="14", origin=Origin("basic_arithmetic", "tiny", 759014466, 0, "0.1.25")
        )
    },
    policy=PolicyInfo(
        model="tiny-qwen2", rounds_trained=17, tokenizer="8c1f0e5d2b7a49634f6e1d0c9b8a7756", temperature=1.0
    ),
)

COMPLETIONS = CompletionsFile(
    peer_id="anna",
    round=17,
    stage=0,
    model="tiny-qwen2",
    tokenizer="8c1f0e5d2b7a49634f6e1d0c9b8a7756",
    rounds_trained=17,
    groups=[
        SampledGroup(
            prompt="3 + 4 * 2?",
            completions=[
                SampledCompletion(
                    text="<answer>11</answer>",
                    finished=True,
                    token_ids=[20, 23, 0],
                    logprobs=[-0.6931471805599453, -1.25, -0.00012207403790398877],
                ),
                SampledCompletion(text="14", finished=False, token_ids=[23, 285], logprobs=[-2.0, 0.0]),
            ],
        )
    ],
)

TURN = TurnEntry(
    response="<answer>3</answer>", reply="It is higher.", token_ids=Raw(b"[30,0]"), logprobs=Raw(b"[-0.5,-0.25]")
)

ROLLOUTS_WITH_TURNS = replace(
    ROLLOUTS,
    rollouts={
        "0": [
            RolloutEntry(
                prompt="Which number from 1 to 9?",
                response="<answer>6</answer>",
                reward=0.8,
                token_ids=Raw(b"[33,0]"),
                logprobs=Raw(b"[-0.75,0.0]"),
                turns=[TURN],
            ),
            RolloutEntry(prompt="Which number from 1 to 9?", response="six", reward=0.0, finished=False),
        ],
    },
    groups={"0": GroupInfo(task="python/guess", origin=Origin("guess", "own-0f", 759014466, 0, "1", "python"))},
    policy=ROLLOUTS_WITH_LOGPROBS.policy,
)

COMPLETIONS_WITH_TURNS = replace(
    COMPLETIONS,
    groups=[
        SampledGroup(
            prompt="Which number from 1 to 9?",
            completions=[
                SampledCompletion(
                    text="<answer>6</answer>",
                    finished=True,
                    token_ids=[33, 0],
                    logprobs=[-0.75, 0.0],
                    turns=[
                        SampledTurn(
                            text="<answer>3</answer>",
                            finished=True,
                            reply="It is higher.",
                            token_ids=[30, 0],
                            logprobs=[-0.5, -0.25],
                        )
                    ],
                ),
                SampledCompletion(text="six", finished=False, token_ids=[23], logprobs=[-2.0]),
            ],
        )
    ],
)

REWARD = RewardFile(round=17, stage=0, reward=0.5, peer_id="anna", submitted_at=1760000125.0)
REWARD_WITH_WINNERS = replace(REWARD, winners=["anna", "ben"])

WINNERS = WinnersFile(round=17, winners=["anna", "ben"], peer_id="anna", submitted_at=1760000125.125)

EXPERIMENT = ExperimentFile(
    experiment_name="demo",
    created_at=1760000000.0,
    created_by="coordinator",
    identity={
        "seed": 42,
        "local_groups": 2,
        "external_groups": 2,
        "generations": 2,
        "profile": "tiny",
        "tasks": ["basic_arithmetic", "calendar_arithmetic"],
    },
    versions={"swarm": "0.1.0", "python": "3.11.2", "reasoning-gym": "0.1.25"},
    id="0123456789abcdef0123456789abcdef",
)

METRICS = MetricsRow(
    timestamp=1760000124.5,
    round=17,
    stage=0,
    node_id="anna",
    experiment="demo",
    my_reward=0.5,
    total_agents=3,
    model="tiny-qwen2",
    cumulative_reward=4.75,
    full_answer_rate=0.5,
    answer_tag_rate=0.75,
    reward_given_tagged=2 / 3,
    finished_rate=0.75,
    task_rewards={"basic_arithmetic": 0.5, "calendar_arithmetic": 0.5},
    task_tag_rates={"basic_arithmetic": 1.0, "calendar_arithmetic": 0.5},
    task_rewards_given_tagged={"basic_arithmetic": 0.5, "calendar_arithmetic": 1.0},
    train_reward=0.375,
    local_groups=2,
    zero_advantage_local=0.0,
    reward_std=0.5,
    external_wanted=2,
    external_groups=2,
    external_by_model={"tiny-gpt2": 2},
    external_by_peer={"ben": 2},
    external_by_peer_task={"ben": {"bf": 2}},
    pool_groups=4,
    pool_informative=3,
    pool_reward=0.375,
    peers_heard=2,
    peers_awaited=2,
    refused_files={"no_origin": 1},
    refused_by_peer={"eve": {"no_origin": 1}},
    accepted_by_peer={"ben": 4},
    false_claims={"eve": 2},
    quarantined=["eve"],
    external_unverified=1,
    trained_on=["ben/17/0/0", "ben/17/0/1"],
    score_errors=1,
    bytes_published=1320,
    bytes_fetched=2640,
    tokens_generated=64,
    tokens_trained=128,
    loss=-0.0625,
    grad_norm=1.5,
    clip_fraction=0.125,
    logprob_drift=1e-06,
    seconds_generate=1.5,
    seconds_score=0.25,
    seconds_publish=0.0078125,
    seconds_gather=0.5,
    seconds_train=1.25,
    seconds_round=3.75,
    seconds_wait=0.25,
    seconds_sharing=0.5,
    seconds_sharing_hidden=0.25,
    generating=[[0.0, 1.5]],
    publishing=[[1.75, 1.7578125]],
    fetching=[[-0.125, 0.0], [1.75, 2.0]],
    updating=[[1.75, 2.5], [2.75, 3.25]],
    publish_to_pool=[0.125, 0.25],
    loop_lag_max=0.015625,
    executor_busy=0.625,
    seconds_lease=0.125,
    importance_tokens=32,
    importance_mean=0.875,
    memory_halvings=1,
    memory_allocated=400_000_000,
    memory_reserved=500_000_000,
    memory_peak=450_000_000,
    memory_total=16_000_000_000,
    memory_free=12_000_000_000,
    disk_free=80_000_000_000,
    disk_used=0.5,
    store_writes=7,
    store_lists=2,
    store_reads=10,
    store_sent=12_000,
    store_received=9_000,
    store_spared=30_000,
    adaptive_I=2,
    adaptive_J=2,
    adaptive_J_continuous=1.75,
    adaptive_baseline=0.4375,
    adaptive_round_reward=0.5,
    totals=Totals(
        rounds=[(0, 11), (14, 17)],
        reward=4.75,
        sums={"external_unverified": 0, "tokens_generated": 9216, "tokens_trained": 8190},
        counts={"accepted_by_peer": {"ben": 28}, "refused_files": {"malformed": 1}, "false_claims": {}},
        refused_by_peer={"carl": {"malformed": 1}},
    ),
)

NODE_STATE = NodeState(
    node_id="anna", rounds_done=18, seed=42, cumulative_reward=4.75, model="tiny-qwen2", rounds_trained=17
)

JUDGE_QUESTION = JudgeQuestion(
    round=17,
    node="anna",
    profile="tiny",
    question_id="6cd8bc1cb01d30b8",
    prompt="Calculate 4 + 10.",
    asked_at=1760000119.5,
    task="basic_arithmetic",
)

JUDGE_ANSWER = JudgeAnswer(
    peer_id="anna",
    round=17,
    question_id="6cd8bc1cb01d30b8",
    response="<answer>14</answer>",
    answered_at=1760000125.25,
    policy=PolicyInfo(model="tiny-qwen2", rounds_trained=18),
)

JUDGED = JudgedRow(
    timestamp=1760000125.5,
    round=17,
    node_id="anna",
    task="basic_arithmetic",
    profile="tiny",
    question_id="6cd8bc1cb01d30b8",
    reward=1.0,
    full_answer=True,
    answered=True,
    experiment="demo",
    model="tiny-qwen2",
    rounds_trained=18,
)

START = NodeStart(
    timestamp=1760000001.5,
    node_id="anna",
    experiment="demo",
    role="worker",
    incarnation="9f1c2ab07d3e4f55",
    settings={"seed": 42, "local_groups": 2, "learning_rate": 0.0002, "model": ["tiny-qwen2"]},
    command="SEED=42 swarm node --node-id anna --local 2",
    sources={"seed": "environment variable SEED", "local_groups": "command line", "node_id": "command line"},
    versions={"swarm": "0.1.0", "python": "3.11.2", "torch": "2.13.0"},
    code="3b0c44298fc1c149",
    models={"tiny-qwen2": "6cd8bc1cb01d30b8"},
    machine={"system": "Linux-6.1-x86_64", "processor": "a processor", "cores": 2, "memory_bytes": 25769803776},
)

CLEANED = CleanedFile(rollouts_before=8, archived=True, cleaned_by="anna", cleaned_at=1760000124.75)

ARCHIVE = ArchiveFile(
    experiment="demo",
    created_at=1760000000.0,
    round=17,
    files={"rollouts/round_17/stage_0/anna.json": hashlib.sha256(encode(ROLLOUTS)).hexdigest()},
)

FORMS: dict[str, msgspec.Struct] = {
    "state.json": STATE,
    "peer.json": PEER,
    "rollouts.json": ROLLOUTS,
    "rollouts_early.json": ROLLOUTS_EARLY,
    "rollouts_last.json": ROLLOUTS_LAST,
    "rollouts_with_logprobs.json": ROLLOUTS_WITH_LOGPROBS,
    "rollouts_with_turns.json": ROLLOUTS_WITH_TURNS,
    "completions.json": COMPLETIONS,
    "completions_with_turns.json": COMPLETIONS_WITH_TURNS,
    "reward.json": REWARD,
    "reward_with_winners.json": REWARD_WITH_WINNERS,
    "winners.json": WINNERS,
    "experiment.json": EXPERIMENT,
    "metrics.jsonl": METRICS,
    "node_state.json": NODE_STATE,
    "judge_question.json": JUDGE_QUESTION,
    "judge_answer.json": JUDGE_ANSWER,
    "judge.jsonl": JUDGED,
    "starts.jsonl": START,
    "cleaned.json": CLEANED,
    "archive.json": ARCHIVE,
}
"""File in tests/golden -> what it holds."""

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
    "judge_answer": (
        JudgeAnswer,
        b'{"peer_id":"anna","round":3,"question_id":"6c","response":"2","answered_at":1.0}',
    ),
    "judged": (
        JudgedRow,
        b'{"timestamp":1.0,"round":3,"node_id":"anna","task":"bf","profile":"tiny","question_id":"6c","reward":0.5,'
        b'"full_answer":false,"answered":true,"experiment":"e"}',
    ),
}
"""Every form with the fields of its first version alone: these lines must decode for ever."""
