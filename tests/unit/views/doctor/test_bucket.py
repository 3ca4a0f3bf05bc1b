"""What is measured of a bucket."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from swarm.config import Settings
from swarm.config.place import CADENCE
from swarm.store import health as trials
from swarm.views.doctor import remote
from swarm.views.doctor.check import CheckContext, Timing
from tests.unit.views.doctor.patients import FAILURE, OK, look

pytest.importorskip("obstore")
import obstore

from swarm.store.bucket.client import BucketClient
from swarm.store.bucket.health import bucket_health
from tests.unit.store.bucket.buckets import BUSY, Faults, MemoryBucket, error

REAL = Timing(time.monotonic, time.time, time.sleep)
SETTINGS = Settings(path="s3://mine").with_values(CADENCE)


@contextmanager
def examined(bucket: MemoryBucket) -> Iterator[CheckContext]:
    client = BucketClient(bucket.objects, "s3://mine", pause=bucket.paused.append, chance=lambda: 1.0)
    with bucket_health(client, "place", "experiments/demo") as health:
        yield CheckContext(SETTINGS, None, health, 1.0, REAL)


def test_a_sound_bucket_is_in_order_and_nothing_is_left_behind() -> None:
    bucket = MemoryBucket()
    bucket.write("peers/anna.json", b"{}")
    with examined(bucket) as context:
        found = look(remote.check_bucket, context)
        assert context.health.there
        assert context.health.survey().files_by_part == {"peers": 1}
        assert abs(context.server_skew) < 2
        assert abs(context.health.written_at("peers/anna.json") - time.time()) < 2
        assert context.health.written_at("peers/ben.json") == 0.0
    assert {finding.verdict for finding in found.values()} == {OK}
    assert found["exclusive creation"].measured.endswith("is refused")
    assert bucket.names() == ["peers/anna.json"]


@pytest.mark.parametrize(
    ("verb", "lacking"), [("put", {"may put"}), ("list", {"may list"}), ("delete", {"may delete"})]
)
def test_what_may_not_be_done_is_named_and_nothing_else_is_tried(
    monkeypatch: pytest.MonkeyPatch, verb: str, lacking: set[str]
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise error("- Server returned non-2xx status code: 403 Forbidden: <Code>AccessDenied</Code>")

    monkeypatch.setattr(f"obstore.{verb}", refused)
    with examined(MemoryBucket()) as context:
        found = look(remote.check_bucket, context)
    assert {name for name, finding in found.items() if finding.verdict is FAILURE} == lacking
    assert {*found} - lacking == {"permissions"}


def test_when_an_object_was_written_is_unknown_where_the_server_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = MemoryBucket()
    bucket.write("peers/anna.json", b"{}")
    with examined(bucket) as context:
        Faults(monkeypatch, "head", *[("before", BUSY)] * 6)
        assert context.health.written_at("peers/anna.json") == 0.0


def test_what_requests_take_is_not_taken_for_lateness(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server far away shows everything at once, each answer 0.2 s later."""
    now, get = 0.0, obstore.get

    def far_away(*args: Any, **kwargs: Any) -> Any:
        nonlocal now
        now += 0.2
        return get(*args, **kwargs)

    monkeypatch.setattr("obstore.get", far_away)
    monkeypatch.setattr(trials, "time", SimpleNamespace(monotonic=lambda: now, sleep=lambda _: None))
    with examined(MemoryBucket()) as context:
        seen = context.health.visibility()
    assert now > 0
    assert {*seen.read, *seen.listed, *seen.replaced} == {0.0}
