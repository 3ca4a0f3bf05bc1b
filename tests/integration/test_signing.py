"""A real swarm that signs: its nodes believe each other, and nobody who comes in another's name."""

from __future__ import annotations

import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from swarm.cli.main import run
from swarm.node.base.context import NodeContext
from swarm.node.base.experiment import claim_experiment
from swarm.node.process.wiring import make_context
from swarm.records.files import read_peer
from swarm.signing.keys import make_key
from swarm.signing.known_keys import KnownKeys
from swarm.signing.signatures import SignedPlace, seal
from swarm.types import RoundKey
from swarm.wire import keys as wire_keys
from swarm.wire.codec import encode
from tests.integration.swarms import LIGHT, daemons, environment, eventually, layout, rows
from tests.layout import Layout
from tests.unit.node.factories import make_peer, make_settings
from tests.unit.views.factories import make_experiment

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
    lay.put(target, seal(file, SignedPlace("test", "elsewhere.json"), MALLORY))
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


class People:
    """Of one machine each, who look at runs of the name `exp` in several places."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path
        self._readers = 0

    def node(self, user: str, place: Path, **settings: object) -> NodeContext:
        keys = self.path / user
        if not keys.exists():
            make_key(keys)
        made = make_settings(place, signing="require", key_folder=str(keys), **settings)
        return make_context(made, user)

    def begin(self, place: Path) -> Layout:
        """Anna does a run there and registers."""
        finished = make_experiment(place)
        for checkpoint in finished.checkpoints.glob("round_*/*"):
            (checkpoint / "state.json").write_bytes(b"{}")
        finished.experiment_file.unlink(missing_ok=True)
        claim_experiment(self.node("anna", place))
        anna = self.node("anna", place)
        anna.run.put_sealed(wire_keys.peer("anna"), encode(make_peer("anna", status="stopped")))
        return finished

    def believe(self, place: Path) -> bool:
        """Whether somebody who has never been there believes Anna's registration."""
        self._readers += 1
        return read_peer(self.node(f"reader-{self._readers}", place).run, "anna") is not None


def test_a_signed_file_holds_in_its_run_and_its_copies_and_in_no_other_run_of_the_name(tmp_path: Path) -> None:
    people = People(tmp_path)
    here, other = (people.begin(tmp_path / place) for place in ("here", "other"))
    assert [people.believe(place.path) for place in (here, other)] == [True, True]
    other.peer_file("anna").write_bytes(here.peer_file("anna").read_bytes())
    assert not people.believe(other.path), "it was signed in another run"

    copy = tmp_path / "copy"
    assert run(["copy", str(here.path), str(copy), "--experiment", "exp"]) == 0
    assert people.believe(copy)
