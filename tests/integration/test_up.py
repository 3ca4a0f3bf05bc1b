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


def test_up_runs_a_mixed_swarm_with_a_model_of_the_hub_whose_folder_validates_and_which_is_never_overwritten(tmp_path):
    env = environment(tmp_path, MAX_ROUNDS="", NUM_TRAIN_SAMPLES="", NUM_GENERATIONS="", SWARM_MAX_NEW_TOKENS="")
    command = ("up", "--nodes", "2", "--test", "--model", "owner/small,tiny-2-gpt2")
    with fake_hub("owner/small", embedded_path("tiny-2-qwen2")) as hub:
        env |= {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": ""}
        first = well(env, *command)
    assert first.stderr.count("owner/small: fetching") == 1
    assert sum(asked.startswith("GET") and asked.endswith("model.safetensors") for asked in hub.asked) == 1
    assert "3/3 done" in first.stdout
    assert "page: test" not in first.stdout, "nobody is at a terminal"
    assert re.search("^open the page: swarm web --path ", first.stdout, re.MULTILINE)
    models = {row["model"] for node in ("worker-0", "worker-1") for row in rows(tmp_path, node)}
    assert models == {"small", "tiny-2-gpt2"}

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


def test_up_fails_with_the_last_lines_of_a_failed_child(tmp_path):
    model = shutil.copytree(embedded_path("tiny-2-qwen2"), tmp_path / "odd-model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"model_type": "unheard-of"}))
    failed = run_swarm(environment(tmp_path), "up", "--nodes", "1", "--no-coordinator", "--model", str(model))
    assert failed.returncode == 1
    assert "failed with exit code 1; its last lines:" in failed.stdout
    assert "unheard-of" in failed.stdout


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


def pid_of(path, node):
    return json.loads(layout(path).peer_file(node).read_bytes())["pid"]


def killed_and_back(path, killed, others):
    """The process of one of the killed dies: all nodes that were in it come back, and everybody does another round."""
    lives = {node: len(events(path, node, "node.ready")) for node in killed + others}
    os.kill(pid_of(path, killed[0]), signal.SIGKILL)
    for node in killed:
        eventually(lambda node=node: len(events(path, node, "node.ready")) > lives[node], f"{node} to be back")
    done = {node: len(rows(path, node)) for node in killed + others}
    for node, before in done.items():
        eventually(lambda node=node, before=before: len(rows(path, node)) > before, f"{node} to go on")
    assert [len(events(path, node, "node.ready")) for node in others] == [lives[node] for node in others]


@pytest.fixture
def two_cores():
    """The processes that are started may use no more: of three workers two share a process then, where that is done."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:2])
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("two_cores")
def test_killed_processes_start_again_and_ctrl_c_stops_all_and_the_page_and_says_how_to_go_on(tmp_path):
    pytest.importorskip("uvicorn")
    env = environment(tmp_path, MAX_ROUNDS=100_000, TERM="dumb")
    nodes = [f"worker-{number}" for number in range(3)]
    with at_a_terminal(env, "up", "--nodes", "3") as (up, shown):
        address = eventually(lambda: link_in(shown), "the link")
        assert is_served(address)
        eventually(lambda: all(rows(tmp_path, node) for node in nodes), "a round")
        pids = {node: pid_of(tmp_path, node) for node in nodes}
        killed = [node for node in nodes if pids[node] == pids["worker-1"]]
        killed_and_back(tmp_path, killed, [node for node in nodes if node not in killed])
        os.kill(pid_of(tmp_path, "coordinator"), signal.SIGKILL)
        eventually(
            lambda: len(events(tmp_path, "coordinator", "coordinator.ready")) == 2, "the coordinator's second life"
        )
        done = len(rows(tmp_path, "worker-1"))
        eventually(lambda: len(rows(tmp_path, "worker-1")) >= done + 2, "two more rounds")
        up.send_signal(signal.SIGINT)
        assert up.wait(PATIENCE) == 130
    assert not is_served(address)
    for node in nodes:
        assert events(tmp_path, node, "node.finished")[-1]["reason"] == "stopped"
    said = "".join(shown).replace("\r", "")
    for who in (r"worker-(1|\{1\.\.2\})", "coordinator"):
        assert re.search(rf"^{who} was killed by signal 9 \(Killed\); it starts again in 1 s", said, re.MULTILINE), said
    (page,) = re.findall(r"^open the page again: swarm (web --path \S+ --experiment test)", said, re.MULTILINE)
    well(env, *page.split(), "--export", str(tmp_path / "page.html"))

    (resume,) = re.findall(r"^resume: (.*)$", said, re.MULTILINE)
    words = shlex.split(resume)
    command = words.index("swarm")
    alone = {"PATH": os.defpath} | dict(word.split("=", 1) for word in words[:command])
    with daemons() as start:
        done = len(rows(tmp_path, "worker-1"))
        up_again = start("swarm", alone, *words[command + 1 :], "--in-process")
        eventually(lambda: len(rows(tmp_path, "worker-1")) > done, "the resumed run's first round")
        assert len({pid_of(tmp_path, node) for node in nodes}) == 1
        killed_and_back(tmp_path, nodes, [])
        up_again.signal(signal.SIGTERM)
        assert up_again.wait() == 143
    for node in nodes:
        numbers = [row["round"] for row in rows(tmp_path, node)]
        assert numbers == sorted(set(numbers))


def test_what_a_killed_up_leaves_is_refused_by_the_next_and_ended_by_down_and_its_page_dies_with_it(tmp_path):
    """Two swarms in one folder: only the one that is named ends, and it saves what it has."""
    pytest.importorskip("uvicorn")
    env = environment(tmp_path, MAX_ROUNDS=100_000, XDG_RUNTIME_DIR=tmp_path, TERM="dumb")
    of_other = env | {"EXPERIMENT_NAME": "other"}
    with daemons() as start, ended_at_last(env, of_other), at_a_terminal(env, "up", "--nodes", "2") as (up, shown):
        other = start("swarm", of_other, "up", "--nodes", "1", "--in-process")
        address = eventually(lambda: link_in(shown), "the link")
        eventually(lambda: rows(tmp_path, "worker-1"), "a round")
        eventually(lambda: json_lines(Layout(tmp_path, "other").metrics_file("worker-0")), "a round of the other")
        peers = [json.loads(layout(tmp_path).peer_file(node).read_bytes()) for node in ("worker-0", "coordinator")]
        up.kill()
        assert up.wait() == -signal.SIGKILL
        eventually(lambda: not is_served(address), "the page's end")

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

        on = start("swarm", env, "up", "--nodes", "2", "--in-process", "--no-web")
        eventually(lambda: len(rows(tmp_path, "worker-1")) > done, "a round after that")
        well(env, "down")
        assert on.wait() == 143
        assert other.process.poll() is None
        well(of_other, "down")
        assert other.wait() == 143
