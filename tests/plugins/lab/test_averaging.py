"""Nodes that average their weights: what is published, whose is taken, and that a kill changes nothing."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from structlog.testing import capture_logs

from swarm.config import load_settings
from swarm.errors import ConfigError
from swarm.plugins.lab.averaging import HEADER
from swarm.plugins.lab.averaging_machine import MOST, Average, AveragingMachine, Seen
from swarm.records.janitor import Janitor, Rules
from swarm.wire import keys
from tests.layout import Layout
from tests.unit.node.factories import FakePolicy, make_ghost, put, run_of
from tests.unit.node.nodes import (
    comparable,
    make_coordinator,
    make_worker,
    play_rounds,
    play_to_the_end,
    released,
    rows_of,
    run_all,
    running,
    set_clock,
    until,
)

pytestmark = pytest.mark.anyio
ROUNDS, EVERY = 6, 2
AVERAGING: dict[str, Any] = {
    "average_every": EVERY,
    "expected_workers": 2,
    "liveness_timeout": 60.0,
    "checkpoint_interval": 100,
}


def alice(layout: Layout, policy: FakePolicy | None = None, **settings: Any) -> Any:
    return make_worker(layout, "alice", policy, **AVERAGING | settings)


def weights_file(layout: Layout, round_: int, node: str = "alice") -> Path:
    return layout.root / keys.weights(round_, node)


def make_bob(layout: Layout, weights: bytes = b"weights of bob", rounds: int = ROUNDS) -> None:
    """A peer that has done all rounds."""
    make_ghost(layout, "bob", rounds=rounds)
    for round_ in range(EVERY - 1, rounds, EVERY):
        put(weights_file(layout, round_, "bob"), weights + str(round_).encode())


async def test_after_every_hth_round_all_have_the_same_weights_and_the_rows_name_them(tmp_path: Path) -> None:
    layout, policies = Layout(tmp_path, "exp"), [FakePolicy(), FakePolicy()]
    settings = {"max_rounds": 4, "expected_workers": 2, "average_every": EVERY}
    with capture_logs() as logs:
        nodes = [make_worker(layout, n, p, **AVERAGING, max_rounds=4) for n, p in zip("ab", policies, strict=True)]
        assert await run_all(make_coordinator(layout, **settings), *nodes) == [0, 0, 0]
    assert policies[0].weights == policies[1].weights
    assert not [log for log in logs if log["event"] in ("weights.missing", "weights.refused")]
    for name, peer in ("ab", "ba"):
        rows = rows_of(layout, name)
        assert [row.averaged is UNSET for row in rows] == [True, False, True, False]
        for row in rows[1::2]:
            files = {node: weights_file(layout, row.round, node).read_bytes() for node in "ab"}
            assert row.averaged == {node: hashlib.sha256(data).hexdigest() for node, data in files.items()}
            rollouts = layout.rollout_file(row.key, name).stat().st_size
            assert row.bytes_published == rollouts + len(files[name])
            assert row.bytes_fetched >= len(files[peer])


async def test_without_it_nothing_is_published_and_no_column_is_written(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    make_ghost(layout, "bob", rounds=2)
    await play_to_the_end(layout, range(2), alice(layout, average_every=0))
    assert not (layout.root / keys.WEIGHTS).exists()
    assert "averag" not in layout.metrics_file("alice").read_text()


@pytest.mark.parametrize("interval", [3, 100])
@pytest.mark.parametrize("killed_in", [1, 2, 3, 4, 5])
async def test_a_killed_node_comes_to_the_same_weights_and_rows(tmp_path: Path, interval: int, killed_in: int) -> None:
    whole, broken = Layout(tmp_path / "whole", "exp"), Layout(tmp_path / "broken", "exp")
    one, other = FakePolicy(), FakePolicy()
    for layout in (whole, broken):
        make_bob(layout)
    await play_to_the_end(whole, range(ROUNDS), alice(whole, one, checkpoint_interval=interval))
    async with running(alice(broken, checkpoint_interval=interval)):
        await play_rounds(broken, range(killed_in))
    with capture_logs() as logs:
        again = alice(broken, other, checkpoint_interval=interval)
        await play_to_the_end(broken, range(killed_in, ROUNDS), again)
    assert other.weights == one.weights
    assert comparable(broken) == comparable(whole)
    assert not [log for log in logs if log["event"] == "rounds.lost"]


class Dying(FakePolicy):
    """Waits for ever at one step of an averaging."""

    def export_weights(self) -> bytes:
        self._hold("export")
        return super().export_weights()

    def average(self, files: Any) -> None:
        self._hold("average")
        super().average(files)
        self._hold("averaged")


@pytest.mark.parametrize("step", ["export", "average", "averaged"])
async def test_a_kill_in_the_middle_of_an_averaging_changes_nothing(tmp_path: Path, step: str) -> None:
    whole, broken = Layout(tmp_path / "whole", "exp"), Layout(tmp_path / "broken", "exp")
    one, other, dying = FakePolicy(), FakePolicy(), Dying(hold_at=step)
    for layout in (whole, broken):
        make_bob(layout)
    await play_to_the_end(whole, range(ROUNDS), alice(whole, one))
    with released(dying):
        async with running(alice(broken, dying)):
            await play_rounds(broken, range(EVERY - 1))
            await set_clock(broken, EVERY - 1)
            await until(dying.holding.is_set)
    assert len(rows_of(broken, "alice")) == EVERY - 1
    await play_to_the_end(broken, range(EVERY - 1, ROUNDS), alice(broken, other))
    assert other.weights == one.weights
    assert comparable(broken) == comparable(whole)


async def test_what_was_published_before_a_kill_is_never_replaced_and_is_what_is_averaged(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    make_bob(layout)
    earlier = b"weights of another update, as a GPU may come to"
    put(weights_file(layout, EVERY - 1), earlier)
    await play_to_the_end(layout, range(EVERY), alice(layout))
    assert weights_file(layout, EVERY - 1).read_bytes() == earlier
    averaged = rows_of(layout, "alice")[EVERY - 1].averaged
    assert averaged is not UNSET
    assert averaged["alice"] == hashlib.sha256(earlier).hexdigest()


@pytest.mark.parametrize(
    "spoil", [lambda file: file.unlink(), lambda file: file.write_bytes(b"weights of somebody else")]
)
async def test_weights_that_are_not_those_any_more_end_the_redo_there(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    layout = Layout(tmp_path, "exp")
    make_bob(layout)
    async with running(alice(layout)):
        await play_rounds(layout, range(EVERY))
    spoil(weights_file(layout, EVERY - 1, "bob"))
    with capture_logs() as logs:
        await play_to_the_end(layout, range(EVERY, EVERY + 1), alice(layout))
    (lost,) = [log for log in logs if log["event"] == "rounds.lost"]
    assert (lost["count"], "weights of bob after round 1" in lost["why"]) == (1, True)


@pytest.mark.parametrize(
    ("weights", "reason"), [(b"another model's ", "other_weights"), (b"weights " + b"x" * 2 * HEADER, "oversized")]
)
async def test_a_peer_whose_weights_do_not_fit_is_left_out_and_the_log_and_the_row_say_so(
    tmp_path: Path, weights: bytes, reason: str
) -> None:
    layout, policy = Layout(tmp_path, "exp"), FakePolicy()
    make_bob(layout, weights)
    with capture_logs() as logs:
        await play_to_the_end(layout, range(EVERY), alice(layout, policy))
    (refused,) = [log for log in logs if log["event"] == "weights.refused"]
    assert (refused["peer"], refused["reason"], refused["round"]) == ("bob", reason, EVERY - 1)
    row = rows_of(layout, "alice")[EVERY - 1]
    assert row.averaged is not UNSET
    assert row.averaged.keys() == {"alice"}
    assert row.refused_files == {reason: 1}


async def test_who_does_not_publish_is_left_out_after_a_while_and_named(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    make_ghost(layout, "bob", rounds=EVERY)
    with capture_logs() as logs:
        await play_to_the_end(layout, range(EVERY), alice(layout, round_interval=0.5))
    missing, *_ = [log for log in logs if log["event"] == "weights.missing"]
    assert (missing["missing"], missing["unknown"]) == (["bob"], 0)


async def test_own_files_go_when_a_checkpoint_of_everybody_holds_their_rounds(tmp_path: Path) -> None:
    layout, settings = Layout(tmp_path, "exp"), {"checkpoint_interval": 1, "checkpoint_keep": 1, "max_rounds": 8}
    nodes = [make_worker(layout, name, **AVERAGING | settings) for name in "ab"]
    assert await run_all(make_coordinator(layout, max_rounds=8, expected_workers=2, average_every=2), *nodes) == [0] * 3
    for node in "ab":
        assert not weights_file(layout, 1, node).exists()
        assert weights_file(layout, 7, node).exists()


def test_the_cleanup_takes_weights_of_old_rounds_along(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "exp")
    make_bob(layout)
    janitor = Janitor(run_of(layout), "test", Rules(False, 64, 2**20), lambda: 0.0)
    janitor.clean(3, set())
    assert not weights_file(layout, 1, "bob").exists()
    assert weights_file(layout, 3, "bob").exists()


EVERY_2 = {"SWARM_AVERAGE_EVERY": "2"}


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"SWARM_AVERAGING": "diloco"}, "SWARM_AVERAGING = diloco has no effect"),
        (EVERY_2 | {"SWARM_SIGNING": "on"}, "SWARM_AVERAGE_EVERY = 2 and SWARM_SIGNING = on exclude each other"),
        (EVERY_2 | {"SWARM_OUTER_RATE": "0.5"}, "SWARM_OUTER_RATE would have no effect"),
    ],
)
def test_settings_that_contradict_it_are_refused(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_settings({}, environ, None)


def test_an_experiment_is_another_one_with_it_and_the_same_without() -> None:
    environ = EVERY_2 | {"SWARM_AVERAGING": "diloco", "SWARM_OUTER_RATE": "0.5", "SWARM_OUTER_MOMENTUM": "0.8"}
    named = ("average_every", "averaging", "outer_rate", "outer_momentum")
    identity = load_settings({}, environ, None).experiment_identity()
    assert [identity[name] for name in named] == [2, "diloco", 0.5, 0.8]
    assert not set(named) & load_settings({}, {}, None).experiment_identity().keys()


async def test_a_node_without_room_for_temporary_files_keeps_its_own_weights_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, policy = Layout(tmp_path, "exp"), FakePolicy()
    make_bob(layout)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with capture_logs() as logs:
        await play_to_the_end(layout, range(ROUNDS), alice(layout, policy))
    assert len(rows_of(layout, "alice")) == ROUNDS
    (first, *_) = [log for log in logs if log["event"] == "weights.unpublished"]
    assert "set TMPDIR" in first["error"]


# ── whose weights, and how long they are waited for ─────────────────────────────────────────────────────────────────
UNTIL = 100.0
OVER: tuple[dict[str, Any], ...] = ({"now": UNTIL}, {"stopping": True})


def machine(own: str = "b", count: int = 3, names: Set[str] = frozenset()) -> AveragingMachine:
    return AveragingMachine(own, count, names, UNTIL)


def seen(fit: str = "b", *, known: str = "ac", live: str | None = None, there: str | None = None, **more: Any) -> Seen:
    """Nodes have names of one letter."""
    refused, now = set(more.get("refused", "")), more.get("now", 0.0)
    there = there if there is not None else "".join({*fit, *refused} - {"b"})
    alive = known if live is None else live
    return Seen(now, set(known), set(alive), set(there), set(fit), refused, more.get("stopping", False))


NAMED = machine("b", 2, {"b", "c"})


@pytest.mark.parametrize(
    ("of", "there", "found"),
    [
        (machine(), seen("ba"), None),
        (machine(), seen("bca"), Average(("a", "b", "c"))),  # in the order of names
        (machine(), seen("ba", known="a"), None),  # who is not registered yet is waited for
        (machine(), seen("ba", refused="c"), Average(("a", "b"))),
        (machine(), seen("bca", live=""), Average(("a", "b", "c"))),  # who has finished counts
        *((machine(), seen("ba", **why), Average(("a", "b"), ("c",))) for why in OVER),
        *((machine(), seen("ba", known="a", **why), Average(("a", "b"), (), 1)) for why in OVER),
        (NAMED, seen("ba", there="a"), None),  # with names nobody else counts
        (NAMED, seen("bc", there="ac"), Average(("b", "c"))),
        (machine("b", 2, {"a", "c"}), seen("b"), Average(())),
        (machine(count=3), seen("bac", known="acde", there="acde"), Average(("a", "b", "c"))),
        (machine("z", count=1), Seen(0.0, {"a"}, {"a"}, {"a"}, {"z"}, set()), Average(())),
    ],
)
def test_all_that_are_expected_are_averaged_and_who_is_missing_at_the_end_is_named(
    of: AveragingMachine, there: Seen, found: Average | None
) -> None:
    assert of.look(there) == found


def test_no_more_is_fetched_than_is_averaged_of_registered_nodes_and_the_dead_are_not_expected() -> None:
    assert machine().to_fetch(seen("b", known="c", there="ac")) == ["c"]
    assert machine(count=3).to_fetch(seen("b", known="acde", there="acde")) == ["a", "c"]
    assert NAMED.to_fetch(seen("b", there="ac")) == ["c"]
    assert machine("b", 2).expected(seen("b", known="ac", live="c")) == ["b", "c"]


def test_a_flood_of_registrations_is_looked_for_in_part_the_live_ones_first() -> None:
    known = {f"n{number}" for number in range(2 * MOST)}
    looked_for = machine().to_look_for(known, {"n9", "n1"}, set())
    assert len(looked_for) == MOST
    assert looked_for[:2] == ["n1", "n9"]
