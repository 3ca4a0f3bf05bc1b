"""`swarm up --sink` beside real nodes, in the environment of all extras; each sink is read back by its own library."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.engines.test_extras_together import PYTHON, ROOT, run
from tests.integration.swarms import environment, eventually, rows
from tests.patience import PATIENCE
from tests.plugins.sinks.libraries import KEPT, keep_apart

pytestmark = pytest.mark.engine
NODES = ("worker-0", "worker-1")


def apart(tmp_path: Path, **settings: object) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir()
    quick = environment(tmp_path / "place", SWARM_SINK_FOLDER=tmp_path / "sinks", XDG_RUNTIME_DIR=home, **settings)
    return quick | keep_apart(home)


def start(env: dict[str, str], *words: str) -> subprocess.Popen[str]:
    command = [PYTHON, "-m", "swarm", *words]
    return subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def read_back(env: dict[str, str], kind: str, folder: Path, name: str) -> Any:
    words = ["-m", "tests.plugins.sinks.libraries", kind, "test", name, str(folder), *NODES]
    read = subprocess.run(
        [PYTHON, *words], cwd=ROOT, env=env, check=False, capture_output=True, text=True, timeout=PATIENCE
    )
    assert read.returncode == 0, read.stderr
    return json.loads(read.stdout.splitlines()[-1])


def name_of_run(tmp_path: Path) -> str:
    (folder,) = (tmp_path / "sinks" / "tensorboard").iterdir()
    return folder.name


def expected(tmp_path: Path, node: str) -> list[tuple[int, float]]:
    return [(row["round"], pytest.approx(row["my_reward"], abs=1e-6)) for row in rows(tmp_path / "place", node)]


def assert_kept(env: dict[str, str], tmp_path: Path, kind: str) -> None:
    kept = read_back(env, kind, tmp_path / "sinks", name_of_run(tmp_path))
    for node in NODES:
        assert [(step, values["my_reward"]) for step, values in kept[node]] == expected(tmp_path, node)


def test_sinks_are_read_back_by_their_own_libraries() -> None:
    said = run("-m", "pytest", "-p", "no:cacheprovider", "-rs", "tests/plugins/sinks/test_sinks.py")
    assert "is not installed" not in said, said


def test_every_row_of_a_swarm_is_in_every_sink_once_and_handing_them_over_again_adds_none(tmp_path: Path) -> None:
    env = apart(tmp_path)
    up = start(env, "up", "--nodes", "2", "--in-process", "--sink", ",".join(KEPT))
    said, _ = up.communicate(timeout=PATIENCE)
    assert up.returncode == 0, said
    for kind in KEPT:
        assert f"sink {kind}: {kind} has 8 more rows of test" in said
        assert_kept(env, tmp_path, kind)
        replay = start(env, "sink", "run", kind, "--once")
        assert "has 0 more rows" in replay.communicate(timeout=PATIENCE)[0]
        assert_kept(env, tmp_path, kind)


def sinks_of(place: Path) -> list[int]:
    """Processes that hand rows of a place to a sink."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        found += [int(file.parent.name)] if {"sink", "run", str(place)} <= {*words} else []
    return found


def test_a_sink_that_was_killed_starts_again_and_the_swarm_hears_nothing_of_it(tmp_path: Path) -> None:
    env = apart(tmp_path, MAX_ROUNDS=30)
    up = start(env, "up", "--nodes", "2", "--in-process", "--sink", "tensorboard")
    eventually(lambda: [*(tmp_path / "sinks").rglob("events.out.*")], "the first rows")
    (pid,) = eventually(lambda: sinks_of(tmp_path / "place"), "the sink")
    os.kill(pid, signal.SIGKILL)
    said, _ = up.communicate(timeout=PATIENCE)
    assert up.returncode == 0, said
    assert "sink tensorboard ended with exit code -9; the swarm goes on, it starts again in 1 s" in said
    assert len(rows(tmp_path / "place", "worker-0")) == 30
    assert_kept(env, tmp_path, "tensorboard")
