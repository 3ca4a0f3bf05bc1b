"""Copies from one store into another: whole, in the order of writing, taken up where they broke off."""

from __future__ import annotations

import os
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from swarm.errors import StoreError
from swarm.records import copying, copying_rows
from swarm.records.copying import STILL_OPEN, Copier
from swarm.records.listing import count_files, nodes_in
from swarm.store import copies
from swarm.store.base import Records, Store
from swarm.store.copies import copy_opened
from swarm.types import RoundKey
from swarm.views import run_records
from swarm.views import validate as validating
from swarm.views.validate import validate
from swarm.wire import keys
from tests.doubles.memory import MemoryPlace
from tests.layout import Layout
from tests.unit.records.beside import WRITES, Beside
from tests.unit.store.bucket.buckets import MemoryBucket
from tests.unit.views.factories import append, make_experiment, make_round, run_of, set_clock, write

WEIGHTS = b"weights" * 1000


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = make_experiment(tmp_path / "here", rounds=3)
    checkpoint = layout.checkpoint(3, "alice")
    (checkpoint / "model").mkdir()
    (checkpoint / "model" / "model.safetensors").write_bytes(WEIGHTS)
    (checkpoint / "state.json").write_bytes(b"{}")
    return layout


def files(layout: Layout) -> dict[str, bytes]:
    there = (file for file in layout.root.rglob("*") if file.is_file())
    return {str(name): f.read_bytes() for f in there if (name := f.relative_to(layout.root)).parts[0] != keys.DRAFTS}


def copier(layout: Layout, target: Store) -> Copier:
    return Copier(run_of(layout).store, target)


def test_into_a_bucket_and_back_all_files_are_the_same(layout: Layout, tmp_path: Path) -> None:
    bucket, back = MemoryBucket(), Layout(tmp_path / "back", layout.experiment)
    there = copier(layout, bucket.open("copy")).run()
    assert (there.checkpoints, there.left_out, there.strays) == (1, [], 0)
    Copier(bucket.open(), run_of(back).store).run()
    assert files(back) == files(layout)
    assert validate(run_of(back)).ok


def test_a_second_pass_copies_what_is_new_and_no_more(layout: Layout) -> None:
    target = MemoryPlace().open("copy")
    first = copier(layout, target)
    assert first.run().files > 6
    assert not first.run(whole=False).anything
    make_round(layout, "alice", 3)
    done = first.run(whole=False)
    assert (done.files, done.records) == (3, 2), "rollouts, reward and vote; a row and an event"
    again = copier(layout, target).run()
    assert (again.files, again.records, again.checkpoints) == (0, 0, 0), "another process finds all there"


def breaking(at: int) -> Callable[[], None]:
    """The call with this number fails."""
    calls = count(1)

    def fail() -> None:
        if next(calls) == at:
            raise StoreError("the network is gone")

    return fail


def test_wherever_it_breaks_off_the_copy_is_whole_as_far_as_it_goes_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run with a checkpoint on the way; each third write is the one that fails."""
    for module in (copying, run_records, validating):
        monkeypatch.setattr(module, "COPIED_TOGETHER", 3)
    source, at = make_experiment(tmp_path / "here", rounds=6), 0
    write(source.checkpoint(4, "alice") / "state.json", {})
    while True:
        at += 3
        copy = Layout(tmp_path / f"copy{at}", source.experiment)
        try:
            copier(source, Beside(run_of(copy).store, WRITES, breaking(at))).run()  # type: ignore[arg-type]
        except StoreError:
            told = [problem for check in validate(run_of(copy), partial=True).checks for problem in check.problems]
            assert [line for line in told if not line.startswith("there is no ")] == [], f"broken off at write {at}"
            assert copier(source, run_of(copy).store).run().left_out == []
            assert files(copy) == files(source)
            continue
        break
    assert at > 40
    assert validate(run_of(copy)).ok


def test_rounds_far_behind_are_looked_through_again_in_a_whole_pass_alone(layout: Layout) -> None:
    far, late = STILL_OPEN + 10, layout.reward_file(RoundKey(2), "alice")
    make_round(layout, "alice", far)
    set_clock(layout, far, max_rounds=99)
    target, said = MemoryPlace().open("copy"), late.read_bytes()
    late.unlink()
    following = copier(layout, target)
    following.run()
    late.write_bytes(said)
    make_round(layout, "alice", far + 1)
    following.run(whole=False)
    assert target.stat(keys.reward(RoundKey(2), "alice")) is None
    following.run()
    assert target.stat(keys.reward(RoundKey(2), "alice")) is not None


@pytest.mark.parametrize("clock", [True, False])
@pytest.mark.parametrize("prefix", [keys.ROLLOUTS, keys.REWARDS, keys.CHECKPOINTS, "row"])
def test_rounds_that_one_node_claims_to_be_at_hide_no_round_of_the_others(
    layout: Layout, prefix: str, clock: bool
) -> None:
    target, far = MemoryPlace().open("copy"), RoundKey(999_999_999)
    if not clock:
        layout.state_file.unlink()
    if prefix == "row":
        append(layout.metrics_file("eve"), b'{"round":999999999}')
    else:
        places = {keys.ROLLOUTS: layout.rollout_file(far, "eve"), keys.REWARDS: layout.reward_file(far, "eve")}
        write(places.get(prefix, layout.checkpoint(far.round, "eve") / "x"), {})
    following = copier(layout, target)
    following.run()
    for node in ("alice", "bob"):
        make_round(layout, node, 3)
    following.run(whole=False)
    assert target.stat(keys.reward(RoundKey(3), "alice"))


@pytest.mark.parametrize("clock", [True, False])
def test_rounds_of_a_node_that_is_far_behind_the_others_are_copied_while_it_does_them(
    layout: Layout, clock: bool
) -> None:
    """Such as a slow one where each keeps its own clock."""
    target, far = MemoryPlace().open("copy"), 4 * STILL_OPEN
    for node in ("alice", "bob"):
        make_round(layout, node, far)
    set_clock(layout, far, max_rounds=999)
    if not clock:
        layout.state_file.unlink()
    following = copier(layout, target)
    make_round(layout, "carl", 3)
    following.run()
    for number in (4, 5):
        make_round(layout, "carl", number)
    following.run(whole=False)
    for kept in (keys.rollout(RoundKey(5), "carl"), keys.reward(RoundKey(5), "carl")):
        assert target.stat(kept)


def test_a_node_may_be_called_as_a_round_is(layout: Layout) -> None:
    target, name = MemoryPlace().open("copy"), "round_1"
    set_clock(layout, 4 * STILL_OPEN, max_rounds=999)
    following = copier(layout, target)
    make_round(layout, "alice", 4 * STILL_OPEN)
    following.run()
    make_round(layout, name, 4 * STILL_OPEN)
    following.run(whole=False)
    assert target.read_records(keys.metrics(name)).records


def test_what_is_rewritten_is_copied_again(layout: Layout) -> None:
    target = MemoryPlace().open("copy")
    following = copier(layout, target)
    following.run()
    set_clock(layout, 4, max_rounds=9)
    following.run(whole=False)
    for path in (layout.state_file, layout.peer_file("clock")):
        assert target.get(layout.key(path), 10**6).data == path.read_bytes()


def test_other_bytes_in_the_target_give_way(layout: Layout) -> None:
    target = MemoryPlace().open("copy")
    key = keys.rollout(RoundKey(1), "bob")
    target.put(key, b"half of it")
    copier(layout, target).run()
    assert target.get(key, 10**6).data == layout.rollout_file(RoundKey(1), "bob").read_bytes()


@pytest.mark.parametrize("before", [b"other\n", b"hello\nmore\nand more\n"], ids=["another", "longer"])
def test_a_log_of_another_beginning_gives_way(layout: Layout, before: bytes) -> None:
    target, key = MemoryPlace().open("copy"), keys.stdout("alice")
    target.append_records(key, before.splitlines(), durable=True)
    copier(layout, target).run()
    assert target.read_records(key).records == [b"hello"]


def test_a_log_that_became_another_file_is_copied_anew(layout: Layout) -> None:
    target, key = MemoryPlace().open("copy"), keys.stdout("alice")
    following = copier(layout, target)
    following.run()
    path = layout.root / key
    path.unlink()
    append(path, b"a new life")
    following.run()
    assert target.read_records(key).records == [b"a new life"]


def test_what_no_node_writes_is_left_out_and_no_link_is_followed(layout: Layout, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    stage = layout.rollout_file(RoundKey(0), "x").parent
    os.symlink(secret, stage / "mallory.json")
    os.mkfifo(stage / "pipe.json")
    os.symlink(tmp_path, layout.root / "logs" / "linked")
    (stage / "alice.json~").write_bytes(b"draft")
    (layout.root / "notes.txt").write_bytes(b"not a key")
    target = MemoryPlace().open("copy")
    done = copier(layout, target).run()
    assert done.strays == 4
    assert count_files(target, keys.ROLLOUTS).nodes[RoundKey(0)] == {"alice", "bob"}
    assert target.stat("notes.txt") is None


def test_a_file_that_is_too_large_is_named_and_left_out(layout: Layout) -> None:
    with open(layout.rollout_file(RoundKey(0), "mallory"), "wb") as huge:
        huge.truncate(2**40)
    done = copier(layout, MemoryPlace().open("copy")).run()
    assert [line.partition(":")[0] for line in done.left_out] == [keys.rollout(RoundKey(0), "mallory")]


def test_registrations_larger_than_any_that_is_read_are_left_out_and_many_are_not_held(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "MOST_HELD", 2)
    for number in range(20):
        layout.peer_file(f"m{number}").write_bytes(b"x" * (9000 if number else 8000))
    target = MemoryPlace().open("copy")
    done = copier(layout, target).run()
    assert len(done.left_out) == 19
    assert all("the limit is 8192" in line for line in done.left_out)
    assert nodes_in(target, keys.PEERS) == {"alice", "bob", "clock", "m0"}


def test_a_checkpoint_that_is_a_hole_or_too_deep_is_left_out(layout: Layout) -> None:
    """250 GB that nobody wrote, and 25 folders within each other."""
    hole, deep = layout.checkpoint(3, "mallory"), layout.checkpoint(2, "mallory")
    hole.mkdir(parents=True)
    with open(hole / "model.safetensors", "wb") as file:
        file.truncate(250 * 10**9)
        file.write(b"x" * 5000)
    os.makedirs(deep.joinpath(*"d" * 25))
    done = copier(layout, MemoryPlace().open("copy")).run()
    assert done.checkpoints == 1
    first, second = sorted(done.left_out)
    assert "folders more than 20 deep" in first
    assert "is a hole" in second


class Swelling:
    """A place in which a stranger makes a hole of a checkpoint's weights as soon as somebody has opened it."""

    def __init__(self, inner: Store, weights: Path) -> None:
        self._inner, self._weights = inner, weights

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @contextmanager
    def open_bundle(self, prefix: str) -> Iterator[Path]:
        with self._inner.open_bundle(prefix) as folder:
            os.truncate(self._weights, 2**30)
            yield folder


def test_a_checkpoint_that_becomes_a_hole_once_it_is_opened_fills_nobodys_disk(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # the place's own file system, where files are linked
    weights = layout.checkpoint(3, "alice") / "model" / "model.safetensors"
    target = MemoryPlace().open("copy")
    done = Copier(cast(Store, Swelling(run_of(layout).store, weights)), target).run()
    assert done.checkpoints == 0
    assert ["is a hole" in line for line in done.left_out] == [True]


def test_of_a_file_that_grows_while_a_bundle_is_copied_no_more_than_there_was_is_written(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, copy = layout.checkpoint(3, "alice"), tmp_path / "copied"
    weights = checkpoint / "model" / "model.safetensors"
    written = copies._written

    def then_it_grows(name: str, folder: int, size: int) -> int:
        found = written(name, folder, size)
        os.truncate(weights, 2**30)
        return found

    monkeypatch.setattr(copies, "LEAST_SPARSE", 100)
    monkeypatch.setattr(copies, "_written", then_it_grows)
    copy.mkdir()
    copy_opened(checkpoint, copy)
    assert (copy / "model" / "model.safetensors").read_bytes() == WEIGHTS


def test_a_checkpoint_whose_optimizer_has_not_moved_is_copied(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its zeros are a hole to a file system that compresses; its weights are not."""
    monkeypatch.setattr(copies, "LEAST_SPARSE", 2**16)
    checkpoint = layout.checkpoint(9, "alice")
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"w" * 2**18)
    with open(checkpoint / "optimizer.safetensors", "wb") as file:
        file.truncate(2**19)
    done = copier(layout, MemoryPlace().open("copy")).run()
    assert not done.left_out
    assert done.checkpoints == 2


def test_a_log_that_is_replaced_again_and_again_is_left_out(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    source = run_of(layout).store
    whole = type(source).read_records

    def replaced(self: Any, key: str, cursor: str = "", limit: int = 0) -> Records:
        found = whole(self, key, cursor)
        return found._replace(restarted=True, more=True) if "mallory" in key and self is source else found

    append(layout.events_file("mallory"), b"{}")
    monkeypatch.setattr(type(source), "read_records", replaced)
    done = Copier(source, MemoryPlace().open("copy")).run()
    assert [line.partition(":")[0] for line in done.left_out] == [keys.events("mallory")]


@pytest.mark.parametrize("bucket", [False, True])
def test_lines_that_are_the_same_again_are_copied_again(layout: Layout, tmp_path: Path, bucket: bool) -> None:
    target = MemoryBucket().open("copy") if bucket else run_of(Layout(tmp_path / "target", layout.experiment)).store
    copier = Copier(run_of(layout).store, target)
    log = layout.logs / "alice" / "stdout.log"
    for passes in range(3):
        with log.open("ab") as file:
            file.write(b"waiting\n")
        copier.run(whole=passes == 2)
    assert target.read_records(keys.stdout("alice")).records[-3:] == [b"waiting"] * 3


def test_blank_lines_by_the_million_are_copied_in_little_memory(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying_rows, "MOST_HELD", 2**20)
    for name in ("metrics.jsonl", "stdout.log"):
        (layout.logs / "eve" / name).parent.mkdir(exist_ok=True)
        (layout.logs / "eve" / name).write_bytes(b"\n" * 400_000)
    target = Layout(tmp_path / "target", layout.experiment)
    tracemalloc.start()
    try:
        Copier(run_of(layout).store, run_of(target).store).run()
        assert tracemalloc.get_traced_memory()[1] < 40 * 2**20, "with one object for each it is 100 MB"
    finally:
        tracemalloc.stop()
    assert (target.logs / "eve" / "metrics.jsonl").stat().st_size == 400_000
