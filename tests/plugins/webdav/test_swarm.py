"""Swarms and commands over a real WebDAV server, which is killed in mid-run and answers with faults."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from swarm.errors import StoreError
from swarm.store.place import open_place
from tests.conformance.promises import content, filled
from tests.engines.s3_servers import Chances, between
from tests.integration.swarms import LIGHT, Daemon, daemons, environment, eventually, well
from tests.plugins.webdav.servers import CREDENTIALS, DavServer, serving

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]
LOG = "logs/anna/metrics.jsonl"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DavServer]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with serving(tmp_path / "served") as server:
        yield server


def test_a_swarm_goes_on_after_kills_of_a_worker_and_of_the_server_and_leaves_no_password(
    server: DavServer, tmp_path: Path
) -> None:
    settings = {"MODEL_NAME": "fake", "SWARM_PROFILE": "tiny-2", "SWARM_EXPECTED_WORKERS": 2, "LIGHT_STEP": 0.1}
    env = environment(tmp_path / "unused", MAX_ROUNDS=3, **settings) | {"GDRIVE_PATH": server.url}
    run = open_place(server.url).store("test", None)

    def rows(name: str) -> list[int]:
        with suppress(StoreError):
            return [row["round"] for row in map(json.loads, run.read_records(f"logs/{name}/metrics.jsonl").records)]
        return []

    def started(name: str) -> Daemon:
        return start(LIGHT, env | {"NODE_ID": name, "NODE_ROLE": "worker"})

    with daemons() as start:
        nodes = [start("services.coordinator", env), started("anna")]
        killed = started("ben")
        eventually(lambda: rows("ben"), "the first round")
        killed.kill()
        server.kill()
        server.start()
        nodes.append(started("ben"))
        for node in nodes:
            assert node.wait() == 0, node.output
        said = [node.output for node in [*nodes, killed]]
    assert {name: rows(name) for name in ("anna", "ben")} == {"anna": [0, 1, 2], "ben": [0, 1, 2]}
    for command in (("validate", "--rounds", "3", "--nodes", "2"), ("status",), ("experiment", "list")):
        done = well(env, *command)
        said.append(done.stdout + done.stderr)
    assert not any(CREDENTIALS["WEBDAV_PASSWORD"] in text for text in said)
    for file in [*server.folder.rglob("*"), *tmp_path.glob("unused*/**/*")]:
        assert not file.is_file() or CREDENTIALS["WEBDAV_PASSWORD"].encode() not in file.read_bytes(), file


def test_what_a_server_acknowledged_outlives_its_death_and_faults(server: DavServer) -> None:
    plan = Chances(1, busy=0.1, lost=0.1, cut=0.1)
    rows = [b"%d" % number for number in range(10)]
    with between(server.port, plan) as port:
        (server.folder / "Größe 100% x").mkdir()
        anna = open_place(f"http://127.0.0.1:{port}/dav/Größe 100%25 x").store("demo", "anna")
        for number, row in enumerate(rows):
            if number == 5:
                server.kill()
                threading.Thread(target=server.start).start()
            until_taken(lambda row=row: anna.append_records(LOG, [row], durable=True))  # type: ignore[misc]
        until_taken(lambda: anna.put("experiment.json", b"anna", if_absent=True))
        until_taken(lambda: anna.put_bundle("checkpoints/round_1/anna", filled(a=b"x" * 1000)))
    calm = open_place(f"{server.url}/Größe 100%25 x").store("demo", None)
    assert calm.read_records(LOG).records == rows
    assert calm.get("experiment.json", 100).data == b"anna"
    assert content(calm, "checkpoints/round_1/anna")["a"] == b"x" * 1000


def until_taken(attempt: object) -> None:
    for _ in range(20):
        with suppress(StoreError):
            attempt()  # type: ignore[operator]
            return
    raise AssertionError("refused again and again")
