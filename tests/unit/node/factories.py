"""Peers, questions and policies that need no model, no child process and no time."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import anyio

from swarm.config import Settings
from swarm.config.own_code import of_the_user
from swarm.errors import ModelError, ProtocolError
from swarm.node.base.attendance import Submissions
from swarm.node.sharing.admission import AssignedQuestions
from swarm.node.worker.checkpoints import restore_newest
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.tasks.family import QuestionRequest
from swarm.tasks.scoring import GroupScore
from swarm.tasks.scoring_messages import Replied
from swarm.tasks.universe import Mixture, Universe
from swarm.types import (
    Bill,
    Completion,
    Dialogue,
    Origin,
    Question,
    Ready,
    RolloutGroup,
    RoundKey,
    ScoredGroup,
    Snapshot,
    TrainGroup,
    TrainReport,
)
from swarm.wire.codec import encode, to_rollout_file
from swarm.wire.messages import MetricsRow, NodeState, PeerFile, PolicyInfo, RewardFile, RolloutFile, StateFile
from tests.layout import Layout
from tests.patience import PATIENCE

Found = TypeVar("Found")
TASKS = ("bf", "arc_1d", "base_conversion")
UNIVERSE = Universe.of(TASKS, Settings().profile)
DRAWS = AssignedQuestions(Settings().seed, UNIVERSE)
"""What make_settings' swarm asks its nodes."""


# ── the folder ──────────────────────────────────────────────────────────────────────────────────────────────────────
MEASURED_COLUMNS = {
    "timestamp",
    *("memory_allocated", "memory_reserved", "memory_peak", "memory_total", "memory_free", "disk_free", "disk_used"),
    "executor_busy",
    "publish_to_pool",
    *("generating", "publishing", "fetching", "updating"),
    "bytes_published",  # a timestamp has more or fewer digits
    "bytes_fetched",  # the same, and a node that comes back reads peers' files again
    "accepted_by_peer",  # what it read between two rows
}
"""Of a metrics row, those that depend on time, on how full the machine is, or on when the folder was read; beside those
called seconds_*."""


def unmeasured(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row says, but for what was measured."""
    return {name: v for name, v in row.items() if name not in MEASURED_COLUMNS and not name.startswith("seconds_")}


def there(found: Found | None) -> Found:
    """What was found, where something has to be."""
    assert found is not None
    return found


def run_of(layout: Layout, writer: str = "test") -> Run:
    """The experiment, as a node of that name has it."""
    return open_place(layout.path).open(layout.experiment, writer=writer, trust=layout.trust)


def put(file: Path, content: bytes) -> None:
    """Write a file and the folders that it lies in; a node that looks meanwhile sees it whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    half = file.with_name(f".half-{file.name}")
    half.write_bytes(content)
    half.replace(file)


def make_peer(node: str, **more: Any) -> PeerFile:
    """A live worker's registration."""
    base: dict[str, Any] = {"registered_at": 1_700_000_000.0, "node_role": "worker", "incarnation": "first"}
    return PeerFile(**{"peer_id": node} | base | more)


def make_state(**more: Any) -> StateFile:
    """The clock at an open round 0 of 10; an end is that of the last round."""
    base: dict[str, Any] = {"round": 0, "stage": 0, "created_at": 1_700_000_000.0, "updated_at": 1_700_000_100.0}
    last = max(1, more["round"]) if more.get("finished") else 10
    named = {"updated_by": "coordinator", "experiment_name": "exp", "max_rounds": last}
    return StateFile(**base | named | more)


def make_row(round_: int = 0, **more: Any) -> MetricsRow:
    """A row of alice's in which nothing else is said."""
    base = {"timestamp": 0.0, "stage": 0, "node_id": "alice", "experiment": "exp", "my_reward": 0.0, "total_agents": 1}
    return MetricsRow(round=round_, **base | more)


def make_settings(path: Path, **more: Any) -> Settings:
    """A small and impatient swarm: I = 2, J = 2, G = 4."""
    fields: dict[str, Any] = {
        "path": str(path),
        "experiment": "exp",
        "max_rounds": 5,
        "local_groups": 2,
        "external_groups": 2,
        "generations": 4,
        "round_interval": 30.0,
        "settle_time": 0.0,
        "heartbeat_interval": 0.05,
        "liveness_timeout": 5.0,
        "reconcile_interval": 0.1,
        "checkpoint_interval": 0,
        "model": ("fake",),
        **more,
    }
    return Settings().with_values({name: of_the_user(name, value) for name, value in fields.items()})


# ── questions and rewards ───────────────────────────────────────────────────────────────────────────────────────────
def fake_question(origin: Origin) -> Question:
    """A question is a function of its origin."""
    return Question(prompt=f"{origin.task} {origin.seed}?", origin=origin, answer=_digest(origin.task, origin.seed))


def said(completion: Completion) -> str | list[tuple[str, str]]:
    """Its text, or all that was said."""
    return (
        [(turn.text, getattr(turn, "reply", "")) for turn in completion.every_turn]
        if completion.earlier
        else completion.text
    )


class FakeTaskSource:
    """Questions and scores without reasoning-gym."""

    def __init__(self, slow: float = 0.0) -> None:
        """`slow`: seconds that making questions takes."""
        self._slow = slow
        self.scored: list[str] = []
        self.asked = 0
        """Questions made."""

    async def make(self, requests: Sequence[QuestionRequest]) -> list[Question]:
        self.asked += len(requests)
        await anyio.sleep(self._slow)
        return [fake_question(r.origin("fake")) for r in requests]

    async def reply(self, origin: Origin, conversations: Sequence[Sequence[str]]) -> Replied:
        return Replied((None,) * len(conversations))

    async def score(
        self, origin: Origin, claimed_prompt: str | None, completions: Sequence[str | Completion]
    ) -> GroupScore:
        question = fake_question(origin)
        if claimed_prompt not in (None, question.prompt):
            raise ProtocolError("question_mismatch", f"{claimed_prompt!r} is not {question.prompt!r}")
        self.scored.append(question.prompt)
        texts = ["\n".join(one.texts) if isinstance(one, Completion) else one for one in completions]
        return self.judged(origin, GroupScore(question, fake_rewards(texts), (True,) * len(texts), killed=0, errors=0))

    def judged(self, origin: Origin, score: GroupScore) -> GroupScore:
        """What becomes of a score."""
        return score


def fake_rewards(texts: Sequence[str]) -> tuple[float, ...]:
    """1 for the texts whose digest is odd."""
    return tuple(float(int(_digest(text), 16) % 2) for text in texts)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


# ── policies ────────────────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class FakeSnapshot:
    """One text file."""

    content: str

    def write(self, directory: str) -> None:
        (Path(directory) / "weights.txt").write_text(self.content)

    @staticmethod
    def read(directory: str) -> str:
        return (Path(directory) / "weights.txt").read_text()


@dataclass
class FakePolicy:
    """Its weights are a digest of all that it was trained on; its answers are a function of them and the seed."""

    weights: str = "fresh"
    name: str = "fake"
    tokenizer: str = "fake-tokenizer"
    repeats: bool = True
    bill: Bill | None = None
    trained: list[list[TrainGroup]] = field(default_factory=list)
    """What each update was given."""
    begun: list[TrainGroup] = field(default_factory=list)
    """What begin_update was given."""
    generated: int = 0
    fail_at: int | None = None
    """Raise in the update with this number."""
    unreadable: str = ""
    """A prompt that it cannot take."""
    hold_at: str = ""
    """`generate`, `others` (than the first group), `begin` or `train`: that step waits for `go`."""
    go: threading.Event = field(default_factory=threading.Event)
    holding: threading.Event = field(default_factory=threading.Event)
    """Set once a step waits."""

    def has_room(self, prompt: str) -> bool:
        return True

    def generate(
        self, prompts: Sequence[str | Dialogue], *, group_size: int, seed: int, ready: Ready | None = None
    ) -> list[tuple[Completion, ...]]:
        self._hold("generate")
        if self.unreadable in prompts:
            raise ModelError("out of GPU memory even at a batch of 1")
        self.generated += 1
        rng = Random(f"{seed} {self.weights}")
        groups = [
            tuple(
                Completion(f"<answer>{rng.randrange(10**6)}</answer>", True, (1, 2), (-0.1, -0.2))
                for _ in range(group_size)
            )
            for _ in prompts
        ]
        for index, group in enumerate(groups if ready else ()):
            assert ready
            ready(index, group)
            if index == 0:
                self._hold("others")
        return groups

    def begin_update(self, groups: Sequence[TrainGroup]) -> None:
        self._hold("begin")
        self.begun = list(groups)

    def finish_update(self, groups: Sequence[TrainGroup]) -> TrainReport:
        self._hold("train")
        if self.fail_at == len(self.trained):
            raise RuntimeError("the gradient exploded")
        groups, self.begun = [*self.begun, *groups], []
        self.trained.append(groups)
        texts = [(g.prompt, [said(c) for c in g.completions], g.advantages) for g in groups if any(g.advantages)]
        if texts:
            self.weights = _digest(self.weights, texts)
        return TrainReport(loss=0.5, grad_norm=1.0, tokens=10, trained_tokens=10, updated=bool(texts))

    def _hold(self, step: str) -> None:
        if self.hold_at == step:
            self.holding.set()
            assert self.go.wait(PATIENCE), "nobody let it go"

    def part(self, name: str) -> Any:
        return self

    def export_weights(self) -> bytes:
        return f"weights {self.weights}".encode()

    def refuse_weights(self, file: str) -> None:
        if not Path(file).read_bytes().startswith(b"weights "):
            raise ProtocolError("other_weights", "expected those of a light policy")

    def average(self, files: Sequence[str]) -> None:
        self.weights = _digest([Path(file).read_bytes() for file in files])

    def snapshot(self) -> Snapshot:
        return FakeSnapshot(self.weights)

    def restore(self, snapshot_dir: str) -> None:
        self.weights = FakeSnapshot.read(snapshot_dir)


def newest_checkpoint(layout: Layout, node: str) -> tuple[NodeState, Path] | None:
    """What a node that starts now would go on from, and out of which folder."""
    state = restore_newest(run_of(layout, node).store, node, lambda _: None)
    return (state, layout.checkpoint(state.rounds_done, node)) if state else None


def rounds_saved(layout: Layout, node: str = "alice") -> int:
    """Behind the checkpoint that a node would go on from, which has to be there."""
    return there(newest_checkpoint(layout, node))[0].rounds_done


# ── a peer that exists only as files ────────────────────────────────────────────────────────────────────────────────
def make_rollouts(
    peer: str,
    key: RoundKey,
    *,
    groups: int = 2,
    size: int = 4,
    seed: int = 7,
    assigned: AssignedQuestions = DRAWS,
    mixture: Mixture | None = None,
) -> RolloutFile:
    """A peer's groups of one round, to the questions that the run draws for it; its answers differ by seed."""
    asked = assigned.questions(peer, key, groups, mixture)
    scored = [_scored_group(peer, key, slot, question, size, seed) for slot, question in enumerate(asked)]
    policy = PolicyInfo(model="ghost", rounds_trained=key.round)
    return to_rollout_file(scored, peer, key, 1_700_000_000.0, policy, mixture=mixture and mixture.weights)


def _scored_group(peer: str, key: RoundKey, slot: int, asked: QuestionRequest, size: int, seed: int) -> ScoredGroup:
    origin = asked.origin("fake")
    texts = [f"<answer>{_digest(peer, key, slot, seed, number)}</answer>" for number in range(size)]
    completions = tuple(Completion(text, True) for text in texts)
    group = RolloutGroup(peer, *key, slot, fake_question(origin), completions, "ghost")
    return ScoredGroup(group, fake_rewards(texts), (True,) * size)


def make_ghost(layout: Layout, node: str, *, rounds: int = 0, says: int = 0) -> None:
    """A peer that looks alive for as long as `liveness_timeout`, has done so many rounds already, and says in which it
    is.
    """
    put(layout.peer_file(node), encode(make_peer(node, last_seen=time.time(), round=says)))
    for round_ in range(rounds):
        put(layout.rollout_file(RoundKey(round_), node), encode(make_rollouts(node, RoundKey(round_))))
        put_reward(layout, RoundKey(round_), node)


def put_reward(layout: Layout, key: RoundKey, node: str) -> None:
    """A node has done a round."""
    if not layout.rollout_file(key, node).exists():
        put(layout.rollout_file(key, node), encode(make_rollouts(node, key)))
    reward = RewardFile(round=key.round, stage=key.stage, reward=0.5, peer_id=node, submitted_at=1_700_000_000.0)
    put(layout.reward_file(key, node), encode(reward))


def put_traces(layout: Layout, round_: int) -> None:
    """Somebody who is gone by now has done a round shortly before this one, as a clock that stands there shows."""
    if round_ and not Submissions(run_of(layout)).lie_before(round_):
        put_reward(layout, RoundKey(max(0, round_ - 4)), "departed")


def put_state(layout: Layout, **more: Any) -> None:
    """What a registered coordinator, dead by now, has written: by name `coordinator`, if nothing else is said."""
    state = make_state(**more)
    put(layout.state_file, encode(state))
    if not layout.peer_file(state.updated_by).exists():
        put(layout.peer_file(state.updated_by), encode(make_peer(state.updated_by, node_role="coordinator")))
