"""A run that the version before this one began, and whose nodes are replaced by this one's, one after the other."""

from __future__ import annotations

import signal
import subprocess
import sys
import tarfile
from itertools import pairwise
from pathlib import Path

import pytest

from swarm.records.files import read_state
from tests.engines.installed import install, run
from tests.integration.swarms import Daemon, daemons, environment, eventually, layout, rows, run_swarm

ROOT = Path(__file__).parents[2]
BEFORE = (*(pytest.param(old, marks=pytest.mark.slow) for old in ("f29a9c0", "685a57c")), "4d4064e")
"""The last commit with the form that files and settings had before stores, task families and `tiny-2`; the one before
workers that start one after the other began together; the one before plugins."""
ENDLESS = 1_000_000
LAST_ROUNDS = 10
LATE_ROUNDS = 2
"""Nobody waits for a node that has just come back: so many of its rounds may close without it."""
ASKED_TO_END = 128 + signal.SIGTERM
pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("distribution"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=BEFORE)
def before(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel of the version before, and this one's packages beneath."""
    source, home = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("environment")
    archive = source / "before.tar"
    made = subprocess.run(["git", "archive", "-o", archive, request.param], cwd=ROOT, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"this checkout does not hold commit {request.param}: {made.stderr.decode()}")
    with tarfile.open(archive) as packed:
        packed.extractall(source / "checkout", filter="data")
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", source, source / "checkout")
    (wheel,) = source.glob("*.whl")
    return install(wheel, home) / "python"


@pytest.mark.parametrize("first", ["workers", pytest.param("clock", marks=pytest.mark.slow)])
def test_old_and_new_nodes_train_on_each_other_and_a_run_is_upgraded_node_by_node(
    before: Path, tmp_path: Path, first: str
) -> None:
    was = environment(
        tmp_path,
        MODEL_NAME="tiny-qwen2",
        SWARM_PROFILE="tiny",
        SWARM_EXPECTED_WORKERS=2,
        MAX_ROUNDS=ENDLESS,
        CHECKPOINT_INTERVAL=5,
        PYTHONSAFEPATH=1,
    )
    env = was | {"SWARM_EMPTY_UPDATE": "skip"}  # as the changelog says
    del was["SWARM_SETTLE_TIME"]  # which the version before does not know
    with daemons() as start:

        def ended(node: Daemon) -> None:
            node.signal(signal.SIGTERM)
            assert node.wait() == ASKED_TO_END, node.output

        clock = start("services.coordinator", was | {"NODE_ROLE": "coordinator"}, python=before)
        names = ("anna", "ben")
        nodes = {name: start("services.worker", was | {"NODE_ID": name}, python=before) for name in names}
        eventually(lambda: clock.process.poll() is not None or _rounds(tmp_path) >= 3, "three rounds of before")
        assert clock.process.poll() is None
        if first == "clock":
            ended(clock)
            clock = start("services.coordinator", env | {"NODE_ROLE": "coordinator"})
        before_restart = {}
        for name in nodes:
            ended(nodes[name])
            before_restart[name] = done = len(rows(tmp_path, name))
            nodes[name] = start("services.worker", env | {"NODE_ID": name})
            eventually(lambda name=name, done=done: _shared(tmp_path, name, done), f"{name} to share again")  # type: ignore[misc]
        ended(clock)
        last = str(_rounds(tmp_path) + LAST_ROUNDS)
        clock = start("services.coordinator", env | {"NODE_ROLE": "coordinator", "MAX_ROUNDS": last})
        assert [node.wait() for node in (*nodes.values(), clock)] == [0, 0, 0]
    for name in nodes:
        found = rows(tmp_path, name)
        done = [row["round"] for row in found]
        assert done == sorted(set(done)), "each round once"
        left = before_restart[name]
        settled = (done[:left], done[left + LATE_ROUNDS :])
        assert all(later == sooner + 1 for part in settled for sooner, later in pairwise(part)), "all but its restart's"
        assert all(not any(row["refused_files"].values()) for row in found), "neither refuses the other's files"
    checked = run_swarm(env, "validate")
    assert checked.returncode == 0, checked.stdout


def _rounds(path: Path) -> int:
    state = read_state(layout(path).run)
    return state.round if state else 0


def _shared(path: Path, name: str, done: int) -> bool:
    """After its restart the node has trained on the other's groups in some rounds, and the other on its."""
    other = {"anna": "ben", "ben": "anna"}[name]
    since = rows(path, name)[done:]
    first = min((row["round"] for row in since), default=ENDLESS)
    return (
        sum(row["peers_heard"] for row in since) >= 3
        and sum(row["peers_heard"] for row in rows(path, other) if row["round"] > first) >= 3
    )
