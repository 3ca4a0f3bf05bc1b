"""Rollout groups of a run, to be shown: question, completions, rewards, advantages, and who trained on them.

    rollouts, archive ─▶ RolloutFiles ─▶ read_groups: those that are wanted, each text cut to what is shown
    metrics.jsonl of all nodes ─────────▶ learners_of: which rows name a group among those trained on

A published reward is its publisher's claim; nodes verify for themselves. Advantages are computed from these claims by
the run's own scaling, as far as that is one of ours.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from swarm.algo.advantages import SCALINGS, group_advantages
from swarm.errors import ProtocolError
from swarm.records.archives import Archive
from swarm.records.files import known_experiment, read_clock
from swarm.records.growing import lines_of, parse_line
from swarm.records.listing import nodes_with_logs, rounds_in
from swarm.records.rollouts import RolloutFiles
from swarm.records.table import is_share
from swarm.store.run import Run
from swarm.types import Origin, RoundKey
from swarm.wire import keys
from swarm.wire.codec import MOST_COMPLETIONS, earlier_turns
from swarm.wire.messages import Count, GroupInfo, RolloutEntry, RolloutFile

MOST_FILE = 64 * 2**20
"""Bytes of one rollout file, its parts together; a node takes 8 MiB unless it is told otherwise."""
LONGEST_TEXT = 16_000
"""Characters of a question, completion, reply or answer that are held; how many more there are is said."""
LONGEST_NAME = 80
"""Characters of the name of a task, a model, a licence."""
LOOKED_BACK = 64
"""Rounds in which groups that are wanted are looked for, the latest first, where no round is asked for."""
MOST_LEARNERS = 1000
"""Rows of one group that are held."""
_SLOT = re.compile(r"0|[1-9][0-9]{0,5}")


class Turned(msgspec.Struct, frozen=True):
    """A turn of a conversation before its last one."""

    response: str
    reply: str
    """The environment's words."""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One completion of a group."""

    response: str
    """At most LONGEST_TEXT characters."""
    cut: int
    """Characters that are left out, of all its turns."""
    finished: bool
    """The model ended it itself; false: cut at the length limit."""
    claimed_reward: float | None
    """By its publisher; None: it claims none, or none in [0, 1]."""
    advantage: float | None
    """Advantage of that reward among those of its group; None where one is missing."""
    turns: tuple[Turned, ...] = ()
    """Turns of a conversation: those before the last one."""


class Learner(NamedTuple):
    """A row that names a group among those trained on."""

    node: str
    round: int


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The completions of one node to one question."""

    round: int
    stage: int
    node: str
    """Who published it."""
    slot: int
    task: str
    model: str
    question: str
    """At most LONGEST_TEXT characters."""
    cut: int
    """Characters of it that are left out."""
    answer: str | None
    """The ground truth as published; None where the task has no single one."""
    published_at: float
    """Unix seconds, by its publisher's clock."""
    rounds_trained: int
    """Updates behind the policy that wrote it."""
    licence: str
    """Licence of its texts; empty: not said."""
    completions: tuple[Shown, ...]
    trained_on: tuple[Learner, ...] = ()
    """Other nodes; a node trains on its own groups in any case."""
    origin: Origin | None = None
    """What makes the question."""

    @property
    def name(self) -> str:
        """Returns the group's name as rows write it."""
        return f"{self.node}/{self.round}/{self.stage}/{self.slot}"


class WantedGroups(NamedTuple):
    """Says which groups are wanted; what is empty takes all."""

    rounds: frozenset[int] = frozenset()
    """Empty: the latest round that has some."""
    stages: frozenset[int] = frozenset()
    nodes: frozenset[str] = frozenset()
    tasks: tuple[str, ...] = ()
    """Patterns of the task's name as a shell would match it."""

    def takes_file(self, key: RoundKey, node: str) -> bool:
        return (not self.stages or key.stage in self.stages) and (not self.nodes or node in self.nodes)

    def takes_task(self, task: str) -> bool:
        return not self.tasks or any(fnmatchcase(task, pattern) for pattern in self.tasks)


ALL_GROUPS = WantedGroups()


class FoundGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Holds some groups of a run."""

    groups: list[Group]
    """By round, stage, node and slot."""
    more: int
    """Groups that are wanted as well, and were not read."""
    refused: dict[str, str]
    """Key of a file that cannot be read -> why."""
    rounds: tuple[int, int] | None = None
    """The first and the last round of which there are rollouts; None: of none."""


def read_groups(run: Run, wanted: WantedGroups, most: int) -> FoundGroups:
    """Returns the first `most` groups that are wanted, with who trained on them, by all rows of all nodes.

    Raises:
        StoreError: rollouts cannot be listed.
    """
    found, there = FoundGroups(groups=[], more=0, refused={}), _rounds(run)
    latest = [frozenset({round_}) for round_ in reversed(there[-LOOKED_BACK:])]
    for rounds in [wanted.rounds] if wanted.rounds else latest:
        found = _read(run, RolloutFiles(run, rounds), wanted, most)
        if found.groups or found.more:
            break
    by_name = learners_of(run, {group.name for group in found.groups})
    told = [msgspec.structs.replace(group, trained_on=tuple(by_name.get(group.name, ()))) for group in found.groups]
    return msgspec.structs.replace(found, groups=told, rounds=(there[0], there[-1]) if there else None)


def _rounds(run: Run) -> list[int]:
    """Returns the rounds of which there are rollouts, as far as the clock has come: a folder's name costs a stranger
    nothing."""
    state = read_clock(run).state
    there = {*rounds_in(run.store, keys.ROLLOUTS), *Archive(run).rounds()}
    return sorted(round_ for round_ in there if state is None or round_ <= state.round)


def _read(run: Run, files: RolloutFiles, wanted: WantedGroups, most: int) -> FoundGroups:
    scaling = scaling_of(run)
    groups, refused, more = list[Group](), dict[str, str](), 0
    for key, node in (named for named in files if wanted.takes_file(*named)):
        try:
            file = files.decoded(key, node, MOST_FILE)
        except ProtocolError as error:
            refused[keys.rollout(key, node)] = str(error)
            continue
        if file is None:
            continue
        for slot in slots_of(file, wanted):
            if len(groups) < most:
                groups.append(group_of(file, slot, scaling))
            else:
                more += 1
    return FoundGroups(groups=groups, more=more, refused=refused)


def scaling_of(run: Run) -> str:
    """Returns the name of the run's scaling of advantages; empty for one that is not ours."""
    experiment = known_experiment(run)
    said = experiment.identity.get("advantage_scaling", "std") if experiment else "std"
    return said if isinstance(said, str) and said in SCALINGS else ""


def slots_of(file: RolloutFile, wanted: WantedGroups = ALL_GROUPS) -> list[str]:
    """Returns the slots of the groups that are wanted, in order; names that are no slots are left out."""
    named = [slot for slot in file.rollouts if _SLOT.fullmatch(slot)]
    return sorted((slot for slot in named if wanted.takes_task(_info(file, slot).task)), key=int)


def _info(file: RolloutFile, slot: str) -> GroupInfo:
    return file.groups.get(slot) or GroupInfo(task="")


def group_of(file: RolloutFile, slot: str, scaling: str) -> Group:
    """Returns one group of what a node published, its texts cut, its advantages by the scaling of this name."""
    info, entries = _info(file, slot), file.rollouts[slot][:MOST_COMPLETIONS]
    rewards = [entry.reward if entry.reward is not None and is_share(entry.reward) else None for entry in entries]
    question = entries[0].prompt if entries else ""
    return Group(
        round=file.round,
        stage=file.stage,
        node=file.peer_id,
        slot=int(slot),
        task=info.task[:LONGEST_NAME],
        model=file.policy.model[:LONGEST_NAME],
        question=question[:LONGEST_TEXT],
        cut=max(0, len(question) - LONGEST_TEXT),
        answer=None if info.answer is None else info.answer[:LONGEST_TEXT],
        published_at=file.timestamp,
        rounds_trained=file.policy.rounds_trained,
        licence=(file.policy.licence or "")[:LONGEST_NAME],
        completions=tuple(map(_shown, entries, rewards, advantages_of(rewards, scaling))),
        origin=info.origin,
    )


def advantages_of(rewards: Sequence[float | None], scaling: str) -> list[float | None]:
    """Computes advantages by the scaling of this name; None where it is not ours, or a reward is not known."""
    known = [reward for reward in rewards if reward is not None]
    if scaling not in SCALINGS or len(known) < len(rewards) or not known:
        return [None] * len(rewards)
    return [*group_advantages(known, SCALINGS[scaling])]


def _shown(entry: RolloutEntry, reward: float | None, advantage: float | None) -> Shown:
    turns = earlier_turns(entry.turns)
    texts = [entry.response, *(turn.text for turn in turns)]
    return Shown(
        response=entry.response[:LONGEST_TEXT],
        cut=sum(max(0, len(text) - LONGEST_TEXT) for text in texts),
        finished=entry.finished,
        claimed_reward=reward,
        advantage=advantage,
        turns=tuple(Turned(turn.text[:LONGEST_TEXT], turn.reply[:LONGEST_TEXT]) for turn in turns),
    )


class _Row(msgspec.Struct):
    round: Count
    trained_on: list[str] = []


def learners_of(run: Run, names: Iterable[str]) -> Mapping[str, Sequence[Learner]]:
    """Group, `node/round/stage/slot` -> the nodes whose rows say that they trained on it, by node and round.

    Only lines that hold a name are parsed.
    """
    asked = frozenset(names)
    found: dict[str, dict[Learner, None]] = defaultdict(dict)
    if not asked:
        return {}
    there = re.compile(b"|".join(sorted(re.escape(f'"{name}"'.encode()) for name in asked)))
    for node in nodes_with_logs(run):
        for line in filter(there.search, lines_of(run.store, keys.metrics(node))):
            row = parse_line(line, _Row)
            for name in asked.intersection(row.trained_on if row else ()):
                if row and len(found[name]) < MOST_LEARNERS:
                    found[name][Learner(node, row.round)] = None
    return {name: [*learners] for name, learners in found.items()}
