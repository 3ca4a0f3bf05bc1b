"""`swarm up` as a person uses it."""

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.request import urlopen

import pytest

from swarm.node.process.host import is_running
from swarm.policy.embedded import embedded_path
from tests.fake_hub import fake_hub
from tests.integration.swarms import daemons, environment, events, eventually, json_lines, layout, rows, run_swarm, well
from tests.layout import Layout
from tests.patience import PATIENCE

pytestmark = pytest.mark.engine


def test_up_runs_a_mixed_swarm_whose_folder_validates_and_which_is_never_overwritten(tmp_path):
    env = environment(tmp_path, MAX_ROUNDS="", NUM_TRAIN_SAMPLES="", NUM_GENERATIONS="", SWARM_MAX_NEW_TOKENS="")
    command = ("up", "--nodes", "2", "--test", "--model", "tiny-2-qwen2,tiny-2-gpt2")
    first = well(env, *command)
    assert "3/3 done" in first.stdout
    assert "page: test" not in first.stdout, "nobody is at a terminal"
    assert re.search("^open the page: swarm web --path ", first.stdout, re.MULTILINE)
    models = {row["model"] for node in ("worker-0", "worker-1") for row in rows(tmp_path, node)}
    assert models == {"tiny-2-qwen2", "tiny-2-gpt2"}

    assert json.loads(well(env, "validate", "--json").stdout)
    before = rows(tmp_path, "worker-0")
    again = run_swarm(env, *command)
    assert again.returncode == 2
    assert "--rounds" in again.stderr
    assert "--experiment" in again.stderr
    other = run_swarm(env, *command, "--seed", "43")
    assert other.returncode == 2
    assert "SEED was 42, now 43" in other.stderr
    assert rows(tmp_path, "worker-0") == before

    well(env, *command, "--rounds", "4", "--in-process")
    assert [row["round"] for row in rows(tmp_path, "worker-0")] == [0, 1, 2, 3]


def test_up_fails_with_the_last_lines_of_a_failed_child(tmp_path):
    model = shutil.copytree(embedded_path("tiny-2-qwen2"), tmp_path / "odd-model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"model_type": "unheard-of"}))
    failed = run_swarm(environment(tmp_path), "up", "--nodes", "1", "--model", str(model))
    assert failed.returncode == 1
    assert "failed with exit code 1; its last lines:" in failed.stdout
    assert "unheard-of" in failed.stdout


def test_a_model_of_the_hub_is_fetched_once_by_up_and_every_node_finds_it(tmp_path):
    with fake_hub("owner/small", embedded_path("tiny-2-qwen2")) as hub:
        env = environment(tmp_path, HF_ENDPOINT=hub.endpoint, HF_HOME=str(tmp_path / "home"), HF_HUB_OFFLINE="")
        done = run_swarm(env, "up", "--nodes", "2", "--test", "--model", "owner/small")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("owner/small: fetching") == 1
    assert sum(asked.startswith("GET") and asked.endswith("model.safetensors") for asked in hub.asked) == 1
    assert {row["model"] for row in rows(tmp_path, "worker-1")} == {"small"}


def test_nodes_that_were_killed_start_again_and_ctrl_c_stops_all_and_says_how_to_go_on(tmp_path):
    env = environment(tmp_path, MAX_ROUNDS=100_000)
    with daemons() as start:
        up = start("swarm", env, "up", "--nodes", "2")
        eventually(lambda: rows(tmp_path, "worker-1"), "a round")
        for node in ("worker-1", "coordinator"):
            pid = json.loads(layout(tmp_path).peer_file(node).read_bytes())["pid"]
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: len(events(tmp_path, "worker-1", "node.ready")) == 2, "the worker's second life")
        eventually(lambda: len(events(tmp_path, "coordinator", "coordinator.ready")) == 2, "the coordinator's")
        done = len(rows(tmp_path, "worker-1"))
        eventually(lambda: len(rows(tmp_path, "worker-1")) >= done + 2, "two more rounds")
        up.signal(signal.SIGINT)
        assert up.wait() == 130, up.output
        for node in ("worker-0", "worker-1"):
            assert events(tmp_path, node, "node.finished")[-1]["reason"] == "stopped"
        (resume,) = re.findall(r"^resume: (.*)$", up.output, re.MULTILINE)
        words = shlex.split(resume)
        command = words.index("swarm")
        done = len(rows(tmp_path, "worker-1"))
        alone = {"PATH": os.defpath} | dict(word.split("=", 1) for word in words[:command])
        up_again = start("swarm", alone, *words[command + 1 :], "--in-process")
        eventually(lambda: len(rows(tmp_path, "worker-1")) > done, "the resumed run's first round")
        up_again.signal(signal.SIGTERM)
        assert up_again.wait() == 143
    for node in ("worker-1", "coordinator"):
        assert f"{node} was killed by signal 9 (Killed); it starts again in 1 s" in up.output
    numbers = [row["round"] for row in rows(tmp_path, "worker-1")]
    assert numbers == sorted(set(numbers))


def test_a_reader_that_has_seen_enough_does_not_end_the_swarm(tmp_path):
    env = environment(tmp_path, MAX_ROUNDS=3)
    with daemons() as start:
        up = start("swarm", env, "up", "--nodes", "1", piped=True)
        assert up.process.stdout is not None
        assert "coordinator  opens the rounds" in up.process.stdout.readline()
        up.process.stdout.close()
        assert up.process.wait(PATIENCE) == 0
    assert len(rows(tmp_path, "worker-0")) == 3
    assert layout(tmp_path).checkpoint(3, "worker-0").is_dir()


def test_what_a_killed_up_leaves_is_refused_by_the_next_and_ended_by_down(tmp_path):
    """Two swarms in one folder: only the one that is named ends, and it saves what it has."""
    env = environment(tmp_path, MAX_ROUNDS=100_000, XDG_RUNTIME_DIR=tmp_path)
    of_other = env | {"EXPERIMENT_NAME": "other"}
    with daemons() as start, ended_at_last(env, of_other):
        up = start("swarm", env, "up", "--nodes", "2")
        other = start("swarm", of_other, "up", "--nodes", "1", "--in-process")
        eventually(lambda: rows(tmp_path, "worker-1"), "a round")
        eventually(lambda: json_lines(Layout(tmp_path, "other").metrics_file("worker-0")), "a round of the other")
        peers = [json.loads(layout(tmp_path).peer_file(node).read_bytes()) for node in ("worker-0", "coordinator")]
        up.signal(signal.SIGKILL)
        assert up.wait() == -signal.SIGKILL

        again = run_swarm(env, "up", "--nodes", "2")
        assert again.returncode == 2
        assert "is running: " in again.stderr
        assert "coordinator (process" in again.stderr
        assert f"swarm down --path {tmp_path} --experiment test" in again.stderr
        assert "resume" not in again.stdout + again.stderr

        well(env, "down")
        assert not [peer for peer in peers if is_running(peer["pid"], peer["process_started_at"])]
        assert other.process.poll() is None
        done = len(rows(tmp_path, "worker-1"))
        assert events(tmp_path, "worker-1", "node.finished")[-1]["reason"] == "stopped"

        on = start("swarm", env, "up", "--nodes", "2")
        eventually(lambda: len(rows(tmp_path, "worker-1")) > done, "a round after that")
        well(env, "down")
        assert on.wait() == 143
        assert other.process.poll() is None
        well(of_other, "down")
        assert other.wait() == 143


@contextmanager
def ended_at_last(*environments: dict[str, str]) -> Iterator[None]:
    try:
        yield
    finally:
        for env in environments:
            run_swarm(env, "down", "--timeout", "0")


@contextmanager
def at_a_terminal(env: dict[str, str], *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], list[str]]]:
    """`swarm` on a terminal of its own, and the lines that it has shown there until now."""
    ours, theirs = pty.openpty()
    shown: list[str] = []

    def read() -> None:
        with suppress(OSError), open(ours, encoding="utf-8") as screen:  # EIO: nobody holds the other end any more
            shown.extend(iter(screen.readline, ""))

    command = [sys.executable, "-m", "swarm", *arguments]
    with subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as up:
        os.close(theirs)
        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield up, shown
        finally:
            up.terminate()
            up.wait(PATIENCE)
            reader.join(PATIENCE)


def link_in(shown: list[str]) -> str:
    return next(iter(re.findall(r"page: test in .*: (http://127\.0\.0\.1:\d+)/\?token=\S+", "".join(shown))), "")


def is_served(address: str) -> bool:
    with suppress(OSError):
        return urlopen(f"{address}/healthz", timeout=PATIENCE).read() == b"ok\n"
    return False


def test_at_a_terminal_up_serves_the_page_as_long_as_it_runs_and_says_how_to_open_it_again(tmp_path):
    pytest.importorskip("uvicorn")
    env = environment(tmp_path, MAX_ROUNDS=100_000, TERM="dumb")
    with at_a_terminal(env, "up", "--nodes", "1") as (up, shown):
        address = eventually(lambda: link_in(shown), "the link")
        assert is_served(address)
        up.send_signal(signal.SIGINT)
        assert up.wait(PATIENCE) == 130
    assert not is_served(address)
    again = re.search(r"^open the page again: swarm (web --path \S+ --experiment test)", "".join(shown), re.MULTILINE)
    assert again
    well(env, *again[1].split(), "--export", str(tmp_path / "page.html"))


def test_the_page_dies_with_an_up_that_is_killed(tmp_path):
    pytest.importorskip("uvicorn")
    env = environment(tmp_path, MAX_ROUNDS=100_000, XDG_RUNTIME_DIR=tmp_path, TERM="dumb")
    with ended_at_last(env), at_a_terminal(env, "up", "--nodes", "1") as (up, shown):
        address = eventually(lambda: link_in(shown), "the link")
        up.kill()
        eventually(lambda: not is_served(address), "the page's end")


def test_no_page_is_served_where_nobody_wants_it(tmp_path):
    env = environment(tmp_path, TERM="dumb")
    with at_a_terminal(env, "up", "--nodes", "1", "--no-web", "--rounds", "1", "--in-process") as (up, shown):
        assert up.wait(PATIENCE) == 0
    said = "".join(shown)
    assert "go on with more rounds" in said
    assert "page: " not in said
    assert "open the page" not in said
