"""Copies a run that another program made into an experiment of our form, which is read and never gone on with.

    source, through its adapter ─▶ experiment.json (made_by) ─▶ registrations, rewards, rollouts, votes, logs
                                ─▶ import.json

The source is only read. import.json says where each number came from; each metrics row says it too, in `rl_swarm`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from swarm.errors import ProtocolError
from swarm.plugins.rl_swarm.nodes import rounds_of
from swarm.plugins.rl_swarm.rewards import KnownReward, Unknown
from swarm.plugins.rl_swarm.run import RlSwarmRun
from swarm.plugins.rl_swarm.store import RL_SWARM, RlSwarmStore
from swarm.records.growing import GrowingLines
from swarm.records.listing import count_files, entries
from swarm.records.made_by import NOT_RECORDED
from swarm.store.base import Kind, Store
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.kinds import SCHEMA_VERSION

LARGEST_FILE = 64 * 2**20
"""Bytes; of the source's files none comes near."""
MOST_REFUSED = 100
"""Files that are named as not taken over."""
COLUMNS = {
    "my_reward": "the sum of rewards over the node's completions of the round / their number; see `nodes`",
    "cumulative_reward": "sum of my_reward over the rounds whose reward is known",
    "timestamp": "of the round's last line, or of its reward file",
    "seconds_round": "from the line of the round before; of the first one from the registration",
    "model": "as the node printed it at its start",
    "adaptive_I, adaptive_J, adaptive_J_continuous": "the same fields; its baseline and round reward are of sums",
    "clock": "own: rl-swarm's workers go on by themselves, its coordinator's clock is a timer",
}


class ImportedNode(msgspec.Struct):
    """Says where the rewards of one node came from."""

    completions_per_round: int
    """0: unknown."""
    rewards_from: dict[str, int]
    """Formula -> rounds."""
    unknown: dict[int, str]
    """Round -> why its reward is unknown; it has no row."""


class ImportFile(msgspec.Struct):
    """`import.json`."""

    made_by: str
    source: str
    """Where the run lay."""
    imported_at: float
    """Unix seconds."""
    nodes: dict[str, ImportedNode]
    columns: dict[str, str]
    """Column -> what it was made from."""
    not_recorded: list[str]
    """Columns of a metrics row without a value."""
    not_taken: list[str]
    """Files that could not be read as what they are, at most MOST_REFUSED."""
    schema_version: int = SCHEMA_VERSION


def import_run(source: Store, target: Run, wall: float) -> ImportFile:
    """Copy a run.

    Args:
        source: the folder that rl-swarm made, not seen through an adapter.
        target: the new experiment, opened to write.
        wall: Unix seconds.

    Raises:
        StoreError: the source cannot be listed, or the target not be written.
    """
    adapted, refused = RlSwarmStore(source, target.experiment), list[str]()
    target.store.put(keys.EXPERIMENT, adapted.get(keys.EXPERIMENT, LARGEST_FILE).data)
    for key in _files(adapted):
        try:
            target.store.put(key, adapted.get(key, LARGEST_FILE).data, durable=False)
        except (ProtocolError, FileNotFoundError) as error:
            refused.append(str(error))
    run = adapted.run
    for node in run.nodes():
        for key in (keys.metrics(node), keys.events(node), keys.stdout(node)):
            _copy_lines(adapted, target.store, key)
    record = ImportFile(
        made_by=RL_SWARM,
        source=source.describe(),
        imported_at=wall,
        nodes={node: _origins(run, node) for node in run.nodes()},
        columns=COLUMNS,
        not_recorded=sorted(NOT_RECORDED),
        not_taken=refused[:MOST_REFUSED],
    )
    target.store.put(keys.IMPORT, encode(record))
    return record


def _files(store: Store) -> Iterator[str]:
    """Yields every small file that is taken over, registrations first."""
    yield from (f"{keys.PEERS}/{entry.name}" for entry in entries(store, keys.PEERS) if keys.node_of(entry.name))
    yield from (keys.reward(key, node) for key, node in count_files(store, keys.REWARDS).files)
    yield from (keys.rollout(key, node) for key, node in count_files(store, keys.ROLLOUTS).files)
    for of_round in entries(store, keys.WINNERS):
        if of_round.kind is Kind.PREFIX and (number := keys.round_of(of_round.name)) is not None:
            names = (keys.node_of(entry.name) for entry in entries(store, f"{keys.WINNERS}/{of_round.name}"))
            yield from (keys.winners(number, node) for node in names if node)


def _copy_lines(source: Store, target: Store, key: str) -> None:
    for part in GrowingLines(source, key).look():
        if part.records:
            target.append_records(key, part.records, durable=False, once=False)


def _origins(run: RlSwarmRun, node: str) -> ImportedNode:
    facts = run.facts(node)
    rounds = list(rounds_of(facts))
    known = [done.reward for done in rounds if isinstance(done.reward, KnownReward)]
    return ImportedNode(
        completions_per_round=facts.completions or max((one.completions for one in known), default=0),
        rewards_from=dict(Counter(one.read_from for one in known)),
        unknown={done.number: done.reward.why for done in rounds if isinstance(done.reward, Unknown)},
    )
