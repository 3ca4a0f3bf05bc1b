"""All that is known of one node of a run made by rl-swarm, and its rows and events in our form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, NamedTuple

import msgspec

from swarm.plugins.rl_swarm.forms import MetricsLine, ProgressLine, Registration, Reward, StartOutput
from swarm.plugins.rl_swarm.rewards import KnownReward, Unknown, added_to, by_round, measure, measure_file
from swarm.wire.messages import SCHEMA_VERSION, PeerFile

STARTED, COMPLETE, ERROR = "training_started", "training_complete", "error"
LARGEST_ERROR = 400
"""Characters of an error's text."""


@dataclass(frozen=True)
class Junk:
    """Lines that are none of the form."""

    first: Sequence[bytes] = ()
    count: int = 0

    def __iter__(self) -> Iterator[bytes]:
        """Yields as many lines as there are."""
        return chain(self.first, repeat(b"", self.count - len(self.first)))


class NodeFacts(NamedTuple):
    """Holds what was read of one node."""

    node: str
    registration: Registration | None
    said: StartOutput
    lines: list[MetricsLine]
    """Lines of its metrics.json or metrics.jsonl."""
    old_name: bool
    """It is metrics.json."""
    junk: Junk
    """What else stands there: readers count it."""
    torn: bool
    """It ends in half a line."""
    rewards: dict[int, Reward]
    """By round; read where it has no lines."""
    progress: list[ProgressLine]
    completions: int
    """Completions of one round; 0: unknown."""
    published: int
    """Rounds up to the last one with rollouts or a reward of it."""
    crashed_with: str = ""
    """The line with which it logged the exception that ended it; it calls such a training complete."""


class NodeRound(NamedTuple):
    """One round of a node."""

    number: int
    timestamp: float
    reward: KnownReward | Unknown
    adaptive: MetricsLine | None = None


def rounds_of(facts: NodeFacts) -> Iterator[NodeRound]:
    """Yields the node's rounds in order, those whose reward nobody can know included."""
    if not facts.lines:
        yield from _rounds_of_files(facts)
        return
    short = [line for line in facts.lines if line.my_reward is not None and line.mean_reward is None]
    added = added_to(short, old_name=facts.old_name)
    adaptive = None
    for number, lines in sorted(by_round(facts.lines).items()):
        # It is logged when a round is over, for the next one that the node does, which may have a higher number.
        adaptive = next((line for line in reversed(lines) if line.adaptive_J is not None), adaptive)
        reward = measure(lines, facts.completions, added=added)
        if reward is not None:
            done = [line for line in lines if line.adaptive_J is None] or lines
            yield NodeRound(number, max(line.timestamp for line in done), reward, adaptive)
            adaptive = None


def _rounds_of_files(facts: NodeFacts) -> Iterator[NodeRound]:
    for number, file in sorted(facts.rewards.items()):
        follows = number == 0 or number - 1 in facts.rewards
        yield NodeRound(number, file.submitted_at, measure_file(file, facts.completions, follows=follows))


def rows_of(facts: NodeFacts, experiment: str) -> Iterator[bytes]:
    """Yields the node's metrics rows: what is not recorded is not written."""
    cumulative, before = 0.0, facts.registration.registered_at if facts.registration else 0.0
    for done in rounds_of(facts):
        seconds, before = (done.timestamp - before if before else None), done.timestamp
        if isinstance(done.reward, Unknown):
            continue
        cumulative += done.reward.mean
        yield msgspec.json.encode(
            {
                "timestamp": done.timestamp,
                "round": done.number,
                "stage": 0,
                "node_id": facts.node,
                "experiment": experiment,
                "my_reward": done.reward.mean,
                "total_agents": 0,
                "cumulative_reward": cumulative,
                "clock": "own",
                **({"model": facts.said.model} if facts.said.model else {}),
                **({"seconds_round": seconds} if seconds is not None and seconds >= 0 else {}),
                **_adaptive(done.adaptive),
                "schema_version": SCHEMA_VERSION,
            }
        )
    yield from facts.junk


def _adaptive(line: MetricsLine | None) -> dict[str, Any]:
    names = ("adaptive_I", "adaptive_J", "adaptive_J_continuous")
    return {name: value for name in names if line is not None and (value := getattr(line, name)) is not None}


def rounds_done(facts: NodeFacts) -> int:
    """Returns rounds behind it, as far as anything it left shows."""
    logged = max((line.round for line in facts.lines if line.my_reward is not None), default=-1)
    return max(logged + 1, facts.published)


def events_of(facts: NodeFacts) -> Iterator[bytes]:
    """Yields the node's progress as our events. It says that training is complete whatever ended it, so that is held
    against what it did."""
    for entry in facts.progress:
        head = {"timestamp": entry.timestamp, "level": "info", "node_id": facts.node, "said": entry.event}
        if entry.event == STARTED:
            yield _event(head, "node.starting", model=facts.said.model)
        elif entry.event == ERROR:
            yield _event(head | {"level": "error"}, "process.crashed", error=entry.error_message[:LARGEST_ERROR])
        elif entry.event == COMPLETE:
            yield from _completed(facts, entry, head)
        else:
            yield _event(head, f"rl-swarm.{entry.event}"[:100])


def _completed(facts: NodeFacts, entry: ProgressLine, head: dict[str, Any]) -> Iterator[bytes]:
    if facts.crashed_with:
        yield _event(head | {"level": "error"}, "process.crashed", error=facts.crashed_with)
    done, asked = rounds_done(facts), entry.total_rounds
    if is_coordinator(facts):
        yield _event(head, "experiment.finished")
    elif not facts.crashed_with and asked is not None and done >= asked:
        yield _event(head, "node.finished", reason="finished", rounds_done=asked)
    elif not facts.crashed_with:
        yield _event(
            head | {"level": "warning"}, "node.finished", reason="stopped", rounds_done=done, rounds_asked=asked
        )


def _event(head: dict[str, Any], name: str, **fields: Any) -> bytes:
    return msgspec.json.encode(head | {"event": name} | fields)


def is_coordinator(facts: NodeFacts) -> bool:
    """Tells whether the node registered as a coordinator."""
    return facts.registration is not None and facts.registration.node_role == "coordinator"


def peer_of(facts: NodeFacts) -> PeerFile | None:
    """Returns the node's registration in our form. Nothing beats there: it was last seen when it last wrote."""
    if facts.registration is None:
        return None
    times = [line.timestamp for line in facts.lines] + [entry.timestamp for entry in facts.progress]
    times += [file.submitted_at for file in facts.rewards.values()]
    over = any(entry.event == COMPLETE for entry in facts.progress)
    return PeerFile(
        peer_id=facts.node,
        registered_at=facts.registration.registered_at,
        node_role=facts.registration.node_role,
        last_seen=max([facts.registration.registered_at, *times]),
        status="stopped" if over else "unknown",
        round=-1 if is_coordinator(facts) else rounds_done(facts) - 1,
        model=facts.said.model,
    )
