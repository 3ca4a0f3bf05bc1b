"""The JSON forms of the shared folder as msgspec structs; FORMS.md is generated from them, PROTOCOL.md has the rules.

Rules of growth: fields are only added, with defaults, and never change meaning; readers ignore fields they do not
know and refuse a `schema_version` they do not know. What is UNSET is not written.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from swarm.types import Origin
from swarm.wire.kinds import SCHEMA_VERSION, Count, Reward, Round, Seconds, Stage, UnixSeconds
from swarm.wire.metrics import MetricsRow, Totals
from swarm.wire.turns import EARLIER, SampledTurn, TurnEntry

__all__ = [
    "SCHEMA_VERSION",
    "ArchiveFile",
    "CleanedFile",
    "CompletionsFile",
    "Count",
    "ExperimentFile",
    "GroupInfo",
    "MetricsRow",
    "NodeStart",
    "NodeState",
    "PeerFile",
    "PolicyInfo",
    "RewardFile",
    "RolloutEntry",
    "RolloutFile",
    "SampledCompletion",
    "SampledGroup",
    "SampledTurn",
    "StateFile",
    "Totals",
    "TurnEntry",
    "WinnersFile",
]


class StateFile(msgspec.Struct, kw_only=True):
    """`state/current_state.json`: the round clock. The coordinator alone writes it, and always forwards."""

    round: Round
    """The open round; when `finished`, the number of rounds done."""
    stage: Stage
    """The open stage."""
    created_at: UnixSeconds
    """When the experiment began."""
    updated_at: UnixSeconds
    """When this was written."""
    updated_by: str
    """The coordinator's node id."""
    experiment_name: str
    """The experiment."""
    max_rounds: Count = 0
    """How many rounds there will be; 0: not said."""
    finished: bool = False
    """All rounds are done; nodes save and end."""
    held: bool = False
    """The coordinator has come back and waits for its workers: nobody begins this round yet."""
    round_opened_at: UnixSeconds = 0.0
    """When this round was opened."""
    round_interval: Seconds = 0.0
    """The longest that a round stays open once a worker is there."""
    schema_version: int = SCHEMA_VERSION
    """The same in every form."""


class PeerFile(msgspec.Struct, kw_only=True):
    """`peers/{node}.json`: registration, and the heartbeat that readers watch for change."""

    peer_id: str
    """The node, as in the file's name."""
    registered_at: UnixSeconds
    """The earlier one keeps the id where two processes claim it."""
    node_role: str
    """`worker`, `coordinator`, or anything else: then nobody waits for it."""
    beat: Count = 0
    """Grows with each heartbeat. Liveness is judged by its change on the reader's own clock, never by timestamps."""
    last_seen: UnixSeconds = 0.0
    """When this was written."""
    status: str = "active"
    """`starting` (loads its model, or redoes rounds), `active`, `standby` (a coordinator that waits for another to
    die), `stopped`."""
    round: int = -1
    """The round it works on; -1: none yet."""
    stage: int = 0
    """The stage it works on."""
    phase: str = ""
    """What it does, for people: `generating`, `gathering`, `training`, ..."""
    phase_since: UnixSeconds = 0.0
    """Since when, by the clock of `last_seen`; 0: it did not say."""
    heartbeat_interval: Seconds = 0.0
    """Between two of its beats; 0: it did not say."""
    incarnation: str = ""
    """Random per process, so that two processes under one id notice each other."""
    host: str = ""
    """Machine / boot / process namespace: equal only where process ids mean the same processes."""
    pid: int = 0
    """Process id on that host."""
    process_started_at: float = 0.0
    """Clock ticks from boot to the start of that process (Linux); 0: unknown."""
    model: str = ""
    """Name of its policy."""
    needs_from: Round = 0
    """The first round whose rollouts it may still read: to learn from, or to redo rounds since a checkpoint of its."""
    mixture: dict[str, float] | UnsetType = UNSET
    """Task -> weight of the run's tasks that it asks, the same for the whole run; not said: all, as the experiment
    weighs them."""
    trains: bool | UnsetType = UNSET
    """False: its policy stays as it is, whatever it is waited for as."""
    plants: str | UnsetType = UNSET
    """Words that it puts in front of its right answers, as an instrument of a study."""
    schema_version: int = SCHEMA_VERSION


class RolloutEntry(msgspec.Struct, kw_only=True):
    """One completion of a group."""

    prompt: str
    """The question's text, without any model's prompt format."""
    response: str
    """The decoded completion, without special tokens."""
    reward: float | None = None
    """The publisher's own claim. Readers verify for themselves and never train on it."""
    finished: bool = True
    """The model ended it itself; false: cut at the length limit."""
    # The next two are read by the codec alone, which takes lists like these or none at all: what else is there is no
    # reason to refuse the text.
    token_ids: Annotated[Raw, Meta(description="list of integers")] | UnsetType = UNSET
    """The sampled ids, end-of-text included where finished."""
    logprobs: Annotated[Raw, Meta(description="list of numbers")] | UnsetType = UNSET
    """Their natural-log probabilities under the policy that sampled them, at its `temperature`, before top-p, top-k or
    min-p; nodes round to 5 decimals."""
    turns: Annotated[list[TurnEntry], EARLIER] | UnsetType = UNSET
    """Of a conversation: the model's turns before this one, 15 at most."""


class GroupInfo(msgspec.Struct, kw_only=True):
    """Holds what is said once per group."""

    task: str
    """The task's full name: of another family than the first, `family/task`."""
    answer: str | None = None
    """The ground truth, for people."""
    metadata: Annotated[Raw, Meta(description="object")] = Raw(b"{}")
    """The task's own, for people: readers make theirs anew and leave this one unparsed."""
    origin: Origin | None = None
    """What makes the question."""


class PolicyInfo(msgspec.Struct, kw_only=True):
    """Says who wrote the completions."""

    model: str = ""
    """Name; the first 80 characters are kept."""
    rounds_trained: Count = 0
    """Updates that it has had."""
    tokenizer: str | UnsetType = UNSET
    """What `token_ids` belong to; the first 80 characters are kept. Nodes write 32 hex digits, a digest that two models
    share only if an id means the same to both."""
    temperature: float | UnsetType = UNSET
    """Of the sampling, and so of the `logprobs`; it need not be the reader's, whose weights compare its policy with the
    one that sampled."""
    licence: str | UnsetType = UNSET
    """Of the texts, as an SPDX id; the first 80 characters are kept."""
    consent: str | UnsetType = UNSET
    """What who wrote the texts agrees to: `train` (others train on them) or `train+publish` (and publish them again);
    the first 80 characters are kept."""


class RolloutFile(msgspec.Struct, kw_only=True):
    """`rollouts/round_R/stage_S/{node}.json`: the node's I groups of that stage, keyed "0" .. "I-1"; of those that were
    published before, each in `{node}.{slot}.json`, it says how many there are."""

    peer_id: str
    """As in the path."""
    round: Count
    """As in the path."""
    stage: Count
    """As in the path."""
    timestamp: UnixSeconds
    """When it was published."""
    rollouts: dict[str, list[RolloutEntry]]
    """Slot `"0"` .. `"I-1"` -> the G >= 2 completions of one question; G is the same for all."""
    groups: dict[str, GroupInfo] = {}
    """Slot -> what is said once per group; needed for a group to be read."""
    policy: PolicyInfo = msgspec.field(default_factory=PolicyInfo)
    """Who wrote the completions."""
    earlier: dict[str, str] | UnsetType = UNSET
    """Of groups that were published before, and that `rollouts` lacks: slot -> SHA-256 of the bytes of
    `{node}.{slot}.json`, in lower-case hexadecimal."""
    mixture: dict[str, float] | UnsetType = UNSET
    """As in its registration."""
    schema_version: int = SCHEMA_VERSION


class SampledCompletion(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One completion, as its node sampled it."""

    text: str
    """The decoded completion, without special tokens."""
    finished: bool
    """The model ended it itself; false: cut at the length limit."""
    token_ids: list[Annotated[int, Meta(ge=0, lt=2**31)]]
    """The sampled ids, end-of-text included where finished."""
    logprobs: list[float]
    """Natural-log probabilities of these tokens at the sampling temperature, to the last digit."""
    turns: Annotated[list[SampledTurn], EARLIER] | UnsetType = UNSET
    """Of a conversation: the turns before this one."""

    @property
    def every_turn(self) -> list[SampledTurn | SampledCompletion]:
        """Returns all turns in order, this one last."""
        return [*(self.turns or ()), self]


class SampledGroup(msgspec.Struct, kw_only=True):
    """Holds the completions that a node sampled for one of its own questions."""

    prompt: str
    """The question's text, without any model's prompt format."""
    completions: list[SampledCompletion]
    """G of them."""
    context: list[str] | UnsetType = UNSET
    """Of a stage after the first, as in Origin."""


class CompletionsFile(msgspec.Struct, kw_only=True):
    """`completions/round_R/{node}.json`: a round's own completions as sampled, kept by a node for itself."""

    peer_id: str
    """The node, as in the file's name."""
    round: Round
    """As in the path."""
    stage: Stage
    """The stage that they were sampled for."""
    model: str
    """Name of the policy that sampled them."""
    tokenizer: str
    """Digest of the tokenizer that the token_ids belong to."""
    rounds_trained: Count
    """Updates behind that policy."""
    groups: list[SampledGroup]
    """In the order of slots, from 0 on."""
    ahead: bool = False
    """Sampled before the round was open."""
    schema_version: int = SCHEMA_VERSION


class RewardFile(msgspec.Struct, kw_only=True):
    """`rewards/round_R/stage_S/{node}.json`: the node has done this stage."""

    round: Round
    """Counted from 0."""
    stage: Stage
    """Counted from 0."""
    reward: Reward
    """Mean reward per completion on the node's own questions, 0 to 1."""
    peer_id: str
    """The node."""
    submitted_at: UnixSeconds
    """By the node's own clock."""
    winners: list[str] | UnsetType = UNSET
    """The vote, in a place where each request is paid for; elsewhere it has a file of its own, WinnersFile."""
    schema_version: int = SCHEMA_VERSION


class WinnersFile(msgspec.Struct, kw_only=True):
    """`winners/round_R/{node}.json`: the peers with the best mean reward of the round, in this node's own scoring."""

    round: Count
    """As in the path."""
    winners: list[str]
    """The nodes with the best mean reward of the round in this node's own scoring; more where they tie, none where
    nobody earned anything."""
    peer_id: str
    """As in the path."""
    submitted_at: UnixSeconds
    """When it was written."""
    schema_version: int = SCHEMA_VERSION


class ExperimentFile(msgspec.Struct, kw_only=True):
    """`experiment.json`: what makes this experiment what it is, written once by the coordinator that creates it."""

    experiment_name: str
    """The experiment."""
    created_at: UnixSeconds
    """When it was made."""
    created_by: str
    """By which node."""
    identity: dict[str, Any]
    """The settings that make the experiment; a coordinator with others refuses to start, a worker warns. `sampler` is
    there only if it is not `uniform`, and `adaptive` with the adaptive settings only if it is on."""
    versions: dict[str, str] = {}
    """Library -> version at the creator."""
    max_rounds: Count = 0
    """Rounds that its creator was asked for, where no coordinator's clock says it; 0: not said."""
    made_by: str | UnsetType = UNSET
    """Another program that made the run, such as `rl-swarm`: it is read, and no node starts in it."""
    id: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")] | UnsetType = UNSET
    """Random, 32 hexadecimal digits: signatures name it. Copies, mirrors and archives keep it."""
    schema_version: int = SCHEMA_VERSION


class MadeWith(msgspec.Struct, kw_only=True):
    """Says with what a node was started besides its settings."""

    command: str = ""
    """What was typed, the settings that the environment gave before it; secrets are left out."""
    sources: dict[str, str] = {}
    """Setting -> where its value came from, of those that are not at their defaults."""
    versions: dict[str, str] = {}
    """Library -> version."""
    code: str = ""
    """Digest of the code that computed; empty where a function of the user's own could not be read."""
    models: dict[str, str] = {}
    """Model -> digest of its files, or the commit of the Hugging Face Hub's."""
    machine: Annotated[dict[str, Any], Meta(description="object")] = {}
    """`system`, `processor`, `cores`, `memory_bytes`, `gpus`."""


class NodeStart(MadeWith, kw_only=True):
    """One line of `logs/{node}/starts.jsonl`: what a node was started with, written before its first round."""

    timestamp: UnixSeconds
    """When it was ready, by its own clock."""
    node_id: str
    """The node."""
    experiment: str
    """The experiment."""
    role: str
    """`worker` or `coordinator`."""
    incarnation: str
    """As in its registration."""
    settings: dict[str, Any]
    """Every setting, those at their defaults included; no secrets."""
    rounds_done: Count = 0
    """Rounds behind it."""
    schema_version: int = SCHEMA_VERSION


class NodeState(msgspec.Struct, kw_only=True):
    """`checkpoints/round_R/{node}/node.json`: what a node carries from round to round besides its policy."""

    node_id: str
    """The node; no other one reads it."""
    rounds_done: int
    """Also the R of its folder, and the task cursor: questions are drawn by round."""
    seed: int
    """Of the run."""
    cumulative_reward: float
    """Over all its rounds so far."""
    model: str
    """Name of its policy."""
    rounds_trained: int = 0
    """Rounds that changed the weights, so that a resumed node goes on publishing the right `policy.rounds_trained`."""
    stages_done: Stage | UnsetType = UNSET
    """Of the round that was begun, where the node was stopped between two stages of it."""
    prompt_date: str | UnsetType = UNSET
    """The date in its prompts, that of its first start, where its model's chat template writes one: `2026-01-31`."""
    schema_version: int = SCHEMA_VERSION


class CleanedFile(msgspec.Struct, kw_only=True):
    """`cleaned.json`: which rollouts are not where they were published. Written before any of them goes."""

    rollouts_before: Round
    """Those of earlier rounds may be gone."""
    archived: bool = False
    """They are in the archive."""
    cleaned_by: str = ""
    """The node, or `prune` for the command."""
    cleaned_at: UnixSeconds = 0.0
    """When, by its clock."""
    schema_version: int = SCHEMA_VERSION


class ArchiveFile(msgspec.Struct, kw_only=True):
    """`archive.json`: the first member of a file in the archive."""

    experiment: str
    """The experiment."""
    created_at: UnixSeconds
    """When that began; 0: nobody could tell. Files of an earlier run of the same name are not this one's."""
    round: Round
    """Whose rollouts these are."""
    files: dict[str, str]
    """Member -> its SHA-256, hexadecimal. Its name is its path below the experiment."""
    schema_version: int = SCHEMA_VERSION
