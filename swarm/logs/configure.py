"""Sets up the logging of a process, and undoes it again: what goes to the root logger, and from there where.

    structlog, every library, warnings ─▶ root logger ─▶ terminal; files of the nodes; the tee of what is printed
    what nobody catches, in any thread ─▶ an event             a fatal signal ─▶ its traceback in a file

Before a process has its log files, and after it has closed them, events go to stderr.
"""

from __future__ import annotations

import faulthandler
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import NamedTuple, TextIO, cast

import structlog
from structlog.typing import FilteringBoundLogger, Processor

from swarm.errors import ConfigError, DuplicateNodeError, ExperimentError, SwarmError
from swarm.harmless import shows_colour
from swarm.lines import BufferedLog, LogFile
from swarm.logs.files import files_of, handling, keep_file, put_in_place, tee_prints
from swarm.logs.formatting import (
    NODE,
    as_text,
    json_formatter,
    readable_formatter,
    readable_renderer,
    terminal_formatter,
)

_REFUSED = (ConfigError, DuplicateNodeError, ExperimentError, KeyboardInterrupt)
"""Who ends so before its files were begun was no node of the run: they are another's, or nobody's."""


class NodeLog(NamedTuple):
    """Says where one node's events go."""

    node_id: str
    """Goes into every JSON line."""
    events: Callable[[], LogFile]
    """Opens training_events.jsonl; raises StoreError."""
    stdout: Callable[[], LogFile] | None
    """Opens stdout.log, which also gets what is printed; None: no such file, and nothing is teed."""


def get_logger(name: str) -> FilteringBoundLogger:
    """Returns a logger that follows the configuration of the moment, so module-level ones are fine."""
    return cast(FilteringBoundLogger, structlog.get_logger(name))


def configure_logging(
    nodes: Sequence[NodeLog], *, level: str, stream: TextIO | None = None, held: bool = False
) -> ExitStack:
    """Send all events of this process to the terminal and to its nodes' log files, until closed.

    Args:
        nodes: all the nodes of this process; `logging_as` tells them apart.
        level: `debug`, `info`, `warning` or `error`: what the terminal shows. The files get info and above always.
        stream: the terminal; None: sys.stderr.
        held: the files get nothing before `begin_files`, or the end, whichever comes first.

    Returns:
        A context manager whose `close()` puts everything back as it was. An exception that leaves it is recorded first:
        `process.failed` for a SwarmError, `process.crashed` with its traceback for any other.

    Raises:
        StoreError: a log file cannot be opened.
    """
    stream = stream or sys.stderr
    shown = logging.getLevelNamesMapping()[level.upper()]
    kept = min(shown, logging.INFO)
    with ExitStack() as undo:
        undo.enter_context(handling(LibraryLoggers(), kept))
        stdout_files = [file for node in nodes if (file := _keep(undo, node, kept, held=held))]
        undo.enter_context(handling(TerminalHandler(stream), shown))
        if stdout_files:
            _dump_fatal_signals(undo, stdout_files[0])
        _route(undo, kept)
        _report_crashes(undo)
        return undo.pop_all()


def _keep(undo: ExitStack, node: NodeLog, level: int, *, held: bool) -> BufferedLog | None:
    keep_file(undo, node.events, json_formatter(node.node_id), node.node_id, level, held=held)
    if node.stdout is None:
        return None
    stdout = keep_file(undo, node.stdout, readable_formatter(colors=False), node.node_id, level, held=held)
    tee_prints(undo, stdout, node.node_id)
    return stdout


# ── where events go ─────────────────────────────────────────────────────────────────────────────────────────────────
def configure_default() -> None:
    """Events go to stderr as readable lines, info and above."""
    _configure_structlog(
        logging.INFO,
        lambda *_: structlog.PrintLogger(sys.stderr),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
        readable_renderer(colors=False),
    )


def _configure_structlog(level: int, factory: Callable[..., object], *processors: Processor) -> None:
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, *processors],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=factory,
        cache_logger_on_first_use=False,
    )


def _route(undo: ExitStack, level: int) -> None:
    """Events of structlog, warnings and library records from this level up go to the root logger."""
    levels: dict[logging.Logger, int] = {logging.root: level}
    if level > logging.DEBUG:  # it says "1 change detected" at info for every wake-up, which is news to nobody
        levels[logging.getLogger("watchfiles")] = logging.WARNING
    for logger, least in levels.items():
        undo.callback(logger.setLevel, logger.level)
        logger.setLevel(least)
    undo.callback(logging.captureWarnings, False)
    logging.captureWarnings(True)
    undo.callback(configure_default)
    to_root = structlog.stdlib.ProcessorFormatter.wrap_for_formatter
    _configure_structlog(level, structlog.stdlib.LoggerFactory(), to_root)


class TerminalHandler(logging.StreamHandler[TextIO]):
    """Writes readable lines to a terminal, which may go away."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.setFormatter(terminal_formatter(colors=shows_colour(stream)))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """A terminal that has gone away is no error: the folder has the event."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class LibraryLoggers(logging.Handler):
    """Brings loggers that keep to themselves back to the root.

    transformers, among others, makes a handler of its own on stderr and turns propagation off when it is imported,
    which is after we are configured; so this is looked at again whenever loggers were added.
    """

    _known = 0

    def emit(self, record: logging.LogRecord) -> None:
        if self._known == len(logging.root.manager.loggerDict):
            return
        found = list(logging.root.manager.loggerDict.values())
        self._known = len(found)
        for logger in found:
            if isinstance(logger, logging.Logger) and not logger.propagate:
                for handler in [h for h in logger.handlers if type(h) is logging.StreamHandler]:
                    logger.removeHandler(handler)
                logger.propagate = True


# ── how a process or a node ends ────────────────────────────────────────────────────────────────────────────────────
def record_failure(error: Exception) -> None:
    """Record what ended a node: `process.failed` for a SwarmError, `process.crashed` with its traceback for any other.

    For a node whose process goes on; what leaves `configure_logging` is recorded there.
    """
    _record_crash(type(error), error, error.__traceback__)


def _dump_fatal_signals(undo: ExitStack, lines: BufferedLog) -> None:
    """Segmentation faults and aborts leave their tracebacks in the file, which outlives the terminal."""
    if (descriptor := lines.fileno()) is None:
        return
    stderr = sys.__stderr__ if faulthandler.is_enabled() else None
    undo.callback(partial(faulthandler.enable, file=stderr) if stderr else faulthandler.disable)
    faulthandler.enable(file=descriptor)


def _report_crashes(undo: ExitStack) -> None:
    """Record what no one catches in any thread, and what leaves `undo` as an exception."""
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

    put_in_place(undo, sys, "excepthook", process)
    put_in_place(undo, threading, "excepthook", thread)


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
