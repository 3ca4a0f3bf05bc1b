"""Which processes `swarm down` takes for ours, and which nodes keep `swarm up` from starting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec
import pytest

from swarm.cli import processes
from swarm.cli.processes import ProcessFile, refuse_live, running, this_process_runs
from swarm.config import Settings
from swarm.errors import ExperimentError
from swarm.node.process.host import host_identity
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.views.factories import make_peer

BYSTANDER = "print('ready', flush=True); import signal; signal.pause()"
REGISTERS = f"""
import gc, sys
from swarm.cli.processes import this_process_runs
from swarm.config import Settings
this_process_runs(Settings(path=sys.argv[1], experiment=sys.argv[2]), sys.argv[3], sys.argv[4:])
gc.collect()  # the lock stays
{BYSTANDER}
"""
HOLDS = f"import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); {BYSTANDER}"


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The private runtime folder, not made yet."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "swarm"


def mine(tmp_path: Path, experiment: str = "mine") -> Settings:
    settings = Settings(path=str(tmp_path / "shared"), experiment=experiment)
    return settings.with_values({"heartbeat_interval": 0.2})


@contextmanager
def process(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        try:
            assert started.stdout.readline() == "ready\n"
            yield started
        finally:
            started.kill()


def registered(
    settings: Settings, role: str = "worker", node: str = "w"
) -> AbstractContextManager[subprocess.Popen[str]]:
    return process(REGISTERS, settings.path, settings.experiment, role, node)


def found(settings: Settings) -> list[int]:
    with running(settings) as there:
        return [each.file.pid for each in there]


def forge(runtime: Path, settings: Settings, pid: int) -> Path:
    """A file as `pid` would have written it."""
    runtime.mkdir(0o700, exist_ok=True)
    file = runtime / f"{processes._digest(settings)}-{pid}"
    file.write_bytes(msgspec.json.encode(ProcessFile(pid, 1, "/p", "e", "worker", ["w"])))
    file.chmod(0o600)
    return file


def test_a_process_is_found_by_its_experiment_until_it_ends_and_what_it_left_is_removed(
    tmp_path: Path, runtime: Path
) -> None:
    with registered(mine(tmp_path)) as ours, registered(mine(tmp_path, "other")) as other:
        assert found(mine(tmp_path)) == [ours.pid]
        assert found(mine(tmp_path, "other")) == [other.pid]
        with running(mine(tmp_path)) as (there,):
            there.signal(signal.SIGKILL)
            assert ours.wait(PATIENCE) == -signal.SIGKILL
            assert there.ended()
            there.signal(signal.SIGKILL)  # nobody's id by now
        assert found(mine(tmp_path)) == []
        assert [file.name.rpartition("-")[2] for file in runtime.iterdir()] == [str(other.pid)]
        assert other.poll() is None


def test_a_path_that_leads_to_the_same_folder_names_the_same_swarm(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "shared")
    with registered(mine(tmp_path)) as ours:
        assert found(Settings(path=str(tmp_path / "link"), experiment="mine")) == [ours.pid]


@pytest.mark.parametrize("held", [False, True])
def test_a_process_that_does_not_hold_its_file_itself_is_nobody(tmp_path: Path, runtime: Path, held: bool) -> None:
    """It has the id of a dead one, or somebody else holds the file."""
    with process(BYSTANDER) as innocent:
        forged = forge(runtime, mine(tmp_path), innocent.pid)
        with process(HOLDS, forged if held else os.devnull):
            assert found(mine(tmp_path)) == []
            assert forged.exists() == held


def test_a_process_whose_file_says_another_is_not_ended(tmp_path: Path, runtime: Path) -> None:
    """Its file was written over, while it holds it."""
    with registered(mine(tmp_path)) as ours:
        (file,) = runtime.iterdir()
        for lie in (forge(tmp_path, mine(tmp_path), 1).read_bytes(), b"\xff{"):
            file.write_bytes(lie)
            assert found(mine(tmp_path)) == []
        assert ours.poll() is None


def test_odd_things_in_the_runtime_folder_are_passed_over(tmp_path: Path, runtime: Path) -> None:
    with registered(mine(tmp_path)) as ours:
        (own,) = runtime.iterdir()
        odd = [runtime / own.name.replace(str(ours.pid), str(4_000_000 + number)) for number in range(3)]
        odd[0].mkdir()
        odd[1].symlink_to("/dev/zero")
        os.mkfifo(odd[2])
        own.with_name(f"{own.name}{'9' * 200}").write_bytes(b"")
        assert found(mine(tmp_path)) == [ours.pid]


def make_open(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def make_link(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "elsewhere")


def open_above(folder: Path) -> None:
    folder.mkdir(0o700)
    folder.parent.chmod(0o777)


@pytest.mark.parametrize("spoil", [make_open, make_link, open_above])
def test_a_runtime_folder_that_is_not_private_is_neither_written_nor_believed(
    tmp_path: Path,
    runtime: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], None],
) -> None:
    monkeypatch.setattr(processes.tempfile, "gettempdir", lambda: str(tmp_path / "none"))
    spoil(runtime)
    this_process_runs(mine(tmp_path), "worker", ["w"])
    assert "`swarm down` will not find this process" in capsys.readouterr().err
    assert not list(runtime.iterdir())
    with process(BYSTANDER) as innocent, process(HOLDS, forge(runtime, mine(tmp_path), innocent.pid)):
        assert found(mine(tmp_path)) == []


def test_without_a_session_folder_it_is_one_of_this_user_among_the_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(processes.tempfile, "tempdir", None)
    with registered(mine(tmp_path)) as ours:
        folder = tmp_path / f"swarm-{os.geteuid()}"
        assert folder.stat().st_mode & 0o777 == 0o700
        assert found(mine(tmp_path)) == [ours.pid]
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # as in a session that began later
        assert found(mine(tmp_path)) == [ours.pid]


# ── before a start ──────────────────────────────────────────────────────────────────────────────────────────────────
NOW = 1_800_000_000.0


@contextmanager
def beating(layout: Layout, name: str, last_seen: float) -> Iterator[None]:
    """A registration of another machine whose heartbeat moves, for the block; its clock stands."""
    over, first = threading.Event(), threading.Event()

    def beat() -> None:
        number = 0
        while not over.wait(0.05):
            number += 1
            make_peer(layout, name, status="active", host="elsewhere", beat=number, last_seen=last_seen)
            first.set()

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        first.wait()
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """Where `refuse` looks, at one moment."""
    monkeypatch.setattr("swarm.cli.processes.time.time", lambda: NOW)
    return Layout(tmp_path / "shared", "mine")


def refuse(shared: Layout) -> None:
    refuse_live(mine(shared.path.parent), shared.run, ["coordinator", "worker-0"])


@pytest.mark.parametrize(
    ("role", "node", "title"), [("up", "worker-7", "swarm up"), ("worker", "worker-0", "worker-0")]
)
def test_what_runs_here_is_named_with_the_ways_out(shared: Layout, role: str, node: str, title: str) -> None:
    with registered(mine(shared.path.parent), role, node) as other, pytest.raises(ExperimentError) as refused:
        refuse(shared)
    where = f"--path {shared.path} --experiment mine"
    for said in (f"is running: {title} (process {other.pid})", "another --experiment"):
        assert said in str(refused.value)
    for typed in (f"`swarm down {where}`", f"`swarm node {where} --node-id NAME`"):
        assert typed in str(refused.value)


def test_ids_that_beat_elsewhere_are_refused(shared: Layout) -> None:
    with (
        beating(shared, "worker-0", NOW),
        pytest.raises(ExperimentError, match="worker-0 beat in it, of another machine"),
    ):
        refuse(shared)


@pytest.mark.parametrize(
    "claim",
    [
        {"status": "active", "host": "elsewhere", "last_seen": NOW},
        {"status": "active", "host": host_identity(), "pid": 4_000_000, "last_seen": NOW},
        {"status": "stopped", "host": "elsewhere", "last_seen": NOW},
    ],
)
def test_a_registration_that_does_not_beat_keeps_nobody_from_starting_nor_does_a_guest(
    shared: Layout, claim: dict[str, object]
) -> None:
    make_peer(shared, "worker-0", **claim)
    with registered(mine(shared.path.parent), "worker", "guest"), beating(shared, "visitor", NOW):
        refuse(shared)
