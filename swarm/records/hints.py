"""Hints: what makes a node useless although nothing fails, from its rows, with the evidence and what to do. Pure.

    the last rows of a node, facts of the experiment ─▶ RULES ─▶ Hint ─▶ its log, once; up, status, summary, doctor

A rule is silent in a healthy run: it speaks where its sign is there in every row of a window so long that chance does
not explain it. docs/hints.md has each by its code.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from statistics import median
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from swarm.harmless import printable
from swarm.records.growing import LONGEST_NAME
from swarm.wire.metrics import MetricsRow

KEPT = 100
"""Rows of a node that the rules look at."""
FEW = 10
"""Rounds after which what should be there in every round, and is in none, is said."""
COMPLETIONS = 2_000
"""So many without a tag are no chance, where one in a hundred has one (e^-20)."""
GROUPS = 400
"""So many without an advantage are no chance, where one in forty has one (e^-10)."""
STILL = 100
"""Rounds without an update."""
FILLING, NEARLY_FULL, FULL = 0.75, 0.9, 1.01
"""Shares of memory and disk that are said."""
PLENTY = 10**11
"""Bytes free; of a disk with more nothing is said, however small a share of it that is."""
FAR = 3.0
"""Nats per token by which one peer's texts are less likely than the others'; e^-3 is one in twenty."""
GB = 10**9
MOST_SLOW = 2
"""Slow peers that a hint names."""
PAGE = "docs/hints.md"


class Hint(msgspec.Struct, frozen=True):
    """One thing that is wrong with some nodes."""

    code: str
    """Its name, and its heading in docs/hints.md."""
    nodes: tuple[str, ...]
    evidence: str
    """Evidence of the first of them."""
    remedy: str

    @property
    def page(self) -> str:
        """Returns where more of it is said."""
        return f"{PAGE}#{self.code}"


class HintFacts(NamedTuple):
    """Holds what the rules know besides a node's own rows."""

    generations: int = 8
    """Completions per group (G)."""
    external_groups: int = 0
    """J of the experiment, or of its other nodes."""
    round_interval: float = 0.0
    """The longest that a round stays open, seconds; 0.0: not known, or each node keeps its own clock."""
    refused: Mapping[str, int] = {}
    """Reason -> how often others refused groups of this node."""
    accepted: int = 0
    """Groups of this node that others verified."""
    trains: bool = True
    """It has a policy that learns."""
    over: int = 0
    """Rounds of an experiment that is over; 0: it goes on, or each node keeps its own clock."""
    opened: int = 0
    """Rounds that the clock has opened; 0: not known."""
    slow: Mapping[str, float] = {}
    """Peer -> seconds that its round takes, of those whose rounds take longer than the clock's last."""
    experiment: str = ""
    """Its name."""


class Recent(msgspec.Struct, frozen=True, gc=False):
    """Holds what the rules need of one row, in a fixed size, whatever a row of a stranger's holds."""

    round: int
    timestamp: float
    my_reward: float
    late: bool
    total_agents: int
    local_groups: int
    zero_advantage_local: float
    answer_tag_rate: float
    finished_rate: float
    external_wanted: int
    external_groups: int
    pool_groups: int
    peers_heard: int
    updated: bool
    seconds_round: float
    seconds_work: float
    """Of the round, without waiting for others."""
    tokens_generated: int
    refused: int
    """Peers' files and groups."""
    refused_as: str
    """The commonest reason; empty where there is none."""
    memory_used: float
    """Share of the device's, whoever holds it; 0.0: not known."""
    memory_allocated: int
    """Bytes that the node's process holds."""
    memory_total: int
    disk_used: float
    """Share of the shared place's; 0.0: not known."""
    disk_free: int
    """Bytes."""
    odd_peer: str
    """Whose right answers the policy found least likely; empty of fewer than three peers."""
    odd_gap: float
    """By how much less per token than the median of the others', nats."""
    quarantined: int
    """Peers."""
    quarantined_peer: str
    """One of them."""
    task: str
    """The one that earned least; empty where none was asked."""


WORK = ("seconds_generate", "seconds_score", "seconds_publish", "seconds_lease", "seconds_train")
"""Columns of what a node does in a round by itself."""
_SAME = sorted({*Recent.__struct_fields__} & {*MetricsRow.__struct_fields__} - {"quarantined"})
RECENT = (
    *_SAME,
    *("refused_files", "quarantined", "logprobs_by_peer", "memory_free", "cumulative_reward", "pool_informative"),
    *("clock", "local_groups", "role", "task_rewards"),
    *WORK,
)
"""Columns of a node's last rows: those that the rules need, and those that are shown of the last one."""
_same = attrgetter(*_SAME)
_UNKNOWN = {"disk_used": 0.0, "disk_free": 0, "memory_allocated": 0, "memory_total": 0}
"""Value of columns that a row may lack."""


def recent(row: MetricsRow) -> Recent:
    """Returns the part of a row that the rules need."""
    same = dict(zip(_SAME, _same(row), strict=True))
    for field, none in _UNKNOWN.items():
        if same[field] is UNSET:
            same[field] = none
    odd_peer, odd_gap = _odd(row.logprobs_by_peer)
    return Recent(
        **same,
        odd_peer=odd_peer,
        odd_gap=odd_gap,
        memory_used=_used(row),
        seconds_work=sum(getattr(row, column) for column in WORK),
        refused=sum(row.refused_files.values()),
        refused_as=max(row.refused_files, key=row.refused_files.__getitem__, default="")[:LONGEST_NAME],
        quarantined=len(row.quarantined),
        quarantined_peer=row.quarantined[0][:LONGEST_NAME] if row.quarantined else "",
        task=hardest(row)[:LONGEST_NAME],
    )


def hardest(row: MetricsRow) -> str:
    """Returns the task of which the own questions earned least; empty where none was asked."""
    return min(row.task_rewards, key=row.task_rewards.__getitem__, default="")


def ask(task: str, models: Iterable[str] = (), experiment: str = "") -> str:
    """Returns the command that shows what a model writes to a task of an experiment, as far as they are known."""
    of = f" --experiment {_typed(experiment)}" if experiment else ""
    return f"`swarm ask{of} --model {_typed(next(iter(models), 'MODEL'))} --task {_typed(task or 'TASK')}`"


def probe(models: Iterable[str] = ()) -> str:
    """Returns the command that measures what a model can learn from."""
    return f"`swarm probe --model {_typed(next(iter(models), 'MODEL'))}`"


def _typed(name: str) -> str:
    return shlex.quote(printable(name))


def _odd(by_peer: dict[str, float] | UnsetType) -> tuple[str, float]:
    if by_peer is UNSET or len(by_peer) < 3:
        return "", 0.0
    peer = min(by_peer, key=by_peer.__getitem__)
    others = median(value for name, value in by_peer.items() if name != peer)
    return peer[:LONGEST_NAME], others - by_peer[peer]


def _used(row: MetricsRow) -> float:
    free, total = row.memory_free, row.memory_total
    if free is UNSET or total is UNSET or not 0 <= free <= total or not total:
        return 0.0
    return 1 - free / total


Said = tuple[str, str] | None
"""Evidence and remedy."""
Rule = Callable[[Sequence[Recent], HintFacts], Said]


def hints_of(node: str, rows: Iterable[Recent], facts: HintFacts) -> list[Hint]:
    """Returns the hints about one node, by its last rows in their order."""
    known = list(rows)
    said = {code: rule(known, facts) for code, rule in RULES.items() if facts.trains or code not in OF_TRAINING}
    return [Hint(code, (node,), *found) for code, found in said.items() if found]


def merged(hints: Iterable[Hint]) -> list[Hint]:
    """Returns one hint per code, of all nodes that have it."""
    nodes: dict[str, list[Hint]] = {}
    for hint in hints:
        nodes.setdefault(hint.code, []).append(hint)
    return [
        msgspec.structs.replace(of_code[0], nodes=tuple(node for hint in of_code for node in hint.nodes))
        for of_code in nodes.values()
    ]


def short_rounds(rows: Sequence[Recent], facts: HintFacts) -> Said:
    """The clock moves on before the node begins to train."""
    last = rows[-FEW:]
    late = sum(row.late for row in last)
    if 0 < len(rows) < FEW <= facts.opened and (needs := seconds_needed(rows)) > facts.round_interval > 0:
        return (
            f"took part in {len(rows)} of {facts.opened} rounds: its work takes {needs:.0f} s, a round lasts "
            f"{facts.round_interval:g} s",
            _longer(needs),
        )
    if len(last) < FEW or 2 * late < FEW:
        return None
    takes = median(row.seconds_round for row in last)
    open_for = f"a round lasts at most {facts.round_interval:g} s, " if facts.round_interval else ""
    if not facts.trains:
        return (
            f"late in {late} of its last {FEW} rounds, which end without it",
            "start it with SWARM_AWAITED=True, and set COORDINATOR_ROUND_INTERVAL above the time that its answers take",
        )
    return (
        f"late in {late} of its last {FEW} rounds: {open_for}its work takes {takes:.1f} s",
        _longer(takes),
    )


def seconds_needed(rows: Sequence[Recent]) -> float:
    """Returns the seconds that a round of a node takes without waiting for others, as the median of its last rows."""
    return median(row.seconds_work for row in [*rows][-FEW:])


def _longer(seconds: float, who: str = "it") -> str:
    return f"set COORDINATOR_ROUND_INTERVAL to {max(1.0, 2 * seconds):.0f} or more, or give {who} less work"


def nothing_heard(rows: Sequence[Recent], facts: HintFacts) -> Said:
    """External groups are wanted, peers are alive, and none of their groups can be used."""
    last = rows[-FEW:]
    if len(last) < FEW or any(row.pool_groups or not row.external_wanted or row.total_agents < 2 for row in last):
        return None
    heard, peers = max(row.peers_heard for row in last), max(row.total_agents for row in last) - 1
    if refused := sum(row.refused for row in last):
        reason = Counter(row.refused_as for row in last if row.refused_as).most_common(1)[0][0]
        return (
            f"no group of its {peers} live peers was usable in {FEW} rounds: {refused} refused, most of them {reason}",
            "use the same SEED, SWARM_TASKS, SWARM_PROFILE and versions on all nodes",
        )
    if slow := sorted(facts.slow.items(), key=lambda one: -one[1])[:MOST_SLOW]:
        names = " and ".join(peer for peer, _ in slow)
        needs = " and ".join(f"{peer} needs {seconds:.0f} s" for peer, seconds in slow)
        return (
            f"received nothing from {names} in {FEW} rounds: {needs}, a round lasts {facts.round_interval:g} s",
            _longer(slow[0][1], names),
        )
    return (
        f"received no group from {peers} live {'peer' if peers == 1 else 'peers'} in {FEW} rounds; "
        f"at most {heard} had files in a round",
        "set COORDINATOR_ROUND_INTERVAL above the time that a peer's round takes; if the folder shows files late, see "
        "`swarm doctor`",
    )


def trains_alone(rows: Sequence[Recent], facts: HintFacts) -> Said:
    """Finds that it wants no external groups where its experiment does."""
    last = rows[-FEW:]
    if len(last) < FEW or not facts.external_groups:
        return None
    if any(row.external_wanted or row.total_agents < 2 for row in last):
        return None
    return (
        f"trains alone: it wanted no external groups in {FEW} rounds, and its experiment has J = "
        f"{facts.external_groups}",
        "start it again without NUM_TRANSPLANT_TREES: it then takes J from the experiment",
    )


def refused_everywhere(rows: Sequence[Recent], facts: HintFacts) -> Said:
    """Peers refuse what it publishes, and none of them has taken a group of it."""
    refused = Counter(facts.refused)
    if refused.total() < FEW or facts.accepted:
        return None
    reason, count = refused.most_common(1)[0]
    return (
        f"its peers refuse all that it publishes: {refused.total()} times, {count} of them {reason}",
        "use the experiment's SEED, SWARM_TASKS, SWARM_PROFILE and versions (`swarm join` takes them from it)",
    )


def _ask(rows: Sequence[Recent], facts: HintFacts) -> str:
    return ask(rows[-1].task, (), facts.experiment)


def never_tagged(rows: Sequence[Recent], facts: HintFacts) -> Said:
    """Finds that no completion has a closed answer, so nothing can be earned."""
    completions = facts.generations * sum(row.local_groups for row in rows)
    if completions < COMPLETIONS or any(row.answer_tag_rate for row in rows):
        return None
    return (
        f"none of its last {completions} completions has a closed <answer>...</answer>, so none can earn anything",
        f"see what it is asked and writes ({_ask(rows, facts)}); take a model that follows instructions, change the "
        "prompt (SWARM_SYSTEM_PROMPT, SWARM_INSTRUCTION), or warm it up on the format first (`swarm model build`)",
    )


def never_finished(rows: Sequence[Recent], facts: HintFacts) -> Said:
    """All completions are cut at the length limit."""
    last = rows[-2 * FEW :]
    if len(last) < 2 * FEW or any(row.finished_rate for row in last) or not any(row.local_groups for row in last):
        return None
    return (
        f"every completion of its last {2 * FEW} rounds was cut at the length limit",
        f"see what it writes ({_ask(rows, facts)}); raise SWARM_MAX_NEW_TOKENS, end answers at a string "
        "(SWARM_STOP), or take a model that ends them",
    )


def equal_groups(rows: Sequence[Recent], facts: HintFacts) -> Said:
    """Finds that no own group has an advantage, and none of the peers' either."""
    groups = sum(row.local_groups for row in rows)
    if groups < GROUPS or any(row.zero_advantage_local < 1 or row.external_groups for row in rows):
        return None
    reward = sum(row.my_reward for row in rows) / len(rows)
    if reward > 0.5:
        return (
            f"all rewards in each of its last {groups} groups are equal, {reward:.2f} on average: nothing is left to "
            "learn",
            f"choose harder questions (SWARM_PROFILE, SWARM_TASKS): {probe()} measures which teach it anything",
        )
    return (
        f"all rewards in each of its last {groups} groups are equal, {reward:.2f} on average: nothing can be learned",
        f"choose easier questions (SWARM_PROFILE, SWARM_TASKS): {probe()} measures which teach it anything; or a "
        "stronger model, or more completions per group (NUM_GENERATIONS)",
    )


def never_updated(rows: Sequence[Recent], facts: HintFacts) -> Said:
    """The weights stay as they are."""
    last = rows[-STILL:]
    if len(last) < STILL or any(row.updated for row in last):
        return None
    return (
        f"its weights have not changed in {STILL} rounds",
        "its groups have no advantage and it skips such updates (SWARM_EMPTY_UPDATE), or gradients are not finite: "
        "lower SWARM_LEARNING_RATE",
    )


def quarantines(rows: Sequence[Recent], facts: HintFacts) -> Said:
    """Finds that it reads nothing of some peer for now."""
    if not rows or not rows[-1].quarantined:
        return None
    last = rows[-1]
    others = f" and {last.quarantined - 1} more" if last.quarantined > 1 else ""
    reasons = Counter(row.refused_as for row in rows if row.refused_as).most_common(1)
    mostly = f", mostly as {reasons[0][0]}" if reasons else ""
    return (
        f"it reads nothing from {last.quarantined_peer}{others}: it refused most of their groups{mostly}",
        "use the same settings and versions on all nodes; if nobody knows this peer, stop it",
    )


def odd_peer(rows: Sequence[Recent], facts: HintFacts) -> Said:
    """Finds a peer whose right answers are far from what the node itself would write, unlike those of other peers."""
    far = Counter(row.odd_peer for row in rows[-3 * FEW :] if row.odd_peer and row.odd_gap >= FAR)
    peer, count = max(far.items(), key=lambda one: one[1], default=("", 0))
    if count < FEW:
        return None
    gap = median(row.odd_gap for row in rows[-3 * FEW :] if row.odd_peer == peer and row.odd_gap >= FAR)
    return (
        f"it finds right answers of {peer} {gap:.1f} nats per token less likely than those of other peers, in {count} "
        f"of its last {3 * FEW} rounds",
        "read what this peer writes (`swarm inspect`); to keep its words out, learn from answers alone "
        "(SWARM_EXTERNAL_REASONING=answer) or set SWARM_EXTERNAL_LOGPROB_FLOOR",
    )


def _least(shares: Sequence[float], low: float, high: float) -> float | None:
    """Returns the least of the last shares, where there are enough of them and it lies between these; else None."""
    last = shares[-FEW:]
    return least if len(last) == FEW and low <= (least := min(last)) < high else None


def _memory(low: float, high: float, remedy: str) -> Rule:
    """Finds that the memory of its device has been so full in each of the last rounds."""

    def rule(rows: Sequence[Recent], facts: HintFacts) -> Said:
        if (least := _least([row.memory_used for row in rows], low, high)) is None:
            return None
        held, total = rows[-1].memory_allocated / GB, rows[-1].memory_total / GB
        return (
            f"the memory of its device has been {least:.0%} full or more for {FEW} rounds: its process holds "
            f"{held:.1f} of {total:.1f} GB",
            remedy,
        )

    return rule


def _disk(low: float, high: float, remedy: str) -> Rule:
    """Finds that the disk of the shared place has been so full in each of the last rounds, and is not a large one."""

    def rule(rows: Sequence[Recent], facts: HintFacts) -> Said:
        least = _least([row.disk_used for row in rows], low, high)
        if least is None or rows[-1].disk_free > PLENTY:
            return None
        return f"the disk of the shared place is {least:.0%} full, {rows[-1].disk_free / GB:.2f} GB are free", remedy

    return rule


def left_before_the_end(rows: Sequence[Recent], facts: HintFacts) -> Said:
    """A worker that was killed, or came back when all was over: others went on without it."""
    done = rows[-1].round + 1 if rows else 0
    if not rows or done >= facts.over - 1:
        return None
    return (
        f"its last round was {done} of {facts.over}, and the experiment is over",
        "with more --rounds for the coordinator, and the node started again, it goes on",
    )


RULES: Mapping[str, Rule] = {
    "left-before-the-end": left_before_the_end,
    "short-rounds": short_rounds,
    "nothing-heard": nothing_heard,
    "trains-alone": trains_alone,
    "refused-everywhere": refused_everywhere,
    "never-tagged": never_tagged,
    "never-finished": never_finished,
    "equal-groups": equal_groups,
    "never-updated": never_updated,
    "quarantine": quarantines,
    "odd-peer": odd_peer,
    "memory-75": _memory(
        FILLING,
        NEARLY_FULL,
        "start no more nodes on it; several in one process (--in-process) need less (`swarm plan`)",
    ),
    "memory-90": _memory(  # longer answers than before may end the node
        NEARLY_FULL,
        FULL,
        "stop other programs there, run fewer nodes, or lower SWARM_MICRO_BATCH_TOKENS (`swarm plan`)",
    ),
    "disk-75": _disk(
        FILLING, NEARLY_FULL, "free space, or ask for fewer rounds; `swarm doctor` says how much the run still writes"
    ),
    "disk-90": _disk(
        NEARLY_FULL, FULL, "free space now (`swarm experiment clean NAME` deletes a run), or lower CHECKPOINT_KEEP"
    ),
}
"""Code -> rule."""
OF_TRAINING = {"nothing-heard", "trains-alone", "equal-groups", "never-updated"}
"""Those that say nothing of a node that only generates."""
