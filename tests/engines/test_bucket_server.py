"""The store over a real server that speaks S3, over a bad network, over a server that lies; a swarm over a bucket."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterable, Iterator
from datetime import timedelta
from inspect import getsource
from pathlib import Path

import pytest

from swarm.cli.main import run
from swarm.errors import ProtocolError, StoreError
from swarm.store.base import Blob, Store, get_many
from swarm.store.place import open_place
from tests.chaos.bucket_kill import EXPERIMENT, Swarm, rewards, run_whole
from tests.chaos.bucket_kill import environment as light_environment
from tests.conformance import reading, writing  # noqa: F401 - they name the checks
from tests.conformance.checks import CHECKS
from tests.conformance.promises import content, filled
from tests.conformance.worlds import Served
from tests.engines.s3_servers import (
    BUCKET,
    CREDENTIALS,
    Chances,
    DiskServer,
    ask,
    between,
    gateway,
    moto,
    on_disk,
)
from tests.integration.swarms import daemons, well
from tests.patience import PATIENCE, part_of_today

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("s3")]
UNHURRIED = [name for name, check in CHECKS.items() if "while_writing" not in getsource(check)]
TODAY = {*[*CHECKS][part_of_today(3)]}
SOME = [pytest.param(name, marks=[] if name in TODAY else [pytest.mark.slow]) for name in UNHURRIED]
"""A third, another each day, where another test of this file makes all of them over the same client."""
LOG = "logs/anna/metrics.jsonl"


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    with moto() as port:
        yield port


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


_count = itertools.count()


class Prefix(Served):
    """A prefix of its own on a server."""

    def __init__(self, port: int, prefix: str = "") -> None:
        self.prefix = prefix or f"place-{next(_count)}"
        super().__init__(f"s3://{BUCKET}/{self.prefix}?endpoint=http://127.0.0.1:{port}")


@pytest.mark.parametrize("name", CHECKS)
def test_the_store_keeps_its_promises_on_a_real_server(server: int, name: str, tmp_path: Path) -> None:
    CHECKS[name](Prefix(server), tmp_path)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskServer]:
    with on_disk(tmp_path_factory.mktemp("objects")) as server:
        yield server


def test_what_a_server_acknowledged_is_there_after_its_death(lasting: DiskServer) -> None:
    world, large = Prefix(lasting.port), bytes(range(256)) * (20 * 2**20 // 256)
    anna, rows = world.open("anna"), [b"%d" % number for number in range(20)]
    anna.put_bundle("checkpoints/round_1/anna", filled(a=large))
    for number, row in enumerate(rows):
        anna.append_records(LOG, [row], durable=True)
        if number % 5 == 0:
            lasting.kill()
            revival = threading.Thread(target=lasting.start)
            revival.start()
            until_taken(lambda number=number: anna.put("state/round.json", b"%d" % number))  # type: ignore[misc]
            revival.join()
    assert world.open().read_records(LOG).records == rows
    assert content(world.open(), "checkpoints/round_1/anna")["a"] == large


@pytest.mark.parametrize("name", SOME)
def test_the_store_keeps_its_promises_over_a_bad_network(server: int, name: str, tmp_path: Path) -> None:
    plan = Chances(7, busy=0.05, lost=0.05, cut=0.05, half=0.05, slow=0.02)
    with between(server, plan) as port:
        CHECKS[name](Prefix(port), tmp_path)


def until_taken(attempt: object) -> None:
    for _ in range(20):
        try:
            attempt()  # type: ignore[operator]
            return
        except StoreError:
            continue
    raise AssertionError("refused again and again")


def doctor(place: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, tuple[str, str]]]:
    code = run(["doctor", "--path", place, "--seconds", "0.1", "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    return code, {f["check"]: (f["verdict"], f["measured"]) for f in findings if f["area"] == "bucket"}


KEPT = {"permissions", "exclusive creation"}
"""What the doctor looks into that a busy machine does not change; the rest is measured by the clock."""


def test_the_doctor_finds_a_sound_server_sound_and_leaves_nothing_there(
    server: int, capsys: pytest.CaptureFixture[str]
) -> None:
    world = Prefix(server)
    code, found = doctor(world.url, capsys)
    assert code == 0
    assert {check: found[check][0] for check in KEPT} == dict.fromkeys(KEPT, "ok"), found
    assert found["exclusive creation"][1].endswith("is refused")
    assert open_place(world.url).beside("").list("").entries == []


def test_the_doctor_refuses_a_server_that_ignores_conditions(server: int, capsys: pytest.CaptureFixture[str]) -> None:
    with between(server, without_conditions=True) as port:
        code, found = doctor(Prefix(port).url, capsys)
    verdict, measured = found["exclusive creation"]
    assert (code, verdict, measured.endswith("is told that it was first")) == (1, "failure", True), measured


def test_a_node_goes_on_with_the_keys_that_its_profile_has_by_now(
    server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server refuses the first ones from some moment on, as those that have expired."""
    expired, file = set[str](), tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id=FIRST\naws_secret_access_key=B\naws_session_token=C\n")
    for name in CREDENTIALS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setattr("swarm.store.bucket.credentials.READ_EVERY", timedelta())
    with between(server, expired=expired) as port:
        store = Prefix(port).open("anna")
        store.put("peers/anna.json", b"{}")
        expired.add("FIRST")
        with pytest.raises(StoreError, match="credentials have expired"):
            store.put("peers/anna.json", b"{}")
        file.write_text("[default]\naws_access_key_id=SECOND\naws_secret_access_key=B\naws_session_token=D\n")
        store.put("peers/anna.json", b"{}")


@pytest.fixture(scope="module")
def hub(server: int) -> Iterator[str]:
    """The address of a gateway that does what Hugging Face documents of its own."""
    with gateway(server, "anna") as port:
        yield f"http://127.0.0.1:{port}"


class HubBucket(Served):
    """A prefix of its own in a bucket of the user anna."""

    def __init__(self) -> None:
        super().__init__(f"hf://anna/{BUCKET}/place-{next(_count)}")


@pytest.mark.parametrize("name", SOME)
def test_the_store_keeps_its_promises_behind_hugging_faces_gateway(
    hub: str, monkeypatch: pytest.MonkeyPatch, name: str, tmp_path: Path
) -> None:
    monkeypatch.setattr("swarm.config.place.GATEWAY", hub)
    CHECKS[name](HubBucket(), tmp_path)


REFUSED = ("b%01.json", "b//x", "b/../x", "b%00.json")
"""Names as in the line of a request, whose listings obstore refuses."""


def a_run(world: Prefix) -> Store:
    anna = world.open("anna")
    anna.put("peers/anna.json", b"{}")
    anna.put("rollouts/round_0/stage_0/anna.json", b"{}")
    anna.append_records(LOG, [b"row"], durable=True)
    anna.put_bundle("checkpoints/round_1/anna", filled(a=b"x"))
    return world.open()


def put_odd(port: int, world: Prefix, below: str, names: Iterable[str]) -> None:
    root = "/".join(filter(None, (f"/{BUCKET}/{world.prefix}/experiments/demo", below)))
    assert {ask(port, "PUT", f"{root}/{name}", b"{}") for name in names} == {200}


@pytest.mark.parametrize("name", REFUSED)
def test_a_strangers_name_that_no_listing_holds_is_told_and_all_goes_on_when_it_is_gone(server: int, name: str) -> None:
    world = Prefix(server)
    store = a_run(world)
    before = store.list("peers", tags=True).entries
    put_odd(server, world, "peers", [name])
    with pytest.raises(StoreError, match=r"[Rr]emove (that|the) object"):
        store.list("peers")
    assert ask(server, "DELETE", f"/{BUCKET}/{world.prefix}/experiments/demo/peers/{name}", b"") == 204
    assert store.list("peers", tags=True).entries == before


def test_a_flood_of_odd_names_costs_a_listing_little(server: int) -> None:
    world = Prefix(server)
    store = a_run(world)
    put_odd(server, world, "rollouts", [f"/{number}" for number in range(1100)])
    assert [entry.name for entry in store.list("rollouts").entries] == ["round_0"]
    assert store.facts().spent.requests["list"] <= 4


def test_a_large_file_of_a_bundle_is_sent_in_parts_and_comes_back(server: int) -> None:
    world, large = Prefix(server), bytes(range(256)) * (20 * 2**20 // 256)
    world.open("anna").put_bundle("checkpoints/round_1/anna", filled(a=large))
    assert content(world.open(), "checkpoints/round_1/anna")["a"] == large


HEADERS: dict[str, dict[str, str | bytes]] = {
    "to be thawed first": {"x-amz-storage-class": "GLACIER"},
    "no text": {"Content-Type": b"text/\xff"},
    "metadata that is no text": {"x-amz-meta-a": b"\xe9"},
}


@pytest.mark.parametrize("headers", HEADERS.values(), ids=[*HEADERS])
def test_an_object_that_the_server_does_not_give_is_no_trouble_of_the_bucket(
    server: int, headers: dict[str, str | bytes]
) -> None:
    world = Prefix(server)
    store = a_run(world)
    assert ask(server, "PUT", f"/{BUCKET}/{world.prefix}/experiments/demo/peers/eve.json", b"{}", headers) == 200
    anna, eve = get_many(store, ["peers/anna.json", "peers/eve.json"], 99)
    assert isinstance(anna, Blob)
    assert isinstance(eve, ProtocolError)
    assert eve.reason == "unreadable"


def test_a_server_that_is_gone_is_an_error_that_says_so_without_secrets() -> None:
    with pytest.raises(StoreError, match="nobody answers at that address") as caught:
        Prefix(9).open("anna").put("experiment.json", b"{}")
    assert "hunter2" not in str(caught.value)


def test_a_swarm_over_a_bucket_behind_a_bad_network_earns_what_it_earns_in_a_folder(
    server: int, tmp_path: Path
) -> None:
    plan, rounds = Chances(3, busy=0.02, lost=0.02, cut=0.02, half=0.02), 6
    with between(server, plan) as port, daemons() as begin:
        world = Prefix(port)
        for place in (str(tmp_path), world.url):
            swarm = Swarm(place, rounds, begin)
            run_whole(swarm, PATIENCE)
            assert not swarm.ended, "nobody gave up"
    calm, copy = Prefix(server, world.prefix).url, str(tmp_path / "copy")
    assert rewards(calm) == rewards(str(tmp_path))
    assert [len(rows) for rows in rewards(calm).values()] == [rounds] * 3
    env = light_environment(calm, rounds)
    well(env, "copy", calm, copy, "--experiment", EXPERIMENT)
    assert rewards(copy) == rewards(calm)
    for table in ("metrics", "rollouts"):
        files = [tmp_path / f"{number}-{table}.csv" for number in range(2)]
        for place, file in zip((calm, copy), files, strict=True):
            run(["export", EXPERIMENT, "--table", table, "-o", str(file), "--path", place])
        assert files[0].read_bytes() == files[1].read_bytes()
    well(env, "validate", "--json", "--path", copy)
    assert min(plan.happened[kind] for kind in ("busy", "lost", "cut")) > 0, plan.happened
    secret = CREDENTIALS["AWS_SECRET_ACCESS_KEY"].encode()
    store = open_place(calm).store(EXPERIMENT, None)
    for node in ("anna", "ben", "cleo", "clock"):
        for name in ("starts.jsonl", "stdout.log", "training_events.jsonl"):
            assert not any(secret in line for line in store.read_records(f"logs/{node}/{name}").records)
