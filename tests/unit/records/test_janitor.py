"""Cleaning up: what was published is in its place or in the archive, whoever is killed, and whatever strangers do."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swarm.errors import ProtocolError, StoreError
from swarm.records import archives
from swarm.records.archives import Archive
from swarm.records.janitor import Cleaned, Janitor, Rules
from swarm.records.packing import pack
from swarm.records.rollouts import RolloutFiles, read_cleaned
from swarm.store.base import Kind, Store
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.group_files import digest
from swarm.wire.messages import ArchiveFile, ExperimentFile
from tests.conformance.worlds import WORLDS, World
from tests.doubles.memory import MemoryPlace
from tests.unit.records.beside import WRITES, Beside
from tests.unit.wire.forms import ROLLOUTS_EARLY

NODES = ("anna", "ben", "zoe")
ROUNDS = 6
KEPT_FROM = 4
ARCHIVING, DELETING = Rules(True, 8, 10**6), Rules(False, 8, 10**6)
EXPERIMENT = ExperimentFile(experiment_name="demo", created_at=1760000000.0, created_by="clock", identity={})
ROLLOUTS_EARLY_OF_ROUND_0 = msgspec.structs.replace(ROLLOUTS_EARLY, round=0)


def files_of(rounds: range = range(ROUNDS)) -> dict[tuple[RoundKey, str], bytes]:
    return {(RoundKey(r), node): f"what {node} said in {r}\n".encode() * 9 for r in rounds for node in NODES}


def publish(store: Store, files: dict[tuple[RoundKey, str], bytes]) -> None:
    store.put(keys.EXPERIMENT, encode(EXPERIMENT))
    for (key, node), data in files.items():
        store.put(keys.rollout(key, node), data)


def janitor(run: Run, rules: Rules = ARCHIVING) -> Janitor:
    return Janitor(run, "anna", rules, lambda: 1760000001.0)


def read_all(run: Run) -> dict[tuple[RoundKey, str], bytes | None]:
    files = RolloutFiles(run)
    return {(key, node): files.read(keys.rollout(key, node), 10**6) for key, node in files}


def rounds_in_place(run: Run) -> list[int | None]:
    return [keys.round_of(entry.name) for entry in run.store.list(keys.ROLLOUTS).entries]


def in_memory() -> Run:
    return Run("demo", MemoryPlace().open("anna"), archive=MemoryPlace().open("anna"))


def published() -> Run:
    """In memory, with the files of all rounds."""
    publish((run := in_memory()).store, files_of())
    return run


@pytest.fixture(params=[name for name in WORLDS if not name.startswith("faulty") and "by path" not in name])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    with ExitStack() as undo:
        made: list[World] = []
        for name in ("place", "archive"):
            (tmp_path / name).mkdir()
            made.append(WORLDS[request.param](tmp_path / name, undo))
        yield Run("demo", made[0].open("anna"), archive=made[1].open("anna"))


# ── in every store ──────────────────────────────────────────────────────────────────────────────────────────────────
def test_old_rounds_are_in_the_archive_byte_for_byte_and_no_longer_in_the_way(run: Run) -> None:
    publish(run.store, files_of())
    done = janitor(run).clean(KEPT_FROM, NODES)
    assert (done.rounds, done.files) == (KEPT_FROM, KEPT_FROM * len(NODES))
    assert rounds_in_place(run) == [4, 5]
    assert read_all(run) == files_of()
    assert Archive(run).rounds().keys() == set(range(KEPT_FROM))


def test_without_an_archive_old_rounds_are_deleted_and_it_is_said(run: Run) -> None:
    publish(run.store, files_of())
    run.store.put(keys.completions(0, "anna"), b"{}")
    janitor(run, DELETING).clean(KEPT_FROM, NODES)
    assert rounds_in_place(run) == [4, 5]
    assert read_all(run) == files_of(range(KEPT_FROM, ROUNDS))
    assert run.store.stat(keys.completions(0, "anna")) is None
    said = read_cleaned(run)
    assert said
    assert (said.rollouts_before, said.archived) == (KEPT_FROM, False)


def test_single_groups_go_into_the_archive_with_the_file_that_names_them_and_are_read_out_of_it(run: Run) -> None:
    part = keys.group_file(RoundKey(0), "anna", 0)
    run.store.put(part, encode(ROLLOUTS_EARLY_OF_ROUND_0))
    named = {"0": digest(encode(ROLLOUTS_EARLY_OF_ROUND_0))}
    file = msgspec.structs.replace(ROLLOUTS_EARLY_OF_ROUND_0, rollouts={}, groups={}, earlier=named)
    publish(run.store, {(RoundKey(0), "anna"): encode(file)})
    publish(run.store, files_of(range(1, ROUNDS)))
    before = RolloutFiles(run).decoded(RoundKey(0), "anna", 10**6)
    assert janitor(run).clean(KEPT_FROM, NODES).files == 2 + 3 * len(NODES)
    assert run.store.stat(part) is None
    assert rounds_in_place(run) == [4, 5]
    assert RolloutFiles(run).decoded(RoundKey(0), "anna", 10**6) == before == ROLLOUTS_EARLY_OF_ROUND_0


def test_what_else_lies_among_the_groups_goes_as_well(run: Run) -> None:
    publish(run.store, files_of())
    run.store.put("rollouts/round_0/parts_0/junk", b"x")
    run.store.put(keys.group_file(RoundKey(0), "eve", 7), b"x" * 2 * 10**6)
    janitor(run).clean(KEPT_FROM, NODES)
    assert rounds_in_place(run) == [4, 5]


def test_doing_it_again_changes_nothing(run: Run) -> None:
    publish(run.store, files_of())
    janitor(run).clean(KEPT_FROM, NODES)
    archived = Archive(run).rounds()
    assert janitor(run).clean(KEPT_FROM, NODES) == Cleaned()
    assert Archive(run).rounds() == archived
    assert read_all(run) == files_of()


def test_what_comes_after_its_round_was_archived_is_archived_as_well(run: Run) -> None:
    publish(run.store, files_of())
    janitor(run).clean(KEPT_FROM, NODES)
    late = {(RoundKey(1), "tom"): b"late\n"}
    publish(run.store, late)
    janitor(run).clean(KEPT_FROM, NODES)
    assert rounds_in_place(run) == [4, 5]
    assert read_all(run) == files_of() | late


# ── kills, others, failures ─────────────────────────────────────────────────────────────────────────────────────────
class Death(BaseException):
    """No error that anybody handles."""


def seen_through(run: Run, strike: Callable[[int, bool], None]) -> Run:
    """Something happens at each write, before it and after it; told are its number and whether it is done."""
    writes = [0]

    def before() -> None:
        writes[0] += 1
        strike(writes[0], False)

    def beside(store: Store) -> Any:
        return Beside(store, WRITES, before, lambda: strike(writes[0], True))

    assert run.archive
    return Run("demo", beside(run.store), archive=beside(run.archive))


def refusing(run: Run, error: StoreError, *calls: str) -> Run:
    """As one sees it who may not do this."""

    def refuse() -> None:
        raise error

    return Run("demo", Beside(run.store, calls, refuse), archive=run.archive)  # type: ignore[arg-type]


@pytest.mark.parametrize("rules", [ARCHIVING, DELETING])
@pytest.mark.parametrize("after", [False, True])
def test_whoever_is_killed_at_any_write_nothing_is_lost_and_the_next_one_ends_it(rules: Rules, after: bool) -> None:
    deaths, at = 0, 0
    while deaths == at:
        run, at = in_memory(), at + 1
        publish(run.store, files_of())

        def die(write: int, done: bool, at: int = at) -> None:
            if (write, done) == (at, after):
                raise Death

        with suppress(Death):
            janitor(seen_through(run, die), rules).clean(KEPT_FROM, NODES)
            break
        deaths += 1
        there = read_all(run)
        kept = range(ROUNDS) if rules.archive else range(KEPT_FROM, ROUNDS)
        assert {key: there.get(key) for key in files_of(kept)} == files_of(kept)
        said = read_cleaned(run)
        assert rounds_in_place(run) == [*range(ROUNDS)] or (said and said.rollouts_before == KEPT_FROM)
        janitor(run, rules).clean(KEPT_FROM, NODES)
        assert rounds_in_place(run) == [4, 5]
        assert read_all(run) == files_of(kept)
    assert deaths > 4


def test_another_one_may_clean_up_at_any_moment() -> None:
    for at in range(1, 25):
        run = published()

        def other(write: int, done: bool, at: int = at, run: Run = run) -> None:
            if write == at and done:
                janitor(run).clean(KEPT_FROM, NODES)
                assert read_all(run) == files_of()

        janitor(seen_through(run, other)).clean(KEPT_FROM, NODES)
        assert rounds_in_place(run) == [4, 5]
        assert read_all(run) == files_of()


def test_a_file_that_comes_or_changes_while_its_round_is_archived_stays() -> None:
    run = published()
    came = {(RoundKey(3), "tom"): b"late\n", (RoundKey(3), "anna"): b"another\n"}

    def publishing(write: int, done: bool) -> None:
        if write == 2 and done:  # cleaned.json, then the archive of round 3
            publish(run.store, came)

    janitor(seen_through(run, publishing)).clean(KEPT_FROM, NODES)
    assert rounds_in_place(run) == [3, 4, 5]
    assert read_all(run) == files_of() | came


def test_a_reader_that_counted_before_finds_what_was_archived_meanwhile() -> None:
    run = published()
    reader = RolloutFiles(run)
    counted = reader.counted
    janitor(run).clean(KEPT_FROM, NODES)
    assert {(key, node): reader.read(keys.rollout(key, node), 10**6) for key, node in counted.files} == files_of()


def test_what_one_may_not_remove_is_told_and_stays_and_is_packed_once() -> None:
    run = published()
    strict = refusing(run, StoreError("cannot remove: Operation not permitted"), "remove", "remove_prefix")
    for _ in range(2):
        assert "not permitted" in janitor(strict).clean(KEPT_FROM, NODES).refused
        assert [len(parts) for parts in Archive(run).rounds().values()] == [1] * KEPT_FROM
    assert read_all(run) == files_of()


def test_nothing_goes_that_was_not_announced_before() -> None:
    run = published()
    other = refusing(run, StoreError("it is another machine's to write", blocked=True), "put")
    assert "another machine's" in janitor(other).clean(KEPT_FROM, NODES).refused
    assert rounds_in_place(run) == [*range(ROUNDS)]
    janitor(run).clean(2, NODES)
    janitor(other).clean(KEPT_FROM, NODES)
    assert rounds_in_place(run) == [2, 3, 4, 5]


# ── strangers ───────────────────────────────────────────────────────────────────────────────────────────────────────
def forge(run: Run, round_: int, files: dict[str, bytes], said: dict[str, bytes], **more: Any) -> None:
    """A file of the archive that says what it likes, under the name that belongs to it."""
    import hashlib

    digests = {key: hashlib.sha256(data).hexdigest() for key, data in said.items()}
    fields = {"experiment": "demo", "created_at": EXPERIMENT.created_at, "round": round_, "files": digests} | more
    about = encode(ArchiveFile(**fields))
    name = keys.archived(round_, hashlib.sha256(about).hexdigest()[:16])
    assert run.archive
    run.archive.put(name, pack({archives.ABOUT: about} | files))


def test_an_archive_that_only_says_that_it_has_a_file_takes_it_from_nobody() -> None:
    run = published()
    said = {keys.rollout(key, node): data for (key, node), data in files_of(range(KEPT_FROM)).items()}
    for round_ in range(KEPT_FROM):
        of_round = {key: data for key, data in said.items() if f"round_{round_}/" in key}
        forge(run, round_, {}, of_round)  # by the very name that the janitor will use
        forge(run, round_, dict.fromkeys(of_round, b"other"), of_round, created_at=0.0)
    janitor(run).clean(KEPT_FROM, NODES)
    assert rounds_in_place(run) == [4, 5]
    assert {key: RolloutFiles(run).read(keys.rollout(*key), 10**6) for key in files_of()} == files_of()


def test_the_archive_of_an_earlier_run_of_the_same_name_is_not_this_ones() -> None:
    run = published()
    key = keys.rollout(RoundKey(0), "old")
    forge(run, 0, {key: b"old"}, {key: b"old"}, created_at=1.0)
    forge(run, 0, {key: b"old"}, {key: b"old"}, experiment="other")
    assert read_all(run) == files_of()


def test_an_archive_that_unpacks_to_much_or_holds_what_is_no_rollouts_is_left_aside() -> None:
    run = in_memory()
    publish(run.store, files_of(range(1)))
    assert run.archive
    bomb = io.BytesIO()
    with gzip.GzipFile(fileobj=bomb, mode="wb") as zipped:
        for _ in range(100):
            zipped.write(bytes(2**20))
    run.archive.put(keys.archived(0, "0" * 16), bomb.getvalue())
    run.archive.put(keys.archived(0, "1" * 16), b"junk")
    run.archive.put("rollouts/round_0-../../x.tar.gz".replace("/..", ""), b"junk")
    forge(run, 0, {"state/current_state.json": b"{}"}, {"state/current_state.json": b"{}"})
    forge(run, 0, {"rollouts/round_7/stage_0/anna.json": b"{}"}, {"rollouts/round_7/stage_0/anna.json": b"{}"})
    assert read_all(run) == files_of(range(1))
    with pytest.raises(ProtocolError):
        Archive(run).read(keys.archived(0, "0" * 16))
    janitor(run).clean(1, NODES)
    assert read_all(run) == files_of(range(1))


def test_what_strangers_left_in_an_old_round_goes_with_it_and_not_into_the_archive(tmp_path: Path) -> None:
    with ExitStack() as undo:
        place = WORLDS["folder"](tmp_path, undo)
        (tmp_path / "archive").mkdir()
        archive = WORLDS["folder"](tmp_path / "archive", undo)
        run = Run("demo", place.open("anna"), archive=archive.open("anna"))
        publish(run.store, files_of())
        for kind in ("fifo", "link", "socket", "sparse", "folder", "hard link"):
            assert place.put_odd(f"rollouts/round_1/stage_0/odd-{kind.replace(' ', '-')}.json", kind)
            assert place.put_odd(f"rollouts/round_1/odd {kind}", kind)
        run.store.put("rollouts/round_1/stage_0/half.tmp", b"junk")
        os.mkdir(tmp_path / "experiments/demo/rollouts/round_2/stage_7")
        os.mkdir(tmp_path / "experiments/demo/rollouts/round_0000003")
        janitor(run).clean(KEPT_FROM, NODES)
        assert rounds_in_place(run) == [None, 4, 5]
        assert (tmp_path / "outside/secret").read_bytes() == b"secret"
        there = {key: data for key, data in read_all(run).items() if key[1] in NODES}
        assert there == files_of()
        assert {key[1] for key in read_all(run)} <= {*NODES, "odd-hard-link"}


def test_a_flood_of_names_is_not_archived_and_the_known_ones_are() -> None:
    run = published()
    publish(run.store, {(RoundKey(1), f"eve{number:04}"): b"junk" for number in range(500)})
    janitor(run).clean(KEPT_FROM, {"zoe"})
    assert rounds_in_place(run) == [4, 5]
    there = [node for key, node in read_all(run) if key.round == 1]
    assert len(there) == ARCHIVING.most_files
    assert "zoe" in there


def test_a_round_that_is_not_over_is_never_looked_at() -> None:
    run = published()
    run.store.put("rollouts/round_999999999/stage_0/anna.json", b"forged")
    janitor(run, DELETING).clean(KEPT_FROM, NODES)
    assert rounds_in_place(run) == [4, 5, 999999999]
    found = run.store.stat("rollouts/round_999999999/stage_0/anna.json")
    assert found is not None
    assert found.kind is Kind.FILE
