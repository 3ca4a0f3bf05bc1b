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


@contextmanager
def a_library(name: str) -> Iterator[logging.Logger]:
    """A library logger that keeps to itself, as transformers' does."""
    library, own = logging.getLogger(name), io.StringIO()
    library.addHandler(logging.StreamHandler(own))
    library.propagate = False
    yield library
    assert own.getvalue() == ""


def test_an_event_reaches_all_three_readers(logs: Logs) -> None:
    with logs.configure():
        log.info("round.finished", round=3, reward=0.5)
    (event,) = logs.events()
    assert abs(event.pop("timestamp") - Path(logs.events_file).stat().st_mtime) < 5
    assert event == {
        "level": "info",
        "event": "round.finished",
        "node_id": "n1",
        "logger": "swarm.test",
        "round": 3,
        "reward": 0.5,
    }
    for text in (logs.terminal.getvalue(), logs.stdout()):
        assert "round.finished" in text
        assert "reward=0.5" in text
        assert "\x1b" not in text


def test_libraries_warnings_and_formats_of_logging_are_events_too(logs: Logs) -> None:
    with logs.configure(), warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.getLogger("some.library").info("read %d files", 3, extra={"folder": "x"})
        warnings.warn("be careful", stacklevel=1)
    library, warning = logs.events()
    assert (library["event"], library["logger"], library["folder"]) == ("read 3 files", "some.library", "x")
    assert (warning["logger"], warning["level"]) == ("py.warnings", "warning")
    assert "be careful" in warning["event"]


def test_a_library_that_keeps_to_itself_is_brought_back(logs: Logs) -> None:
    with logs.configure(level="error"), a_library("test_logs.loner") as library:
        log.info("model.loaded")  # the library was imported meanwhile; from the next event on, it is ours
        library.warning("hello")
    assert logs.names() == ["model.loaded", "hello"]


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


def test_an_events_own_keys_do_not_replace_time_level_and_node(logs: Logs) -> None:
    with logs.configure():
        log.info("x", level="odd", timestamp="never", node_id="other")
    (event,) = logs.events()
    assert (event["level"], event["node_id"]) == ("info", "n1")
    assert isinstance(event["timestamp"], float)


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


def test_a_torn_last_line_is_left_alone_on_its_line(logs: Logs) -> None:
    logs.events_file.parent.mkdir(parents=True)
    logs.events_file.write_bytes(b'{"event": "torn')
    with logs.configure():
        log.info("after")
    torn, after = logs.events_file.read_bytes().splitlines()
    assert torn == b'{"event": "torn'
    assert json.loads(after)["event"] == "after"


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


def test_a_crash_that_leaves_the_process_is_recorded(logs: Logs) -> None:
    with pytest.raises(ZeroDivisionError), logs.configure():
        1 / 0  # noqa: B018
    (event,) = logs.events()
    assert (event["event"], event["level"]) == ("process.crashed", "critical")
    assert event["exception"].endswith("ZeroDivisionError: division by zero")
    assert "ZeroDivisionError: division by zero" in logs.stdout()


def test_an_error_made_on_purpose_is_no_crash(logs: Logs) -> None:
    with pytest.raises(ConfigError), logs.configure():
        raise ConfigError("SEED must be a number")
    (event,) = logs.events()
    assert (event["event"], event["error"]) == ("process.failed", "SEED must be a number")
    assert "exception" not in event


def test_ctrl_c_is_no_crash(logs: Logs) -> None:
    with pytest.raises(KeyboardInterrupt), logs.configure():
        raise KeyboardInterrupt
    assert logs.events() == []


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


def test_context_variables_are_on_every_event(logs: Logs) -> None:
    with logs.configure(), structlog.contextvars.bound_contextvars(round=7):
        log.info("x")
    assert logs.events()[0]["round"] == 7


def test_a_librarys_line_is_not_repeated_because_it_was_formatted_before(tmp_path: Path) -> None:
    events = tmp_path / "training_events.jsonl"
    logger = logging.getLogger("chatty")
    chatty = logging.StreamHandler(io.StringIO())
    chatty.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(chatty)
    try:
        with configure_logging([log_in(tmp_path, "n", events.name)], level="error", stream=io.StringIO()):
            logger.warning("once %s", "only")
    finally:
        logger.removeHandler(chatty)
    (line,) = [json.loads(line) for line in events.read_text().splitlines()]
    assert line["event"] == "once only"
    assert "message" not in line


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


def test_lines_that_do_not_fit_are_written_later_in_order(logs: Logs, monkeypatch: Patch, capsys: Said) -> None:
    with logs.configure():
        log.info("before")
        flush_files(PATIENCE)
        with a_full_disk(monkeypatch):
            for number in range(5):
                log.info("meanwhile", number=number)
            print("printed meanwhile")
        assert logs.names() == ["before"], "no half lines"
        log.info("after")
    assert [e.get("number", e["event"]) for e in logs.events()] == ["before", 0, 1, 2, 3, 4, "after"]
    assert "printed meanwhile\n" in logs.stdout()
    assert "Logging error" not in capsys.readouterr().err


def test_lines_that_still_wait_at_the_end_are_tried_once_more(logs: Logs, monkeypatch: Patch) -> None:
    with logs.configure():
        log.info("first.words")
        with a_full_disk(monkeypatch):
            log.info("last.words")
    assert logs.names() == ["first.words", "last.words"]


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


@pytest.mark.parametrize(
    ("failure", "has_a_name", "logged"),
    [
        (ScoringError, False, True),
        (ExperimentError, True, True),
        *((refusal, False, False) for refusal in (ConfigError, DuplicateNodeError, ExperimentError, KeyboardInterrupt)),
    ],
)
def test_who_fails_says_why_in_the_log_and_who_is_refused_before_it_has_a_name_on_its_terminal_alone(
    logs: Logs, failure: type[BaseException], has_a_name: bool, logged: bool
) -> None:
    with pytest.raises(failure), logs.configure(held=True):  # noqa: PT012 - both belong to it
        if has_a_name:
            begin_files("n1")
        raise failure("such words")
    assert logs.names() == ["process.failed"] * logged
    assert logged or ("such words" in logs.terminal.getvalue()) is issubclass(failure, Exception)


# ── one line, exactly once ──────────────────────────────────────────────────────────────────────────────────────────
def test_a_line_whose_fsync_failed_is_there_once_after_the_next_attempt(tmp_path: Path, monkeypatch: Patch) -> None:
    file = tmp_path / "a.jsonl"
    append(file, b"1", durable=True)

    def failing(fd: int) -> None:
        raise OSError(5, "Input/output error")

    for also_broken in ([], ["ftruncate"]):
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", failing)
            for name in also_broken:
                broken.setattr(os, name, lambda *_: failing(0))
            with pytest.raises(StoreError, match="Input/output"):
                append(file, b"2", durable=True)
        append(file, b"2", durable=True)
        assert file.read_bytes() == b"1\n2\n"
        file.write_bytes(b"1\n")


def test_a_line_that_is_there_and_perhaps_not_on_disk_is_brought_there(tmp_path: Path, monkeypatch: Patch) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"1\n")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    append(file, b"1", durable=True)
    assert file.read_bytes() == b"1\n"
    assert len(synced) == 1


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
