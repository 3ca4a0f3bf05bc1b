"""What each kind of adversary does in a round.

liar     answers its own questions wrongly, and publishes false ground truth and full rewards for that
copier   publishes what a peer has just published, and what was published rounds ago, as its own
flooder  as much as the folder takes: a thousand groups in one file, a file of many megabytes, thousands of names
vandal   rubbish under its own name and where it does not belong: the clock, other rounds, links, pipes, odd names
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec

from swarm.errors import ProtocolError, StoreError
from swarm.records.listing import nodes_in
from swarm.types import Question, RoundKey
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import GroupInfo, PolicyInfo, RolloutEntry, RolloutFile
from tests.adversaries.stranger import Stranger

FLOOD_NAMES = 2_000
FLOOD_BYTES = 12 * 2**20
PATIENCE_S = 20.0


async def lie(node: Stranger, key: RoundKey) -> None:
    rng = random.Random(f"liar {key}")
    questions = await node.questions(key)
    file = RolloutFile(
        peer_id=node.node_id,
        round=key.round,
        stage=key.stage,
        timestamp=0.0,
        rollouts={str(slot): _lies(node, question, rng) for slot, question in enumerate(questions)},
        groups={
            str(slot): GroupInfo(
                task=question.origin.task, answer="42", metadata=msgspec.Raw(b'{"answer":"42"}'), origin=question.origin
            )
            for slot, question in enumerate(questions)
        },
        policy=PolicyInfo(model="liar"),
    )
    await node.write(node.layout.rollout_file(key, node.node_id), encode(file))
    await node.submit(key, 1.0)


def _lies(node: Stranger, question: Question, rng: random.Random) -> list[RolloutEntry]:
    """One right answer among wrong ones that are all said to be right, so that the group looks informative."""
    answers = ["42"] * (node.settings.generations - 1) + [str(question.answer)]
    rng.shuffle(answers)
    return [
        RolloutEntry(prompt=question.prompt, response=f"<answer>{answer}</answer>", reward=1.0) for answer in answers
    ]


async def copy(node: Stranger, key: RoundKey) -> None:
    source = await _somebody_elses(node, key)
    if source is not None:
        await node.write(node.layout.rollout_file(key, node.node_id), _renamed(source, node.node_id, key))
    await node.submit(key, 1.0)


async def _somebody_elses(node: Stranger, key: RoundKey) -> bytes | None:
    """What a peer publishes in this round, or, in every other round, published in the round before."""
    wanted = RoundKey(key.round - key.round % 2, key.stage)
    with anyio.move_on_after(PATIENCE_S):
        while True:
            store = node.layout.run.store
            with suppress(StoreError, ProtocolError, FileNotFoundError):
                for peer in sorted(nodes_in(store, keys.rollouts(wanted)) - {node.node_id}):
                    if peer.startswith("worker"):
                        return store.get(keys.rollout(wanted, peer), 2**24).data
            await anyio.sleep(0.02)
    return None


def _renamed(data: bytes, node_id: str, key: RoundKey) -> bytes:
    file: dict[str, Any] = json.loads(data)
    return json.dumps(file | {"peer_id": node_id, "round": key.round, "stage": key.stage}).encode()


async def flood(node: Stranger, key: RoundKey) -> None:
    folder = node.layout.rollouts_of(key)
    with suppress(OSError):  # another adversary's link may be in the way
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(FLOOD_NAMES):
            (folder / f"{node.node_id}-{key.round}-{number}.json").write_bytes(b"{}")
    entry = {"prompt": "x", "response": "<answer>" + "9" * 100 + "</answer>", "reward": 1.0}
    groups = {str(slot): [entry] * 64 for slot in range(1024)}
    file: dict[str, Any] = {"peer_id": node.node_id, "round": key.round, "stage": key.stage, "timestamp": 0.0}
    await node.write(node.layout.rollout_file(key, node.node_id), json.dumps(file | {"rollouts": groups}).encode())
    await node.write(node.layout.rollout_file(key, f"{node.node_id}-big"), b" " * FLOOD_BYTES)
    await node.submit(key, 1.0)


async def vandalise(node: Stranger, key: RoundKey) -> None:
    rng = random.Random(f"vandal {key}")
    layout, folder = node.layout, node.layout.rollouts_of(key)
    await node.write(layout.rollout_file(key, node.node_id), _rubbish(rng, key, node.node_id))
    await node.write(layout.state_file, rng.randbytes(100))
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pipe.json").unlink(missing_ok=True)
        os.mkfifo(folder / "pipe.json")
        (folder / "link.json").symlink_to("/etc/passwd")
        (layout.rollouts / f"round_{key.round + 3}").symlink_to("/usr")
        (folder / os.fsdecode(b"not-utf8-\xff.json")).write_bytes(b"{}")
        _sparse(folder / "sparse.json")
        (layout.rollouts / f"round_{rng.randrange(10**8)}").mkdir(exist_ok=True)
        (layout.rewards / f"round_{rng.randrange(10**8)}" / "stage_0").mkdir(parents=True, exist_ok=True)
    await node.submit(key, 1.0)


def _sparse(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(10 * 2**30)


def _rubbish(rng: random.Random, key: RoundKey, node_id: str) -> bytes:
    """Something else in every round: noise, nesting, and text that almost is a rollout file."""
    form = msgspec.json.encode({"peer_id": node_id, "round": key.round, "stage": key.stage, "timestamp": 1e308})
    return rng.choice(
        [
            rng.randbytes(10_000),
            b"[" * 100_000,
            form,
            form.replace(b"1e+308", b"1e999").replace(b"1e308", b"1e999"),
            form[:-1] + b',"rollouts":{"0":[{"prompt":"p","response":"' + b"\\u001b[2J" * 100 + b'"}]}}',
        ]
    )


KINDS: dict[str, Callable[[Stranger, RoundKey], Awaitable[None]]] = {
    "liar": lie,
    "copier": copy,
    "flooder": flood,
    "vandal": vandalise,
}
