"""Records how a process or a node ends: failures, uncaught exceptions of any thread, fatal signals."""

from __future__ import annotations

import faulthandler
import sys
import threading
from contextlib import ExitStack
from functools import partial
from types import TracebackType

from swarm.errors import ConfigError, DuplicateNodeError, ExperimentError, SwarmError
from swarm.lines import BufferedLog
from swarm.logs.files import files_of
from swarm.logs.formatting import NODE, as_text
from swarm.logs.routing import get_logger


def record_failure(error: Exception) -> None:
    """Record what ended a node: `process.failed` for a SwarmError, `process.crashed` with its traceback for any other.

    For a node whose process goes on; what leaves `configure_logging` is recorded there.
    """
    _record_crash(type(error), error, error.__traceback__)


def dump_fatal_signals(undo: ExitStack, lines: BufferedLog) -> None:
    """Segmentation faults and aborts leave their tracebacks in the file, which outlives the terminal."""
    if (descriptor := lines.fileno()) is None:
        return
    stderr = sys.__stderr__ if faulthandler.is_enabled() else None
    undo.callback(partial(faulthandler.enable, file=stderr) if stderr else faulthandler.disable)
    faulthandler.enable(file=descriptor)


def report_crashes(undo: ExitStack) -> None:
    """Record what no one catches in any thread, and what leaves `undo` as an exception."""
    undo.callback(setattr, sys, "excepthook", sys.excepthook)
    undo.callback(setattr, threading, "excepthook", threading.excepthook)
    undo.push(_record_crash)
    uncaught = sys.excepthook

    def process(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, Exception):
            _record_crash(kind, error, trace)
        else:
            uncaught(kind, error, trace)  # Ctrl-C is no crash

    def thread(args: threading.ExceptHookArgs) -> None:
        name = args.thread.name if args.thread else ""
        _record_crash(args.exc_type, args.exc_value, args.exc_traceback, thread=name)

    sys.excepthook = process
    threading.excepthook = thread


_REFUSED = (ConfigError, DuplicateNodeError, ExperimentError, KeyboardInterrupt)
"""Who ends so before its files were begun was no node of the run: they are another's, or nobody's."""


def _record_crash(
    kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, **more: str
) -> None:
    log = get_logger("swarm.process")
    if isinstance(error, _REFUSED):
        for lines in files_of(NODE.get()):
            lines.forget()
    if isinstance(error, SwarmError):
        log.error("process.failed", error=str(error), code=error.code, kind=type(error).__name__, **more)
    elif kind is not None and isinstance(error, Exception):
        log.critical("process.crashed", error=as_text(error), exc_info=(kind, error, trace), **more)
