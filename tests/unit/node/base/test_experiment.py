"""One experiment per folder, with the settings that it was made with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from structlog.testing import capture_logs

from swarm.config import LITERAL_RULES
from swarm.errors import ExperimentError, StoreError
from swarm.node.base.experiment import claim_experiment, is_begun, other_experiment, read_experiment, record_start
from swarm.node.process.system import SYSTEM_CLOCK
from swarm.records.files import id_of
from swarm.records.starts import last_start, last_starts
from swarm.wire import keys
from swarm.wire.messages import ExperimentFile, MadeWith
from tests.layout import Layout
from tests.unit.node.factories import make_settings, put, put_state, run_of, there
from tests.unit.node.nodes import make_context, make_coordinator, make_worker, run_all

pytestmark = pytest.mark.anyio

VERSIONS = {"swarm": "1"}
OTHER_SETTINGS: dict[str, tuple[object, str]] = {
    "seed": (43, "SEED was 42, now 43"),
    "local_groups": (5, "NUM_TRAIN_SAMPLES was 2, now 5"),
    "external_groups": (5, "NUM_TRANSPLANT_TREES was 2, now 5"),
    "generations": (3, "NUM_GENERATIONS was 4, now 3"),
    "profile": ("paper", "SWARM_PROFILE was 'tiny-3', now 'paper'"),
    "tasks": (("bf",), "SWARM_TASKS was None, now ['bf']"),
    "adaptive": (True, "ADAPTIVE_IJ_ENABLED was False, now True"),
    "sampler": ("balanced", "SWARM_SAMPLER was 'uniform', now 'balanced'"),
    "loss": ("gspo", "SWARM_LOSS was 'grpo', now 'gspo'"),
    "advantage_scaling": ("none", "SWARM_ADVANTAGE_SCALING was 'std', now 'none'"),
    "empty_update": ("skip", "SWARM_EMPTY_UPDATE was 'step', now 'skip'"),
}


def claim(layout: Layout, *, anew: bool = False, **changed: object) -> bool:
    """Whether the experiment is made by this."""
    ctx = make_context(layout, "coordinator", times=replace(SYSTEM_CLOCK, wall=lambda: 5.0), **changed)
    created, changed = claim_experiment(replace(ctx, versions=VERSIONS), anew=anew)
    if changed:
        raise ExperimentError(other_experiment(ctx.run, changed))
    return created


def made_in(layout: Layout) -> ExperimentFile:
    return there(read_experiment(run_of(layout)))


def test_an_experiment_is_created_once_and_says_when_by_whom_and_with_what(layout: Layout) -> None:
    assert (claim(layout), claim(layout)) == (True, False)
    made = made_in(layout)
    assert (made.experiment_name, made.created_at, made.created_by) == ("exp", 5.0, "coordinator")
    assert (made.versions, made.identity) == (VERSIONS, make_settings(layout.path).experiment_identity())


def test_each_experiment_has_an_id_of_its_own_that_stays_whoever_says_anew_what_it_is(tmp_path: Path) -> None:
    one, other = (Layout(tmp_path / name, "exp") for name in ("a", "b"))
    assert claim(one)
    assert claim(other)
    first = made_in(one).id
    assert re.fullmatch("[0-9a-f]{32}", str(first))
    assert first != made_in(other).id
    assert claim(one, anew=True, seed=7)
    assert made_in(one).id == first, "others may have signed with it"


def rewrite(layout: Layout, change: Callable[[dict[str, Any]], object]) -> None:
    """As another version would have written the experiment's file."""
    made = json.loads(layout.experiment_file.read_bytes())
    change(made)
    layout.experiment_file.write_text(json.dumps(made))


def test_an_experiment_that_an_earlier_version_began_goes_on_without_the_settings_and_the_id_it_did_not_know(
    layout: Layout,
) -> None:
    claim(layout)
    rewrite(layout, lambda made: (made.pop("id"), made["identity"].pop("profile")))
    assert not claim(layout)
    assert claim(layout, anew=True, seed=7)
    assert made_in(layout).id is UNSET


@pytest.mark.parametrize("id_", ["", "0" * 31, "0" * 33, "G" * 32, "0" * 32 + "\n", 7, None])
def test_an_id_that_is_none_makes_the_file_none(layout: Layout, id_: object) -> None:
    claim(layout)
    rewrite(layout, lambda made: made.update(id=id_))
    assert id_of(run_of(layout)) is None, "which is not the same as having none"


def test_a_start_that_was_aborted_before_anything_was_done_burns_no_name(layout: Layout) -> None:
    assert claim(layout)
    put_state(layout, round=0)
    assert not is_begun(run_of(layout))
    assert claim(layout, anew=True, seed=7)
    assert made_in(layout).identity["seed"] == 7


BEGUN: dict[str, Callable[[Layout], object]] = {
    **{
        part: lambda layout, part=part: (layout.root / part / "round_0").mkdir(parents=True)
        for part in ("rollouts", "rewards", "checkpoints")
    },
    "state": lambda layout: put_state(layout, round=1),
    "torn state": lambda layout: put(layout.state_file, b"{"),
}


@pytest.mark.parametrize("what", BEGUN)
def test_what_was_begun_is_never_begun_anew(layout: Layout, what: str) -> None:
    claim(layout)
    BEGUN[what](layout)
    assert is_begun(run_of(layout))
    with pytest.raises(ExperimentError, match="SEED was 42, now 7"):
        claim(layout, anew=True, seed=7)


def test_other_settings_are_refused_all_by_name_and_with_the_two_ways_out(layout: Layout) -> None:
    claim(layout)
    made = layout.experiment_file.read_bytes()
    with pytest.raises(ExperimentError) as refusal:
        claim(layout, **{name: value for name, (value, _) in OTHER_SETTINGS.items()})
    for said in (*(said for _, said in OTHER_SETTINGS.values()), "go on with its settings", "choose another"):
        assert said in str(refusal.value)
    assert layout.experiment_file.read_bytes() == made, "never overwritten"


@pytest.mark.parametrize("rule", LITERAL_RULES)
def test_an_experiment_of_an_earlier_version_goes_on_with_its_own_formula_and_only_under_its_new_name(
    layout: Layout, rule: str
) -> None:
    """Nor does a node of that version join a literal rule by the name that it knows for its own."""
    assert claim(layout, adaptive=True, adaptive_rule=rule)
    assert not claim(layout, adaptive=True, adaptive_rule=rule)
    assert made_in(layout).identity["adaptive_rule"] != rule, "which is what such a node would compare it with"
    with pytest.raises(ExperimentError, match="SWARM_ADAPTIVE_RULE was"):
        claim(layout, adaptive=True, adaptive_rule=f"{rule}-scaled")
    rewrite(layout, lambda made: made["identity"].update(adaptive_rule=rule))
    with pytest.raises(ExperimentError, match=f"SWARM_ADAPTIVE_RULE was '{rule}-scaled', now '{rule}'"):
        claim(layout, adaptive=True, adaptive_rule=rule)
    assert not claim(layout, adaptive=True, adaptive_rule=f"{rule}-scaled")


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b'{"schema_version":99}'])
def test_an_experiment_file_that_cannot_be_understood_is_not_written_over(layout: Layout, content: bytes) -> None:
    layout.root.mkdir(parents=True)
    layout.experiment_file.write_bytes(content)
    with pytest.raises(StoreError, match="restore the file, or choose another"):
        claim(layout)
    assert layout.experiment_file.read_bytes() == content


# ── what a node was started with stands in its logs ───────────────────────────────────────────────────────────────────
async def test_a_start_holds_what_it_was_made_with_and_every_setting_but_no_secret(layout: Layout) -> None:
    made = MadeWith(command="swarm node", sources={"seed": "SEED"}, code="3b", models={"m": "6c"}, machine={"cores": 2})
    ctx = replace(make_context(layout, "alice", learning_rate=0.5, hub_token="secret"), made_with=lambda: made)
    await record_start(ctx, rounds_done=7)
    start = there(last_start(run_of(layout), "alice"))
    assert (start.node_id, start.role, start.rounds_done) == ("alice", "worker", 7)
    assert (start.settings["learning_rate"], start.settings["seed"]) == (0.5, 42)
    assert b"secret" not in (layout.root / keys.starts("alice")).read_bytes()
    assert (start.command, start.sources, start.code) == ("swarm node", {"seed": "SEED"}, "3b")
    assert (start.models, start.machine) == ({"m": "6c"}, {"cores": 2})


async def test_a_later_start_with_other_settings_says_which(layout: Layout) -> None:
    await record_start(make_context(layout, "alice", learning_rate=0.5))
    with capture_logs() as said:
        await record_start(make_context(layout, "alice", learning_rate=0.5))
        await record_start(make_context(layout, "alice", learning_rate=0.25, log_level="debug"))
    assert [(line["event"], line["since_last_start"]) for line in said] == [
        ("settings.changed", ["SWARM_LEARNING_RATE was 0.5, now 0.25"])
    ]
    lines = (layout.root / keys.starts("alice")).read_bytes().splitlines()
    assert len(lines) == 3, "each start is kept"


async def test_a_place_that_refuses_the_record_ends_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = make_context(Layout(tmp_path, "exp"), "alice")

    def refuses(*_: object, **__: object) -> None:
        raise StoreError("full")

    monkeypatch.setattr(type(ctx.run.store), "append_records", refuses)
    with capture_logs() as said:
        await record_start(ctx)
    assert [line["event"] for line in said] == ["start.not_recorded"]


async def test_workers_and_coordinators_record_their_starts(layout: Layout) -> None:
    await run_all(make_coordinator(layout, "clock", max_rounds=1), make_worker(layout, "alice", max_rounds=1))
    started = [(start.node_id, start.role) for start in last_starts(run_of(layout))]
    assert started == [("alice", "worker"), ("clock", "coordinator")]
