"""The policy of docs/buckets.md: enough for a worker, and no more than its own objects. Held against moto's IAM."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from swarm.config import without_settings
from swarm.errors import StoreError
from swarm.records.rows import read_metrics
from swarm.store.place import open_place
from tests.conformance.promises import filled
from tests.engines.s3_servers import BUCKET, PYTHON, ROOT, moto
from tests.integration.swarms import LIGHT, daemons

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("s3")]
REMOVALS = {"Effect": "Allow", "Action": "s3:DeleteObject", "Resource": f"arn:aws:s3:::{BUCKET}"}
"""moto holds a request that removes several objects against the bucket, and its objects against nothing."""
ALL = {"Effect": "Allow", "Action": "s3:*", "Resource": [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"]}
MAKE_USERS = """
import boto3, json, sys
iam = boto3.client("iam", endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="a",
                   aws_secret_access_key="a")
for name, policy in json.loads(sys.argv[2]).items():
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    print(name, key["AccessKeyId"], key["SecretAccessKey"])
"""
USERS = ("clock", "anna", "ben")
REQUESTS_BEFORE = 1 + 3 * len(USERS)
"""That moto lets pass: the bucket is made, and the users."""
OWN = (
    *("peers/{}.json", "rollouts/round_0/stage_0/{}.json", "completions/round_0/{}.json"),
    *("rewards/round_0/stage_0/{}.json", "winners/round_0/{}.json", "judge/answers/round_0/{}.json"),
)
OTHERS = ("experiment.json", "state/current_state.json", "cleaned.json", "judge/questions/round_0/anna.json")


def policy(node: str) -> dict[str, Any]:
    """As the page has it."""
    page = (ROOT / "docs" / "buckets.md").read_text()
    document = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert document
    places = {"BUCKET": BUCKET, "PREFIX": "place", "EXPERIMENT": "test", "NODE": node}
    found = json.loads(re.sub("|".join(places), lambda name: places[name[0]], document[1]))
    return {**found, "Statement": [*found["Statement"], REMOVALS]}


class Server:
    """moto, and who may do what on it."""

    def __init__(self, port: int) -> None:
        endpoint = f"http://127.0.0.1:{port}"
        self.url = f"s3://{BUCKET}/place?endpoint={endpoint}"
        policies = {"clock": {"Version": "2012-10-17", "Statement": [ALL]}} | {node: policy(node) for node in USERS[1:]}
        made = subprocess.check_output([PYTHON, "-c", MAKE_USERS, endpoint, json.dumps(policies)], text=True)
        self._keys = {name: (id_, secret) for name, id_, secret in map(str.split, made.splitlines())}

    def credentials(self, node: str) -> dict[str, str]:
        id_, secret = self._keys[node]
        return {"AWS_ACCESS_KEY_ID": id_, "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": "us-east-1"}


@pytest.fixture
def server() -> Iterator[Server]:
    with moto({"INITIAL_NO_AUTH_ACTION_COUNT": str(REQUESTS_BEFORE)}) as port:
        yield Server(port)


def test_a_worker_that_may_write_its_own_objects_alone_takes_part(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.credentials("clock").items():
        monkeypatch.setenv(name, value)
    settings = {"SWARM_PATH": server.url, "EXPERIMENT_NAME": "test", "MAX_ROUNDS": "2", "SWARM_EXPECTED_WORKERS": "2"}
    settings |= {"NUM_TRAIN_SAMPLES": "4", "NUM_TRANSPLANT_TREES": "4"}

    def of(name: str) -> dict[str, str]:
        return without_settings(os.environ) | server.credentials(name) | settings | {"NODE_ID": name}

    with daemons() as start:
        nodes = [start("services.coordinator", of("clock"))]
        while open_place(server.url).store("test", None).stat("experiment.json") is None:
            assert nodes[0].process.poll() is None
        nodes += [start(LIGHT, of(name)) for name in USERS[1:]]
        assert [node.wait() for node in nodes] == [0, 0, 0], [node.output for node in nodes]
    rows = read_metrics(open_place(server.url).open("test"))
    assert {node: [row.round for row in of] for node, of in rows.items()} == {"anna": [0, 1], "ben": [0, 1]}
    assert all(row.peers_heard for of in rows.values() for row in of)


def test_it_writes_nothing_of_anybody_else(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.credentials("anna").items():
        monkeypatch.setenv(name, value)
    store = open_place(server.url).store("test", "anna")
    for key in OWN:
        store.put(key.format("anna"), b"{}")
    store.append_records("logs/anna/metrics.jsonl", [b"{}"], durable=True)
    store.put_bundle("checkpoints/round_1/anna", filled(a=b"x"))
    for key in (*(key.format("ben") for key in OWN), *OTHERS):
        with pytest.raises(StoreError, match="403 AccessDenied"):
            store.put(key, b"{}")
    with pytest.raises(StoreError, match="403 AccessDenied"):
        store.append_records("logs/ben/metrics.jsonl", [b"{}"], durable=True)
    with pytest.raises(StoreError, match="403 AccessDenied"):
        store.put_bundle("checkpoints/round_1/ben", filled(a=b"x"))
