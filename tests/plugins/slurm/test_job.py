"""What a job does, called here as submitit calls it there."""

import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from swarm.plugins.slurm.job import WRITER, Job, exit_file, mark_key
from swarm.programs import LogOf
from swarm.store.place import open_place
from tests.integration.swarms import eventually

LOG = LogOf("studies/s", "logs/e.log")
SAVING = """
import signal, sys, time
def save(number, frame):
    print("saved", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("began", flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "job").mkdir()
    monkeypatch.setenv("SUBMITIT_FOLDER", str(tmp_path / "job"))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    return tmp_path / "job"


def make_job(place: Path, code: str, *, marked: bool = True) -> Job:
    if marked:
        open_place(str(place)).store("e", WRITER).put(mark_key("m"), b"")
    return Job((sys.executable, "-c", code), str(place), "e", "m", LOG)


def log_of(place: Path) -> str:
    log = place / "studies/s/logs/e.log"
    return log.read_text() if log.exists() else ""


def test_the_command_runs_its_output_is_in_the_log_and_its_end_is_written_down(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert make_job(tmp_path, "print('hello')")() == 0
    assert log_of(tmp_path) == "hello\n"
    assert exit_file(folder, "7").read_text().split() == ["0"]
    with pytest.raises(SystemExit, match="3"):
        make_job(tmp_path, "raise SystemExit(3)")()
    assert exit_file(folder, "7").read_text().split() == ["3"]
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    (tmp_path / "again").mkdir()
    assert make_job(tmp_path / "again", "print('again')", marked=False)() == 0, "one that is queued again has no mark"


def test_a_folder_that_the_machines_do_not_share_is_named_and_nothing_is_begun_in_it(
    tmp_path: Path, folder: Path
) -> None:
    with pytest.raises(SystemExit, match="2"):
        make_job(tmp_path, "print('hello')", marked=False)()
    code, _, why = exit_file(folder, "7").read_text().partition(" ")
    assert code == "2"
    assert f"{tmp_path} on" in why
    assert "share" in why
    assert not (tmp_path / "studies").exists()


def test_the_signal_that_slurm_sends_to_every_process_of_a_job_ends_none_of_its_programs(tmp_path: Path) -> None:
    ask = "import os, signal; os.kill(os.getpid(), signal.SIGUSR2); print('alive')"
    assert make_job(tmp_path, ask)() == 0
    assert log_of(tmp_path) == "alive\n"


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another thread, as to a suspended job"])
def test_a_job_whose_time_is_up_lets_its_swarm_save_and_is_submitted_again(tmp_path: Path, elsewhere: bool) -> None:
    pytest.importorskip("submitit")
    job, again, waiting = make_job(tmp_path, SAVING), [], threading.get_ident()

    def time_is_up(number: int, frame: object) -> None:
        again.append(job.checkpoint())
        raise SystemExit(-1)

    def send() -> None:
        eventually(lambda: "began" in log_of(tmp_path), "the command")
        signal.pthread_kill(threading.get_ident() if elsewhere else waiting, signal.SIGUSR2)

    before = signal.signal(signal.SIGUSR2, time_is_up)
    sender = threading.Thread(target=send)
    began = time.monotonic()
    try:
        sender.start()
        with pytest.raises(SystemExit):
            job()
    finally:
        sender.join()
        signal.signal(signal.SIGUSR2, before)
    assert log_of(tmp_path) == "began\nsaved\n"
    assert again[0].function.seen
    assert again[0].function.command == job.command
    assert time.monotonic() - began < 60, "it was killed, and had not ended by itself"


def test_a_job_that_is_done_when_its_time_is_up_is_submitted_again_all_the_same(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    job = make_job(tmp_path, "print('done')")
    assert job.checkpoint().function.seen, "its command has not begun"
    assert job() == 0
    assert job.checkpoint().function.seen
