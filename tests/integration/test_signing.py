"""A real swarm that signs: its nodes believe each other, and nobody who comes in another's name."""

from __future__ import annotations

import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from swarm.signing.envelope import seal
from swarm.signing.keys import make_key
from swarm.signing.known_keys import KnownKeys
from swarm.types import RoundKey
from tests.integration.swarms import LIGHT, daemons, environment, eventually, layout, rows

MALLORY = Ed25519PrivateKey.from_private_bytes(b"m" * 32)


def test_signed_nodes_train_on_each_other_and_on_no_forged_file(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    make_key(keys)
    lay = layout(tmp_path)
    env = environment(
        tmp_path,
        SWARM_SIGNING="require",
        SWARM_KEY_FOLDER=keys,
        SWARM_EXPECTED_WORKERS=2,
        SWARM_LIVENESS_TIMEOUT=30,
        MAX_ROUNDS=3,
    )
    forged = b'{"peer_id":"mallory","registered_at":1.0,"node_role":"worker","beat":1}\n'
    lay.put(lay.peer_file("mallory"), forged)
    forged_round = RoundKey(2)
    target = lay.rollout_file(forged_round, "mallory")
    file = b'{"peer_id":"mallory","round":2,"stage":0,"timestamp":1.0,"rollouts":{}}\n'
    lay.put(target, seal(file, "test/elsewhere.json", MALLORY))
    with daemons() as start:
        coordinator = start("services.coordinator", env)
        workers = [start(LIGHT, env | {"NODE_ID": node}) for node in ("alice", "bob")]
        assert [daemon.wait() for daemon in (*workers, coordinator)] == [0, 0, 0], workers[0].output
    for node, peer in (("alice", "bob"), ("bob", "alice")):
        found = rows(tmp_path, node)
        assert [row["peers_heard"] for row in found[:2]] == [1, 1]
        assert found[2]["refused_by_peer"] == {"mallory": {"bad_signature": 1}}
        assert all(row["total_agents"] == 2 for row in found), "who is not signed is not waited for"
        assert peer in {key.author for key in KnownKeys(keys, tmp_path, "test")}
    for signed in (lay.state_file, lay.peer_file("alice"), lay.rollout_file(RoundKey(0), "alice")):
        assert "signature" in json.loads(eventually(signed.read_bytes, f"{signed}"))
