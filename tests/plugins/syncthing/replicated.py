"""A swarm over three instances of a real Syncthing: `python -m tests.plugins.syncthing.replicated` prints the figures.

invite, join ─▶ rounds ─▶ one Syncthing and one worker killed -9, and back ─▶ rounds ─▶ attacks ─▶ figures
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from swarm.plugins.syncthing.membership import MembersRecord
from swarm.plugins.syncthing.setting_up import folder_id
from swarm.plugins.syncthing.syncthing import Syncthing
from swarm.records.rows import read_metrics
from swarm.store.place import open_place
from swarm.wire.metrics import MetricsRow
from tests.integration.swarms import Daemon, daemons, environment, eventually, run_swarm, well
from tests.plugins.syncthing.syncthings import Instance, instances

LAB, BEN, EVA = NAMES = ("lab", "ben", "eva")
TIMEOUT = 600.0
ENDLESS = 1_000_000
LAST_ROUNDS = 2
RUN = {
    "MODEL_NAME": "tiny-2-qwen2-content",  # most of its groups are informative, so that there is something to share
    "NUM_TRAIN_SAMPLES": 4,
    "NUM_TRANSPLANT_TREES": 4,
    "NUM_GENERATIONS": 8,
    "SWARM_MAX_NEW_TOKENS": 24,
    "SWARM_LIVENESS_TIMEOUT": 20,
    "SWARM_HEARTBEAT_INTERVAL": 2,
}


def answer(syncthing: Syncthing, path: str, **query: str) -> dict[str, Any]:
    """What it says to a GET."""
    said = syncthing.ask(path, dict[str, Any], **query)
    assert said is not None
    return said


class Trial:
    """Three machines, each a folder and a Syncthing."""

    def __init__(self, tmp: Path, syncthings: dict[str, Instance], start: Callable[..., Daemon]) -> None:
        self.path = {name: tmp / f"{name}-swarm" for name in NAMES}
        self._syncthings = syncthings
        self._start = start
        self._sent = dict.fromkeys(NAMES, 0)

    def env(self, name: str, **more: object) -> dict[str, str]:
        settings = {**RUN, "MAX_ROUNDS": ENDLESS, **more}
        return environment(self.path[name], **settings) | self._syncthings[name].environment

    # ── setting up ──────────────────────────────────────────────────────────────────────────────────────────────────
    def invite(self) -> str:
        syncthing = self._syncthings[LAB]
        said = self._swarm(LAB, "invite", str(self.path[LAB]), "--as", LAB, "--address", syncthing.address)
        return next(word for word in said.split() if word.startswith("swarm1/"))

    def join(self, name: str, invitation: str = "") -> Daemon:
        invited = ["--invitation", invitation, "--as", name, "--address", self._syncthings[name].address]
        given = invited if invitation else []
        return self._start("swarm", self.env(name), "join", str(self.path[name]), *given)

    def let_in(self, name: str) -> None:
        syncthing = self._syncthings[name]
        self._swarm(
            LAB, "invite", str(self.path[LAB]), name, "--device", syncthing.device, "--address", syncthing.address
        )

    def _swarm(self, name: str, *arguments: str) -> str:
        return well(self.env(name), *arguments).stdout

    def coordinate(self, rounds: int = ENDLESS) -> Daemon:
        env = self.env(LAB, SWARM_EXPECTED_WORKERS=",".join(NAMES), MAX_ROUNDS=rounds)
        return self._start("swarm", env, "node", "--role", "coordinator", "--path", str(self.path[LAB]))

    # ── while it runs ───────────────────────────────────────────────────────────────────────────────────────────────
    def round(self) -> int:
        """The round that is open, as lab's machine sees it."""
        store = open_place(self.path[LAB]).store("test", None)
        try:
            return int(json.loads(store.get("state/current_state.json", 1 << 16).data)["round"])
        except FileNotFoundError:
            return 0

    def all_heard_all(self, since: int = 0) -> bool:
        """Every node has trained on groups of every other, in rounds from this one on."""
        return all({*self.trained_on(name, since)} == {*NAMES} - {name} for name in NAMES)

    def trained_on(self, name: str, since: int = 0) -> dict[str, int]:
        """Peer -> how many of its groups the node has trained on."""
        heard: Counter[str] = Counter()
        for row in self.rows().get(name, ()):
            if row.round >= since:
                heard.update(row.external_by_peer)
        return dict(heard)

    def rows(self) -> dict[str, list[MetricsRow]]:
        return {node: of for node, of in read_metrics(open_place(self.path[LAB]).open("test")).items() if of}

    def kill_syncthing(self, name: str) -> None:
        self._count_sent(name)
        self._syncthings[name].kill()

    def start_syncthing(self, name: str) -> None:
        self._syncthings[name].start()

    def _count_sent(self, name: str) -> None:
        total = answer(self._syncthings[name].rest, "system/connections")["total"]
        self._sent[name] += int(total["outBytesTotal"])

    def folder(self, owner: str) -> str:
        return folder_id(MembersRecord(self.path[LAB]).read(), owner)

    def settled(self) -> bool:
        """Every machine has all that the others wrote."""
        for name, syncthing in self._syncthings.items():
            for other in {*NAMES} - {name}:
                asked = {"folder": self.folder(name), "device": self._syncthings[other].device}
                if answer(syncthing.rest, "db/completion", **asked)["completion"] < 100:
                    return False
        return True

    def has_checkpoints_of_ben(self, name: str) -> bool:
        return any((self.path[name] / BEN).rglob("checkpoints/round_*"))

    # ── attacks ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def attack(self) -> dict[str, bool]:
        """What eva's machine tries, and whether lab or ben see it."""
        eventually(self.settled, "all subtrees to be everywhere", TIMEOUT)
        key = "rewards/round_1/stage_0/ben.json"
        file = Path("ben") / "experiments" / "test" / key
        true = (self.path[BEN] / file).read_bytes()
        forged = true.replace(b'"reward":', b'"reward": 1e0, "was":')
        return {
            "in the receive-only copy": self._overwrite(file, forged, "receiveonly", key, true),
            "as one that sends and receives": self._overwrite(file, forged, "sendreceive", key, true),
            "in its own subtree": self._plant(key, forged, true),
        }

    def _overwrite(self, file: Path, forged: bytes, kind: str, key: str, true: bytes) -> bool:
        folder, rest = self.folder(BEN), self._syncthings[EVA].rest
        others = [{"deviceID": each.device} for each in self._syncthings.values()]
        rest.configure("folder", folder, {"type": kind, "devices": others})
        (self.path[EVA] / file).write_bytes(forged)
        rest._answer("POST", "db/scan", folder=folder)
        self._marked(kind)  # later changes of eva's have come, so this one would have
        seen = self._seen_elsewhere(key, true)
        (self.path[EVA] / file).write_bytes(true)
        rest.configure("folder", folder, {"type": "receiveonly", "devices": others[1:]})
        rest._answer("POST", "db/scan", folder=folder)
        rest._answer("POST", "db/revert", folder=folder)
        return seen

    def _plant(self, key: str, forged: bytes, true: bytes) -> bool:
        file = self.path[EVA] / EVA / "experiments" / "test" / key
        file.write_bytes(forged)
        self._marked("planted")
        arrived = self.path[LAB] / EVA / "experiments" / "test" / key
        eventually(arrived.exists, "the forged file to be on the host's disk")
        seen = self._seen_elsewhere(key, true)
        file.unlink()
        return seen

    def _marked(self, name: str) -> None:
        """Eva's own subtree goes on: what she writes after the attack is there."""
        key = f"logs/eva/{name}"
        open_place(self.path[EVA]).store("test", "eva").put(key, b"after the attack")
        for other in (LAB, BEN):
            store = open_place(self.path[other]).store("test", None)
            eventually(lambda store=store: store.stat(key), "eva's own file", TIMEOUT)

    def _seen_elsewhere(self, key: str, true: bytes) -> bool:
        stores = [open_place(self.path[other]).store("test", None) for other in (LAB, BEN)]
        return any(store.get(key, 1 << 16).data != true for store in stores)

    # ── afterwards ──────────────────────────────────────────────────────────────────────────────────────────────────
    def figures(self) -> dict[str, Any]:
        """What was measured: delays are the seconds from a file's publication to its arrival in a pool."""
        eventually(self.settled, "all subtrees to be everywhere", TIMEOUT)
        rows = [row for of_node in self.rows().values() for row in of_node]
        delays, ends = [late for row in rows for late in row.publish_to_pool], [row.timestamp for row in rows]
        for name in NAMES:
            self._count_sent(name)
        return {
            "rounds": self.round(),
            "seconds": round(max(ends) - min(ends), 1),
            "groups of each peer": {node: self.trained_on(node) for node in NAMES},
            "delays": len(delays),
            "median, 99th percentile, longest": [median(delays), quantiles(delays, n=100)[98], max(delays)],
            "bytes sent": self._sent,
            "bytes published": sum(row.bytes_published for row in rows),
        }

    def validate(self, name: str, path: Path | None = None) -> tuple[int, str]:
        done = run_swarm(self.env(name), "validate", "--path", str(path or self.path[name]), "--experiment", "test")
        return done.returncode, done.stdout + done.stderr


def run_trial(tmp: Path, rounds: int) -> tuple[dict[str, Any], str]:
    """All of it; what `status` said on ben's machine in the middle."""
    with instances(tmp / "homes", *NAMES) as syncthings, daemons() as start:
        trial = Trial(tmp, syncthings, start)
        invitation = trial.invite()
        joining = {name: trial.join(name, invitation) for name in (BEN, EVA)}
        for name in (BEN, EVA):
            trial.let_in(name)
        coordinator = trial.coordinate()
        workers = joining | {LAB: trial.join(LAB)}
        eventually(lambda: trial.round() >= rounds // 3 and trial.all_heard_all(), "all to hear all", TIMEOUT)
        said = run_swarm(trial.env(BEN), "status", "--path", str(trial.path[BEN])).stdout
        trial.kill_syncthing(EVA)
        workers[BEN].kill()
        broken = trial.round()
        eventually(lambda: trial.round() > broken, "the others to go on", TIMEOUT)
        trial.start_syncthing(EVA)
        workers[BEN] = trial.join(BEN)
        eventually(lambda: trial.round() >= 2 * rounds // 3 and trial.all_heard_all(broken), "all to hear all", TIMEOUT)
        coordinator.signal(signal.SIGTERM)
        coordinator.wait(TIMEOUT)
        coordinator = trial.coordinate(max(rounds, trial.round() + LAST_ROUNDS))
        for name, daemon in {**workers, "coordinator": coordinator}.items():
            assert daemon.wait(TIMEOUT) == 0, f"{name}: {daemon.output[-3000:]}"
        found = trial.figures()
        found["checkpoints of ben"] = {name: trial.has_checkpoints_of_ben(name) for name in NAMES}
        found["seen elsewhere"] = trial.attack()
        for name in NAMES:
            code, text = trial.validate(name)
            assert code == 0, text
        copy = tmp / "copy"
        well(trial.env(LAB), "copy", str(trial.path[BEN]), str(copy), "--experiment", "test")
        assert trial.validate(LAB, copy)[0] == 0, "an ordinary folder copied from ben's"
        return found, said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as tmp:
        began = time.monotonic()
        found, said = run_trial(Path(tmp), rounds)
        figures = found | {"whole trial": round(time.monotonic() - began, 1)}
        sys.stdout.write(f"{said}\n{json.dumps(figures, indent=1)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
