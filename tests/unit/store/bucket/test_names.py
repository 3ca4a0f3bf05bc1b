"""Objects that are one thing, and objects that are nothing: what a listing shows of a bucket."""

from __future__ import annotations

from itertools import count
from typing import Any

import obstore
import pytest

from swarm.errors import StoreError
from swarm.records.listing import NodeFiles
from swarm.store.base import PAGE, Kind
from swarm.store.bucket.listing import behind_odd, is_odd
from tests.conformance.promises import filled
from tests.unit.store.bucket.buckets import ROOT, MemoryBucket

HEAD = "Encountered object with invalid path: "
LOG = "logs/anna/metrics.jsonl"


BEHIND = {
    'Path "pre/peers//x" contained empty path segment': "pre/peers/0",
    'Error parsing Path "pre/peers/../q": Encountered illegal character sequence ".." whilst': "pre/peers/..0",
    'Error parsing Path "pre/peers/./q": Encountered illegal character sequence "." whilst': "pre/peers/.0",
    'Error parsing Path "pre/peers/..": Encountered illegal character sequence ".." whilst': "pre/peers/..0",
    'Error parsing Path "pre/peers/\x01b": Encountered illegal character sequence "\x01" w': "pre/peers/ ",
    'Error parsing Path "pre/peers/a\x01b": Encountered illegal character sequence "\x01" w': "",
    'Error parsing Path "pre/peers/a\x7fb/c": Encountered illegal character': "",
    'Error parsing Path "pre/peers/\x7fb/c": Encountered illegal character': "",
    'Path "pre/peers/a//" contained empty path segment': "",
    'Path "pre/pe"ers//": Encountered" contained empty path segment': "",
    'Path "pre/peers/anna" is odd in some other way': "",
    "something else": "",
}
"""What is said of a name that cannot be -> where the listing goes on; "": stepping over it might hide good names."""


def test_the_listing_goes_on_behind_what_cannot_be_named_unless_that_might_hide_names_that_count() -> None:
    assert {said: behind_odd(HEAD + said, "pre/peers") for said in BEHIND} == BEHIND


@pytest.mark.parametrize(
    ("odd", "found"),
    [("peers//x", ["anna.json", "ben.json"]), ("peers/../x", ["anna.json", "ben.json"]), ("peers/b//x", None)],
)
def test_an_object_that_cannot_be_named_is_passed_over_unless_it_hides_others(
    odd: str, found: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, listing = MemoryBucket(), obstore.list

    def refusing(objects: Any, prefix: str, offset: str | None = None, **how: Any) -> Any:
        """Refuses the whole page, as obstore does."""
        if (offset or "") < f"{ROOT}/{odd}":
            raise obstore.exceptions.InvalidPathError(f'{HEAD}Path "{ROOT}/{odd}" contained empty path segment')
        return listing(objects, prefix, offset=offset, **how)

    for node in ("anna", "ben"):
        bucket.write(f"peers/{node}.json", b"{}")
    monkeypatch.setattr(obstore, "list", refusing)
    if found:
        assert [entry.name for entry in bucket.open().list("peers").entries] == found
    else:
        with pytest.raises(StoreError, match="peers/b"):
            bucket.open().list("peers")


def test_a_growing_file_is_one_entry_of_the_total_size_and_has_another_tag_after_each_append() -> None:
    bucket, written, tags = MemoryBucket(), b"", set[str]()
    anna = bucket.open("anna")
    for record in (b"one", b"two", b"three"):
        anna.append_records(LOG, [record], durable=True)
        (entry,) = bucket.open().list("logs/anna", tags=True).entries
        written += record + b"\n"
        assert entry == ("metrics.jsonl", Kind.FILE, len(written), entry.tag)
        assert bucket.open().stat(LOG) == entry
        tags.add(entry.tag)
    assert len(tags) == len(bucket.names("logs/anna")) == 3


def test_odd_objects_of_strangers_are_not_listed_and_no_segments() -> None:
    bucket = MemoryBucket()
    bucket.open("anna").append_records(LOG, [b"row"], durable=True)
    for odd in ("logs/anna/~manifest~", "logs/anna/x~y", f"{LOG}~/junk", f"{LOG}~/{'f' * 20}-1", "logs/~/a"):
        bucket.write(odd, b"junk\n")
    assert [entry.name for entry in bucket.open().list("logs/anna").entries] == ["metrics.jsonl"]
    assert [entry.name for entry in bucket.open().list("logs").entries] == ["anna"]
    assert bucket.open().read_records(LOG).records == [b"row"]


def test_no_key_may_hold_the_mark_of_our_parts() -> None:
    for key in ("peers/a~b.json", "logs/anna/metrics.jsonl~/x", "peers/a\nb"):
        with pytest.raises(ValueError, match="expected a key"):
            MemoryBucket().open("anna").put(key, b"")


def test_a_prefix_full_of_objects_is_left_after_its_first_page() -> None:
    bucket = MemoryBucket()
    for number in range(3500):
        bucket.write(f"rollouts/round_1/stage_0/{number}.json", b"")
    bucket.write("rollouts/round_2/stage_0/anna.json", b"")
    store = bucket.open()
    assert [entry.name for entry in store.list("rollouts").entries] == ["round_1", "round_2"]
    assert store.facts().spent.requests == {"list": 2}


def test_data_by_the_thousand_hides_no_bundle_behind_it() -> None:
    bucket = MemoryBucket()
    for number in range(2 * PAGE):
        bucket.write(f"checkpoints/round_1/aaa/~{0:032x}/{number}", b"")
        bucket.write(f"checkpoints/round_2/a{number:04}/~{0:032x}/0", b"")
        for other in "bcdefgh":
            bucket.write(f"checkpoints/round_3/{other}/~{0:032x}/{number}", b"")
    for number in (1, 2, 3):
        bucket.open("anna").put_bundle(f"checkpoints/round_{number}/anna", filled(a=b"1"))
    store = bucket.open()
    assert [entry.name for entry in store.list("checkpoints").entries] == ["round_1", "round_2", "round_3"]
    assert [entry.name for entry in store.list("checkpoints/round_1").entries] == ["anna"]
    assert store.facts().spent.requests["list"] <= 10


def test_pages_that_end_in_a_prefix_or_a_growing_file_name_it_once() -> None:
    bucket = MemoryBucket()
    anna = bucket.open("anna")
    for name in ("a", "a.log", "b.log"):
        anna.append_records(f"logs/{name}" if "." in name else f"logs/{name}/x.jsonl", [b"1"], durable=True)
        anna.append_records(f"logs/{name}" if "." in name else f"logs/{name}/x.jsonl", [b"2"], durable=True)
    for limit in (1, 2, 3):
        found, after = list[str](), ""
        while page := bucket.open().list("logs", after=after, limit=limit):
            found += [entry.name for entry in page.entries]
            if not (after := page.next):
                break
        assert sorted(found) == ["a", "a.log", "b.log"]


def test_names_below_an_object_do_not_stand_for_it() -> None:
    bucket = MemoryBucket()
    bucket.write("peers/ben.json", b"{}")
    bucket.write("peers/ben.json/eve.json", b"{}")
    found = bucket.open().list("peers", tags=True).entries
    assert [(entry.name, entry.kind) for entry in found] == [("ben.json", Kind.PREFIX), ("ben.json", Kind.FILE)]
    assert NodeFiles(bucket.open(), float).find("peers", [])["ben"].kind is Kind.FILE


LAST = "\U0010ffff"
"""The greatest character, behind which nothing seems to follow."""


@pytest.mark.parametrize("odd", [f"ben.json/{LAST}{{}}/ben.json", f"aa/{LAST}{{}}/ben.json", f"{LAST}{{}}/ben.json"])
def test_names_of_the_greatest_character_hide_nobody_and_cost_a_page_each_thousand(odd: str) -> None:
    bucket = MemoryBucket()
    for node in ("anna", "ben", "carl"):
        bucket.write(f"rewards/round_0/stage_0/{node}.json", b"{}")
    for number in range(2 * PAGE + 1):
        bucket.write(f"rewards/round_0/stage_0/{odd.format(number)}", b"")
    store = bucket.open()
    assert NodeFiles(store, float).find("rewards/round_0/stage_0", []).keys() == {"anna", "ben", "carl"}
    assert store.facts().spent.requests["list"] <= 4


def test_a_page_that_ends_below_such_a_name_is_gone_on_behind_it() -> None:
    bucket, found, after = MemoryBucket(), [], ""
    for name in (f"aa/{LAST}/ben.json", "anna.json", "carl.json"):
        bucket.write(f"peers/{name}", b"{}")
    for _ in range(3):
        page = bucket.open().list("peers", after=after, limit=1)
        found += [entry.name for entry in page.entries]
        after = page.next
    assert (found, after) == (["aa", "anna.json", "carl.json"], "")


@pytest.mark.parametrize("name", ["a~{}", "{}/x.json", "junk-{}"])
def test_a_flood_of_names_that_are_no_nodes_is_not_listed_at_every_look(name: str) -> None:
    bucket = MemoryBucket()
    for number in range(PAGE + 1):
        bucket.write(f"peers/{name.format(number)}", b"")
    store, seconds = bucket.open(), count()
    files = NodeFiles(store, lambda: next(seconds))
    for _ in range(10):
        assert files.find("peers", []) == {}
    assert store.facts().spent.requests == {"list": 2}


def test_names_that_no_request_but_a_listing_can_hold_are_odd() -> None:
    odd = ["/x", "a//b", "a/../b/c", "a/b\x01/c", "a/b\x01", "a/", "\udcff/x"]
    assert [name for name in [*odd, "anna.json", "a/b c/%25", "a/...", "\U0001f600"] if is_odd(name)] == odd
