"""A log whose file hangs: who says something is not held up, and nothing is lost in silence."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from swarm.lines import BufferedLog
from tests.patience import PATIENCE


class HangingFile:
    """A file whose writes come back when they may."""

    waits = 0.0

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.asked = threading.Event()
        """A write has begun."""
        self.answers = threading.Event()
        self.closed = threading.Event()

    def write(self, line: bytes) -> None:
        self.asked.set()
        assert self.answers.wait(PATIENCE)
        self.lines += line.split(b"\n")

    def reopen(self) -> None:
        pass

    def fileno(self) -> None:
        return None

    def close(self) -> None:
        self.closed.set()


def note(dropped: int) -> bytes:
    return b"%d dropped" % dropped


@contextmanager
def hanging(most_waiting: int = 1000) -> Iterator[tuple[HangingFile, BufferedLog]]:
    """A log that hangs in its first line; it answers at the end, and nothing it has taken is lost."""
    file = HangingFile()
    with BufferedLog(lambda: file, note, most_waiting=most_waiting, patience=PATIENCE) as log:
        log.write(b"first")
        assert file.asked.wait(PATIENCE)
        yield file, log
        file.answers.set()
    assert file.closed.is_set()


def test_a_file_that_hangs_holds_up_nobody_and_has_every_line_in_order_when_it_answers() -> None:
    with hanging() as (file, log):
        for number in range(5):
            log.write(b"%d" % number)
        assert file.lines == []
    assert file.lines == [b"first", b"0", b"1", b"2", b"3", b"4"]


def test_while_it_hangs_memory_is_bounded_and_what_went_is_counted() -> None:
    with hanging(most_waiting=40) as (file, log):
        for number in range(20):
            log.write(b"line %05d" % number)
    assert file.lines == [b"first", b"16 dropped", *(b"line %05d" % number for number in range(16, 20))]


def test_a_line_given_up_while_it_was_written_is_there_and_not_counted_as_lost() -> None:
    with hanging(most_waiting=10) as (file, log):
        log.write(b"ten bytes!")
    assert file.lines == [b"first", b"ten bytes!"]


def test_whoever_ends_at_once_waits_for_it_no_longer_than_asked() -> None:
    with hanging() as (file, log):
        assert not log.flush(0.01)
        file.answers.set()
        assert log.flush(PATIENCE)
        assert file.lines == [b"first"]


def test_an_end_that_the_file_does_not_answer_to_says_how_many_lines_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, file = io.StringIO(), HangingFile()
    monkeypatch.setattr(sys, "__stderr__", terminal)
    with BufferedLog(lambda: file, note, patience=0.01) as log:
        for line in (b"one", b"two", b"three"):
            log.write(line)
        assert file.asked.wait(PATIENCE)
    assert terminal.getvalue().startswith("3 lines of a log could not be written")
    file.answers.set()
    assert file.closed.wait(PATIENCE)


def test_a_full_disk_at_the_end_is_said_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(HangingFile):
        def write(self, line: bytes) -> None:
            raise OSError(28, "No space left on device")

    terminal = io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", terminal)
    with BufferedLog(Full, note) as log:
        log.write(b"one")
        log.write(b"two")
    assert terminal.getvalue().startswith("2 lines of a log could not be written")
