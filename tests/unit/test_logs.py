"""No event is lost, and none is torn."""

# ruff: noqa: T201 - what is printed is tested here

from __future__ import annotations

import faulthandler
import io
import json
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog

from swarm.errors import ConfigError, DuplicateNodeError, ExperimentError, ScoringError, StoreError
from swarm.lines import BufferedLog
from swarm.logs import begin_files, configure_logging, flush_files, get_logger
from swarm.store.folder.store import FolderStore
from tests.patience import PATIENCE
from tests.unit.log_files import log_in

Said = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

log = get_logger("swarm.test")


def append(file: Path, line: bytes, *, durable: bool = False) -> None:
    """Append a record as the node that writes this file would."""
    FolderStore(file.parent, "alice").append_records(file.name, [line], durable=durable)


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Logs:
    """A configured process's three readers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events_file = folder / "logs" / "n1" / "training_events.jsonl"
        self.stdout_file = folder / "logs" / "n1" / "stdout.log"
        self.terminal = io.StringIO()

    def configure(self, level: str = "info", *, held: bool = False) -> ExitStack:
        files = log_in(self.folder, "n1", "logs/n1/training_events.jsonl", "logs/n1/stdout.log")
        return configure_logging([files], level=level, stream=self.terminal, held=held)

    def events(self) -> list[dict[str, Any]]:
        flush_files(PATIENCE)
        return [json.loads(line) for line in self.events_file.read_text().splitlines()]

    def names(self) -> list[str]:
        return [event["event"] for event in self.events()]

    def stdout(self) -> str:
        flush_files(PATIENCE)
        return self.stdout_file.read_text()


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def test_an_event_reaches_all_three_readers(logs: Logs) -> None:
    """Its own keys do not replace time, level and node; what is bound to the context is on it, too."""
    with logs.configure(), structlog.contextvars.bound_contextvars(stage=7):
        log.info("round.finished", round=3, reward=0.5, level="odd", timestamp="never", node_id="other")
    (event,) = logs.events()
    assert abs(event.pop("timestamp") - logs.events_file.stat().st_mtime) < 5
    said = {"level": "info", "event": "round.finished", "node_id": "n1", "logger": "swarm.test"}
    assert event == said | {"round": 3, "reward": 0.5, "stage": 7}
    for text in (logs.terminal.getvalue(), logs.stdout()):
        assert "round.finished" in text
        assert "reward=0.5" in text
        assert "\x1b" not in text


def test_what_libraries_say_is_an_event_once_also_of_one_that_keeps_to_itself_or_has_formatted_it(logs: Logs) -> None:
    """As transformers does; it is imported after the logs are configured, and is ours from the next event on."""
    own, loner, chatty = io.StringIO(), logging.getLogger("test_logs.loner"), logging.getLogger("test_logs.chatty")
    with logs.configure(), warnings.catch_warnings():
        loner.addHandler(logging.StreamHandler(own))
        loner.propagate = False
        chatty.addHandler(formatting := logging.StreamHandler(io.StringIO()))
        formatting.setFormatter(logging.Formatter("%(message)s"))
        warnings.simplefilter("always")
        chatty.info("read %d files", 3, extra={"folder": "x"})
        loner.warning("hello")
        warnings.warn("be careful", stacklevel=1)
    chatty.removeHandler(formatting)
    library, alone, warning = logs.events()
    assert (library["event"], library["logger"], library["folder"]) == ("read 3 files", "test_logs.chatty", "x")
    assert "message" not in library
    assert (alone["event"], own.getvalue()) == ("hello", "")
    assert (warning["logger"], warning["level"]) == ("py.warnings", "warning")
    assert "be careful" in warning["event"]


def test_the_level_filters_the_terminal_and_not_the_folder(logs: Logs) -> None:
    with logs.configure(level="warning"):
        log.debug("one")
        log.info("two")
        log.warning("three")
    with logs.configure(level="debug"):
        log.debug("four")
    assert logs.names() == ["two", "three", "four"]
    assert "two" in logs.stdout()
    assert "two" not in logs.terminal.getvalue()
    assert "three" in logs.terminal.getvalue()


def test_nothing_is_too_odd_to_be_logged(tmp_path: Path, logs: Logs, monkeypatch: Patch) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])  # those of pytest cannot stand such values
    inside_itself: list[object] = []
    inside_itself.append(inside_itself)
    with logs.configure():
        log.info("odd", path=tmp_path, error=KeyError("k"), big=2**70, mixed={1: {2}}, nan=float("nan"))
        log.info("surrogate", text="\ud800")
        log.info("unshowable", value=Unshowable())
        log.info("recursive", value=inside_itself)
    odd, surrogate, unshowable, recursive = logs.events()
    assert (odd["path"], odd["error"], odd["big"], odd["nan"]) == (str(tmp_path), "KeyError('k')", 2**70, None)
    assert surrogate["text"] == "\\ud800"
    assert "cannot be shown" in unshowable["value"]
    assert recursive["value"] == "[[...]]"


def test_what_is_printed_is_in_stdout_log_line_by_line(logs: Logs, capsys: Said) -> None:
    with logs.configure():
        print("hello", "there")
        print("oops", file=sys.stderr)
        print("\r 10%", end="")
        print("\r100%")
        print("no newline", end="")
    assert logs.stdout().splitlines() == ["hello there", "oops", "100%", "no newline"]
    assert capsys.readouterr().out == "hello there\n\r 10%\r100%\nno newline"


def test_without_a_stdout_file_nothing_is_teed(tmp_path: Path) -> None:
    before = sys.stdout
    with configure_logging([log_in(tmp_path, "n", "e.jsonl")], level="info", stream=io.StringIO()):
        assert sys.stdout is before
        log.info("x")
    assert (tmp_path / "e.jsonl").read_text().count("\n") == 1


def test_a_terminal_that_went_away_stops_nobody(logs: Logs, monkeypatch: Patch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    logs.terminal = Gone()
    monkeypatch.setattr(sys, "stdout", Gone())
    with logs.configure():
        log.info("still.here")
        print("me too")
    assert logs.names() == ["still.here"]
    assert logs.stdout().splitlines()[-1] == "me too"
    assert "Logging error" not in logs.stdout()


def test_closing_puts_everything_back(tmp_path: Path) -> None:
    def state() -> list[object]:
        return [
            sys.stdout,
            sys.stderr,
            sys.excepthook,
            threading.excepthook,
            list(logging.root.handlers),
            logging.root.level,
            warnings.showwarning,
            faulthandler.is_enabled(),
            logging.getLogger("watchfiles").level,
        ]

    before = state()
    with Logs(tmp_path).configure():
        assert faulthandler.is_enabled()
    assert state() == before


def test_a_log_file_that_cannot_be_opened_is_a_folder_error(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file where a folder should be")
    before = sys.stdout, list(logging.root.handlers)
    with pytest.raises(StoreError, match=r"training_events\.jsonl") as error:
        Logs(tmp_path).configure()
    assert (sys.stdout, list(logging.root.handlers)) == before
    del error  # until here its traceback kept alive what was not closed


def test_many_threads_tear_no_line(logs: Logs) -> None:

    def work(number: int) -> None:
        for step in range(50):
            log.info("step", thread=number, step=step, filler="x" * 2000)
            print("printed", number, step)

    with logs.configure(level="error"):
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted((e["thread"], e["step"]) for e in logs.events()) == [(n, s) for n in range(4) for s in range(50)]


@pytest.mark.parametrize(
    ("failure", "begun", "logged"),
    [
        (ZeroDivisionError, True, [("process.crashed", "critical")]),
        (ScoringError, False, [("process.failed", "error")]),
        (ExperimentError, True, [("process.failed", "error")]),
        (KeyboardInterrupt, True, []),
        *((refusal, False, []) for refusal in (ConfigError, DuplicateNodeError, ExperimentError, KeyboardInterrupt)),
    ],
)
def test_who_fails_says_why_in_the_log_and_who_is_refused_before_it_has_a_name_on_its_terminal_alone(
    logs: Logs, failure: type[BaseException], begun: bool, logged: list[tuple[str, str]]
) -> None:
    """A crash with its traceback, an error on purpose without; Ctrl-C is neither."""
    with pytest.raises(failure), logs.configure(held=True):  # noqa: PT012 - both belong to it
        if begun:
            begin_files("n1")
        raise failure("such words")
    assert [(event["event"], event["level"]) for event in logs.events()] == logged
    assert ["such words" in event["error"] for event in logs.events()] == [True] * len(logged)
    assert ("such words" in logs.terminal.getvalue()) is issubclass(failure, Exception)
    tracebacks = [event.get("exception", "").endswith("ZeroDivisionError: such words") for event in logs.events()]
    assert any(tracebacks) is ("ZeroDivisionError: such words" in logs.stdout()) is (failure is ZeroDivisionError)


def test_a_crash_in_a_thread_is_recorded(logs: Logs) -> None:
    with logs.configure():
        thread = threading.Thread(target=lambda: 1 / 0, name="scorer")
        thread.start()
        thread.join()
    (event,) = logs.events()
    assert (event["event"], event["thread"]) == ("process.crashed", "scorer")


def test_a_fatal_signal_leaves_its_traceback_in_stdout_log(tmp_path: Path) -> None:
    code = (
        "import faulthandler; from pathlib import Path; from swarm.logs import configure_logging;"
        "from tests.unit.log_files import log_in;"
        f"configure_logging([log_in(Path({str(tmp_path)!r}), 'n', 'e', 's')], level='info');"
        "faulthandler._sigabrt()"
    )
    subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert "Fatal Python error: Aborted" in (tmp_path / "s").read_text()


def test_before_any_configuration_events_go_to_stderr() -> None:
    code = "from swarm.logs import get_logger; get_logger('a').info('early.event', key=1); get_logger('a').debug('no')"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "early.event" in done.stderr
    assert "key=1" in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


# ── a file that refuses, and a file that is another's ───────────────────────────────────────────────────────────────
@contextmanager
def a_full_disk(monkeypatch: Patch) -> Iterator[None]:
    """Every write fails, half of it done, as on a disk that has run full."""
    real = os.write

    def write(fd: int, data: bytes) -> int:
        if not data.endswith(b"\n"):  # not a line of ours: anyio's and logging's own
            return real(fd, data)
        return real(fd, data[: len(data) // 2])

    with monkeypatch.context() as full:
        full.setattr(os, "write", write)
        yield
        flush_files(PATIENCE)


def test_lines_that_do_not_fit_are_written_later_in_order_or_at_the_end(
    logs: Logs, monkeypatch: Patch, capsys: Said
) -> None:
    with logs.configure():
        log.info("before")
        flush_files(PATIENCE)
        with a_full_disk(monkeypatch):
            for number in range(5):
                log.info("meanwhile", number=number)
            print("printed meanwhile")
        assert logs.names() == ["before"], "no half lines"
        log.info("after")
        flush_files(PATIENCE)
        with a_full_disk(monkeypatch):
            log.info("last.words")
    assert [e.get("number", e["event"]) for e in logs.events()] == ["before", *range(5), "after", "last.words"]
    assert "printed meanwhile\n" in logs.stdout()
    assert "Logging error" not in capsys.readouterr().err


def test_a_descriptor_that_went_stale_is_opened_anew(tmp_path: Path, monkeypatch: Patch) -> None:
    real, stale = os.write, [True]

    def write(fd: int, data: bytes) -> int:
        if stale[0]:
            raise OSError(116, "Stale file handle")
        return real(fd, data)

    with BufferedLog(partial(FolderStore(tmp_path, "n").open_log, "a.log"), lambda _: b"") as lines:
        number = lines.fileno()
        monkeypatch.setattr(os, "write", write)
        (tmp_path / "a.log").rename(tmp_path / "gone.log")  # the descriptor leads there still
        lines.write(b"one")
        lines.flush(PATIENCE)
        stale[0] = False
        lines.write(b"two")
        assert lines.fileno() == number, "a fatal signal's traceback goes to this descriptor"
    assert (tmp_path / "a.log").read_bytes() == b"one\ntwo\n"


def test_files_that_are_held_get_nothing_before_the_name_is_known_to_be_free(logs: Logs) -> None:
    with logs.configure(held=True):
        log.info("early")
        print("printed early")
        assert logs.events() == []
        begin_files("n1")
        assert logs.names() == ["early"]
        log.info("late")
    assert logs.names() == ["early", "late"]
    assert "printed early\n" in logs.stdout()


# ── one line, exactly once ──────────────────────────────────────────────────────────────────────────────────────────
def test_a_durable_line_is_there_once_and_synced_whatever_failed_before(tmp_path: Path, monkeypatch: Patch) -> None:
    file = tmp_path / "a.jsonl"

    def failing(*_: object) -> None:
        raise OSError(5, "Input/output error")

    for broken in (["fsync"], ["fsync", "ftruncate"]):
        file.write_bytes(b"1\n")
        with monkeypatch.context() as patch:
            for name in broken:
                patch.setattr(os, name, failing)
            with pytest.raises(StoreError, match="Input/output"):
                append(file, b"2", durable=True)
        synced: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", synced.append)
            append(file, b"2", durable=True)
            assert (file.read_bytes(), len(synced)) == (b"1\n2\n", 1)
            append(file, b"2", durable=True)
            assert (file.read_bytes(), len(synced)) == (b"1\n2\n", 2), "it may not be on disk yet"


def test_only_half_a_line_is_cut_off_however_long(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    for whole in (b"", b"1\n", b"1\n" + b"x" * 200_000 + b"\n"):
        file.write_bytes(whole + b"y" * 150_000)
        append(file, b"2")
        assert file.read_bytes() == whole + b"2\n"


def test_no_reader_of_lines_obeys_what_a_stranger_wrote(tmp_path: Path) -> None:
    terminal = io.StringIO()
    with configure_logging([log_in(tmp_path, "alice", "events", "stdout")], level="info", stream=terminal):
        get_logger("test").warning("peer.seen", model="\x1b[2Jtiny", host="a\x9b31m\u202eb")
    shown = terminal.getvalue()
    assert shown.replace("\n", "").isprintable()
    assert r"\u001b[2Jtiny" in shown
    assert (tmp_path / "stdout").read_text().replace("\n", "").isprintable()
