"""Single requests to a bucket: what fails for a moment is tried again, what was done is not done twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import obstore
import pytest

from swarm.errors import AlreadyThereError, ProtocolError, StoreError
from swarm.store.base import PAGE, Entry, Kind
from swarm.store.bucket import client
from swarm.store.bucket.client import BucketClient
from swarm.store.bucket.store import BucketStore
from tests.unit.store.bucket.buckets import ADDRESS, BUSY, CUT, ROOT, Faults, MemoryBucket

KEY = "rewards/round_0/stage_0/anna.json"
LOG = "logs/anna/metrics.jsonl"


def test_a_busy_server_and_cut_connections_are_asked_again_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = MemoryBucket()
    Faults(monkeypatch, "put", ("before", BUSY), ("before", CUT), ("after", CUT))
    anna = bucket.open("anna")
    anna.put(KEY, b"{}")
    assert bucket.read(KEY) == b"{}"
    assert bucket.paused == sorted({*bucket.paused})
    assert anna.facts().spent.requests["put"] == 4


def test_what_stays_refused_is_an_error_that_says_what_and_where_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    Faults(monkeypatch, "put", *[("before", BUSY)] * 20)
    with pytest.raises(StoreError, match="503 SlowDown") as caught:
        MemoryBucket().open("anna").put(KEY, b"{}")
    assert f"cannot write s3://mine/place/experiments/demo/{KEY}" in str(caught.value)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_missing_bucket_is_an_error_of_the_place_and_not_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError("status code: 404 Not Found: <Error><Code>NoSuchBucket</Code></Error>")

    for verb in ("put", "get", "list"):
        monkeypatch.setattr(obstore, verb, missing)
    anna = MemoryBucket().open("anna")
    for attempt in (lambda: anna.put(KEY, b""), lambda: anna.get(KEY, 9), lambda: anna.list("peers")):
        with pytest.raises(StoreError, match="no such bucket"):
            attempt()


def test_who_was_first_and_never_heard_of_it_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = MemoryBucket()
    Faults(monkeypatch, "put", ("after", CUT), ("after", BUSY))
    bucket.open("anna").put(KEY, b"{}", if_absent=True)
    with pytest.raises(AlreadyThereError):
        bucket.open("ben").put(KEY, b"{}", if_absent=True)


def test_an_append_whose_answer_was_lost_is_there_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = MemoryBucket()
    anna = bucket.open("anna")
    anna.append_records(LOG, [b"one"], durable=True)
    Faults(monkeypatch, "put", ("after", CUT))
    anna.append_records(LOG, [b"two"], durable=True)
    assert bucket.open().read_records(LOG).records == [b"one", b"two"]


def test_an_append_that_failed_for_good_and_was_done_is_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = MemoryBucket()
    anna = bucket.open("anna")
    anna.append_records(LOG, [b"one"], durable=True)
    faults = [("after", CUT), *[("before", CUT)] * 5]
    Faults(monkeypatch, "put", *faults)
    with pytest.raises(StoreError, match="no answer"):
        anna.append_records(LOG, [b"two"], durable=True)
    for store in (anna, bucket.open("anna")):
        store.append_records(LOG, [b"two"], durable=True)
    anna.append_records(LOG, [b"three"], durable=True)
    assert bucket.open().read_records(LOG).records == [b"one", b"two", b"three"]


def test_requests_and_bytes_are_counted_by_kind() -> None:
    anna = MemoryBucket().open("anna")
    anna.put(KEY, b"12345")
    anna.get(KEY, 100)
    anna.list("rewards/round_0/stage_0", tags=True)
    anna.remove(KEY)
    assert anna.facts().spent.requests == {"put": 1, "get": 1, "list": 1, "delete": 1}
    assert (anna.facts().spent.sent, anna.facts().spent.received) == (5, 5)


@pytest.mark.parametrize(("size", "requests"), [(99, 1), (100, 1), (250, 4)])
def test_a_large_file_is_counted_with_the_requests_of_its_parts(
    size: int, requests: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Three parts, and one request more that says that there are no others."""
    monkeypatch.setattr(client, "PIECE", 100)
    (tmp_path / "weights").write_bytes(b"w" * size)
    anna = BucketClient(MemoryBucket().objects, ADDRESS)
    anna.upload("weights", tmp_path / "weights")
    assert (anna.spent.requests["put"], anna.spent.sent) == (requests, size)


def test_an_append_is_one_request_once_the_end_is_known() -> None:
    anna = MemoryBucket().open("anna")
    anna.append_records(LOG, [b"%0100d" % 0], durable=True)
    before = anna.facts().spent.requests.copy()
    for number in range(1, 10):
        anna.append_records(LOG, [b"%0100d" % number], durable=True)
    assert anna.facts().spent.requests - before == {"put": 9}


def ignore_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    put = obstore.put

    def ignoring(*args: object, mode: object = None, **kwargs: object) -> object:
        return put(*args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(obstore, "put", ignoring)


def test_on_a_server_that_ignores_conditions_who_comes_later_is_refused_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ignore_conditions(monkeypatch)
    bucket = MemoryBucket()
    anna, ben = bucket.open("anna"), bucket.open("ben")
    anna.put("peers/cleo.json", b"{}", if_absent=True)
    assert "bucket.ignores_conditions" in capsys.readouterr().err
    anna.put(KEY, b"anna", if_absent=True)
    for _ in range(2):
        with pytest.raises(AlreadyThereError):
            ben.put(KEY, b"ben", if_absent=True)
    assert bucket.read(KEY) == b"anna"


@pytest.mark.parametrize("ignored", [False, True])
def test_two_processes_of_one_id_that_write_one_log_lose_no_rows(
    ignored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ignored:
        ignore_conditions(monkeypatch)
    bucket = MemoryBucket()
    paused, other = bucket.open("anna"), bucket.open("anna")
    for number, store in enumerate((paused, other, other, paused, other)):
        store.append_records(LOG, [b"%d" % number], durable=True)
    assert bucket.open().read_records(LOG).records == [b"0", b"1", b"2", b"3", b"4"]


def test_a_server_that_obeys_is_tried_once() -> None:
    anna = MemoryBucket().open("anna")
    for number in range(5):
        anna.put(f"rewards/round_{number}/stage_0/anna.json", b"{}", if_absent=True)
    assert anna.facts().spent.requests["put"] == 6
    assert anna.facts().spent.requests["get"] == 1


FORBIDDEN = "- Server returned non-2xx status code: 403 Forbidden: <Error><Code>InvalidObjectState</Code></Error>"
NO_TEXT = "Content-Type header contained non UTF-8 characters"


@pytest.mark.parametrize(
    "said", [FORBIDDEN, NO_TEXT, 'Metadata value for ""x-amz-meta-a"" contained non UTF-8 characters']
)
def test_one_object_that_a_server_does_not_give_is_its_writers_trouble_and_no_trouble_of_the_bucket(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = MemoryBucket()
    for node in ("anna", "ben"):
        bucket.write(f"peers/{node}.json", node.encode())
    Faults(monkeypatch, "get", ("before", said))
    ben = bucket.open()
    with pytest.raises(
        ProtocolError, match=r"unreadable: cannot read s3://mine/place/experiments/demo/peers/anna.json"
    ):
        ben.get("peers/anna.json", 9)
    assert ben.get("peers/ben.json", 9).data == b"ben"
    assert bucket.paused == []
    Faults(monkeypatch, "head", ("before", said))
    assert ben.stat("peers/anna.json") == Entry("anna.json", Kind.OTHER)


def test_where_nothing_is_given_or_listed_it_is_the_buckets_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    Faults(monkeypatch, "get", ("before", FORBIDDEN))
    Faults(monkeypatch, "list", ("before", FORBIDDEN))
    with pytest.raises(StoreError, match="403"):
        MemoryBucket().open().get("peers/anna.json", 9)


def test_a_removal_is_tried_again_where_the_server_is_busy_and_not_where_it_is_not_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = "DeleteObjects request failed for key a: Slow (code: SlowDown)"
    denied = "DeleteObjects request failed for key place/(code: SlowDown): Access Denied (code: AccessDenied)"
    Faults(monkeypatch, "delete", ("before", busy), ("", ""), ("before", denied))
    bucket = MemoryBucket()
    bucket.open("anna").remove("peers/anna.json")
    assert len(bucket.paused) == 1
    with pytest.raises(StoreError, match="the server answered AccessDenied"):
        bucket.open("anna").remove("peers/anna.json")
    assert len(bucket.paused) == 1


def test_where_one_of_several_is_gone_already_the_others_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some servers refuse to remove what is not there, and then remove nothing."""
    bucket, delete = MemoryBucket(), obstore.delete

    def strict(objects: Any, names: list[str]) -> None:
        for name in names:
            obstore.head(objects, name)
        delete(objects, names)

    bucket.write("peers/ben.json", b"{}")
    monkeypatch.setattr(obstore, "delete", strict)
    BucketClient(bucket.objects, ADDRESS).delete([f"{ROOT}/peers/anna.json", f"{ROOT}/peers/ben.json"])
    assert bucket.names() == []


LIST = obstore.list


def from_the_first_name(objects: Any, prefix: str, offset: str | None = None, **how: Any) -> Any:
    """Lists as a server does that begins each listing at the first name."""
    return LIST(objects, prefix, **how)


def test_of_azure_which_may_list_from_the_first_name_each_name_comes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = MemoryBucket()
    for node in "abcd":
        bucket.write(f"peers/{node}.json", b"{}")
    monkeypatch.setattr(obstore, "list", from_the_first_name)
    azure, found, after = BucketStore(BucketClient(bucket.objects, "az://mine"), ROOT), list[str](), ""
    for _ in "abcd":
        page = azure.list("peers", after=after, limit=1)
        found += [entry.name for entry in page.entries]
        after = page.next
    assert (found, after) == (["a.json", "b.json", "c.json", "d.json"], "")


def test_a_server_that_gives_the_same_names_again_is_not_asked_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = MemoryBucket()
    anna = bucket.open("anna")
    for number in range(PAGE):
        anna.put(f"peers/a{number:04}.json", b"{}")
    monkeypatch.setattr(obstore, "list", from_the_first_name)
    with pytest.raises(StoreError, match="names again"):
        list(anna._client.pages("place/experiments/demo/peers", ""))
