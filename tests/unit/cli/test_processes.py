"""Which processes `swarm down` takes for ours: those that hold their own file, and nobody else."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from swarm.cli import processes
from swarm.cli.processes import ProcessFile, running, this_process_runs
from swarm.config import Settings
from tests.patience import PATIENCE

REGISTERS = """
import signal, sys
from swarm.cli.processes import this_process_runs
from swarm.config import Settings
this_process_runs(Settings(path=sys.argv[1], experiment=sys.argv[2]), sys.argv[3], sys.argv[4:])
print("ready", flush=True)
signal.pause()
"""
BYSTANDER = "print('ready', flush=True); import signal; signal.pause()"


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The private runtime folder, not made yet."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "swarm"


def mine(tmp_path: Path, experiment: str = "mine") -> Settings:
    return Settings(path=str(tmp_path / "shared"), experiment=experiment)


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


def registered(settings: Settings) -> subprocess.Popen[str]:
    return process(REGISTERS, settings.path, settings.experiment, "worker", "w")  # type: ignore[return-value]


def found(settings: Settings) -> list[int]:
    with running(settings) as there:
        return [each.file.pid for each in there]


def of(pid: int) -> ProcessFile:
    """What a process would truthfully say of itself."""
    return ProcessFile(pid, 1, "/p", "e", "worker", ["w"])


def test_a_process_is_found_by_its_experiment_until_it_ends(tmp_path: Path) -> None:
    with registered(mine(tmp_path)) as ours, registered(mine(tmp_path, "other")) as other:
        assert found(mine(tmp_path)) == [ours.pid]
        assert found(mine(tmp_path, "other")) == [other.pid]
        with running(mine(tmp_path)) as (there,):
            there.signal(signal.SIGKILL)
            assert ours.wait(PATIENCE) == -signal.SIGKILL
            assert there.ended()
            there.signal(signal.SIGKILL)  # nobody's id by now
        assert found(mine(tmp_path)) == []
        assert other.poll() is None


def test_a_path_that_leads_to_the_same_folder_names_the_same_swarm(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "shared")
    with registered(mine(tmp_path)) as ours:
        assert found(Settings(path=str(tmp_path / "link"), experiment="mine")) == [ours.pid]


def test_what_a_dead_process_left_is_removed(tmp_path: Path, runtime: Path) -> None:
    with registered(mine(tmp_path)) as ours:
        ours.kill()
        ours.wait(PATIENCE)
        assert len(list(runtime.iterdir())) == 1
    assert found(mine(tmp_path)) == []
    assert not list(runtime.iterdir())


def write(runtime: Path, settings: Settings, pid: int, data: bytes) -> Path:
    """A file as `pid` would have written it, which nobody holds."""
    with registered(settings) as real:  # for the name of the experiment's files
        (there,) = runtime.iterdir()
        forged = runtime / there.name.replace(str(real.pid), str(pid))
    forged.write_bytes(data)
    forged.chmod(0o600)
    return forged


def test_a_process_that_got_the_id_of_a_dead_one_is_not_taken_for_it(tmp_path: Path, runtime: Path) -> None:
    with process(BYSTANDER) as innocent:
        write(runtime, mine(tmp_path), innocent.pid, msgspec.json.encode(of(innocent.pid)))
        assert found(mine(tmp_path)) == []


def test_a_file_that_another_process_holds_names_nobody(tmp_path: Path, runtime: Path) -> None:
    with process(BYSTANDER) as innocent:
        forged = write(runtime, mine(tmp_path), innocent.pid, msgspec.json.encode(of(innocent.pid)))
        holds = f"import fcntl; f = open({str(forged)!r}, 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); {BYSTANDER}"
        with process(holds):
            assert found(mine(tmp_path)) == []
            assert forged.exists()


def test_a_process_whose_file_says_another_is_not_ended(tmp_path: Path, runtime: Path) -> None:
    """Its file was written over, while it holds it."""
    with registered(mine(tmp_path)) as ours:
        (file,) = runtime.iterdir()
        for lie in (msgspec.json.encode(of(1)), b"\xff{"):
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
    here = runtime / f"{processes._digest(processes._real(mine(tmp_path)), 'mine')}-"
    with process(BYSTANDER) as innocent:
        file = Path(f"{here}{innocent.pid}")
        file.write_bytes(msgspec.json.encode(of(innocent.pid)))
        holds = f"import fcntl; f = open({str(file)!r}, 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); {BYSTANDER}"
        with process(holds):
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


def test_the_lock_outlives_the_collection_of_what_took_it(tmp_path: Path, runtime: Path) -> None:
    code = REGISTERS.replace('print("ready"', 'import gc; gc.collect(); print("ready"')
    with process(code, mine(tmp_path).path, "mine", "worker", "w") as ours:
        (file,) = runtime.iterdir()
        with file.open("r+") as opened, pytest.raises(BlockingIOError):
            fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert found(mine(tmp_path)) == [ours.pid]
