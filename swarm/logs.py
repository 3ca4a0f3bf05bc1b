"""Logging: every event once, to three readers, and none lost.

    structlog ─┐                        ┌▶ terminal              readable lines, from `level` up
               ├▶ root logger ─ handlers ┼▶ training_events.jsonl JSON lines, info and above always
    logging  ──┘   (all libraries)      └▶ stdout.log             readable lines, info and above always
    print(), sys.stdout, sys.stderr ──────▶ terminal and stdout.log

Several nodes in one process have a training_events.jsonl and a stdout.log each. What happens inside `logging_as(node)`
goes to that node's files alone, and the terminal shows whose it is; what belongs to no node, such as the end of the
process or a warning of something shared, goes to the files of all. A fatal signal's traceback goes to the first's.

The files of a node wait until it is known that the node's name is its own: a second process of that name, which is
refused, must not write into the log of the first (`begin_files`). They also wait while the folder refuses them, as a
full disk does, and lose nothing but the oldest lines, counted, if that takes long; see swarm.lines.

Lines are written where they are said, on the event loop too: one costs 78 us there in the median and 0.6 ms at worst
of 20,000, of which the writing is 2 us (two files, local disk), so a thread for it would save next to nothing.

Before `configure_logging` is called, and after it is undone, events go to stderr as readable lines.
"""

from __future__ import annotations

import faulthandler
import io
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from swarm.errors import DuplicateNodeError, StoreError, SwarmError
from swarm.lines import PatientLines

_node: ContextVar[str | None] = ContextVar("_node", default=None)
"""The node that is at work, where a process runs several. Tasks, their threads and the compute step inherit it."""

_LONGEST_UNFINISHED_LINE = 64 * 1024
"""Characters without a newline that the tee holds back before it writes them all the same."""


def get_logger(name: str) -> FilteringBoundLogger:
    """A logger that follows the configuration of the moment, so module-level ones are fine."""
    return cast(FilteringBoundLogger, structlog.get_logger(name))


def configure_logging(
    *,
    node_id: str,
    events_file: Path,
    stdout_file: Path | None,
    level: str,
    stream: TextIO | None = None,
    held: bool = False,
) -> ExitStack:
    """Send all events of this process to the terminal and to the node's log folder, until closed.

    Args:
        node_id: goes into every JSON line.
        events_file: training_events.jsonl; it and its folder are made if missing.
        stdout_file: stdout.log, which also gets what is printed; None: no such file, and nothing is teed.
        level: `debug`, `info`, `warning` or `error`: what the terminal shows. The folder gets info and above always.
        stream: the terminal; None: sys.stderr.
        held: the files get nothing before `begin_files`, or the end, whichever comes first.

    Returns:
        A context manager whose `close()` puts everything back as it was. An exception that leaves it is recorded first:
        `process.failed` for a SwarmError, `process.crashed` with its traceback for any other.

    Raises:
        StoreError: a log file cannot be opened.
    """
    return configure_logging_of([NodeLog(node_id, events_file, stdout_file)], level=level, stream=stream, held=held)


class NodeLog(NamedTuple):
    """Where one node's events go."""

    node_id: str
    events_file: Path
    stdout_file: Path | None


def configure_logging_of(
    nodes: Sequence[NodeLog], *, level: str, stream: TextIO | None = None, held: bool = False
) -> ExitStack:
    """As `configure_logging`, for all the nodes of this process at once; `logging_as` tells them apart."""
    stream = stream or sys.stderr
    shown = logging.getLevelNamesMapping()[level.upper()]
    kept = min(shown, logging.INFO)
    undo = ExitStack()
    try:
        undo.enter_context(_handling(_LibraryLoggers(), kept))
        stdout_files = [file for node in nodes if (file := _keep(undo, node, kept, held=held))]
        undo.enter_context(_handling(_Terminal(stream, _terminal_formatter(colors=stream.isatty())), shown))
        if stdout_files:
            _dump_fatal_signals(undo, stdout_files[0])
        _route(undo, kept)
        _report_crashes(undo)
    except StoreError:
        undo.close()
        raise
    return undo


@contextmanager
def logging_as(node_id: str) -> Iterator[None]:
    """What happens inside belongs to this node, in the tasks started there and the threads they run as well."""
    token = _node.set(node_id)
    try:
        yield
    finally:
        _node.reset(token)


def begin_files(node_id: str) -> None:
    """The node's name is its own: what was said so far goes to its files, and all that follows."""
    for lines in _files_of(node_id):
        lines.begin()


def _files_of(node_id: str | None) -> list[PatientLines]:
    """Of one node; None: of all."""
    handlers = [h for h in logging.root.handlers if isinstance(h, _FileHandler)]
    return [handler.lines for handler in handlers if node_id in (None, handler.node_id)]


def record_failure(error: Exception) -> None:
    """Record what ended a node: `process.failed` for a SwarmError, `process.crashed` with its traceback for any other.

    For a node whose process goes on; what leaves `configure_logging` is recorded there.
    """
    _record_crash(type(error), error, error.__traceback__)


# Handlers and formatters


def _keep(undo: ExitStack, node: NodeLog, level: int, *, held: bool) -> PatientLines | None:
    """Give one node its files; returns its stdout.log, if it has one."""
    _keep_in(undo, node.events_file, _json_formatter(node.node_id), node.node_id, level, held=held)
    if node.stdout_file is None:
        return None
    readable = _readable_formatter(colors=False)
    stdout = _keep_in(undo, node.stdout_file, readable, node.node_id, level, held=held)
    _tee_prints(undo, stdout, node.node_id)
    return stdout


def _keep_in(
    undo: ExitStack, file: Path, formatter: logging.Formatter, node_id: str, level: int, *, held: bool
) -> PatientLines:
    def note(dropped: int) -> bytes:
        return _as_bytes(
            formatter.format(_warning_of("log.lines_dropped", count=dropped, reason="they could not be written"))
        )

    lines = undo.enter_context(PatientLines(file, note, held=held))
    undo.enter_context(_handling(_FileHandler(lines, formatter, node_id), level))
    return lines


def _warning_of(event: str, **more: object) -> logging.LogRecord:
    """A record of our own that goes to one file alone."""
    record = logging.LogRecord(__name__, logging.WARNING, __file__, 0, event, None, None)
    record.__dict__.update(more)
    return record


def _concerns(node_id: str) -> bool:
    """Whether what happens now belongs to this node, or to no node and so to every one."""
    return _node.get() in (None, node_id)


class _FileHandler(logging.Handler):
    def __init__(self, lines: PatientLines, formatter: logging.Formatter, node_id: str) -> None:
        super().__init__()
        self.lines = lines
        self.node_id = node_id
        self.setFormatter(formatter)
        self.addFilter(lambda _: _concerns(node_id))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.lines.write(_as_bytes(self.format(record)))
        except Exception:  # noqa: BLE001 - a log line must never stop a node; logging reports it on stderr
            self.handleError(record)


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


class _Terminal(logging.StreamHandler[TextIO]):
    def __init__(self, stream: TextIO, formatter: logging.Formatter) -> None:
        super().__init__(stream)
        self.setFormatter(formatter)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """A terminal that has gone away is no error: the folder has the event."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class _LibraryLoggers(logging.Handler):
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


@contextmanager
def _handling(handler: logging.Handler, level: int) -> Iterator[None]:
    handler.setLevel(level)
    logging.root.addHandler(handler)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)


def _json_formatter(node_id: str) -> logging.Formatter:
    def add_node(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        head = {key: event[key] for key in ("timestamp", "level", "event")} | {"node_id": node_id}
        return {**head, **event, **head}

    return _formatter(add_node, structlog.processors.format_exc_info, _json_line)


def _readable_formatter(*, colors: bool) -> logging.Formatter:
    return _formatter(_clock_time, _showable, _readable_renderer(colors=colors))


def _terminal_formatter(*, colors: bool) -> logging.Formatter:
    return _formatter(_clock_time, _whose, _showable, _readable_renderer(colors=colors))


def _whose(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Several nodes share a terminal."""
    node = _node.get()
    return event if node is None else {"node_id": node, **event}


def _formatter(*processors: Processor) -> logging.Formatter:
    strip = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.ExtraAdder(), _say_once], processors=[_from_record, strip, *processors]
    )


def _say_once(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """A library's own formatter leaves the text on the record, where it would come out a second time."""
    if event.get("message") == event.get("event"):
        event.pop("message", None)
    return event


def _readable_renderer(*, colors: bool) -> structlog.dev.ConsoleRenderer:
    return structlog.dev.ConsoleRenderer(
        colors=colors, sort_keys=False, exception_formatter=structlog.dev.plain_traceback
    )


def _from_record(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Time, level and logger from the record, so that all three readers are told the same."""
    record: logging.LogRecord = event["_record"]
    said = event["event"]
    head = {
        "timestamp": record.created,
        "level": record.levelname.lower(),
        "event": said.strip() if isinstance(said, str) else said,
        "logger": record.name,
    }
    return {**head, **event, **head}  # head goes first, and an event's own keys do not replace it


def _clock_time(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {**event, "timestamp": datetime.fromtimestamp(event["timestamp"]).strftime("%H:%M:%S.%f")[:-3]}


def _showable(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """The renderer calls repr on every value, and a value whose repr fails must not lose the event.

    It shows texts without spaces as they are: no terminal is to obey what a stranger wrote.
    """
    plain = (int, float, type(None))
    shown = {k: v if k == "exc_info" or isinstance(v, plain) else _text(_plain(v)) for k, v in event.items()}
    return {k: _harmless(v) if isinstance(v, str) and k != "event" else v for k, v in shown.items()}


def _harmless(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def _json_line(_: WrappedLogger, __: str, event: EventDict) -> str:
    try:
        return msgspec.json.encode(event, enc_hook=_plain).decode()
    except (TypeError, ValueError, RecursionError):  # lone surrogates, keys without order, structures inside themselves
        texts = {_clean(str(k)): v if type(v) in (int, float) else _clean(_text(v)) for k, v in event.items()}
        return msgspec.json.encode(texts).decode()


def _plain(value: object) -> object:
    """What JSON has no word for: numbers of other libraries as numbers, paths as text, anything else as its repr."""
    if isinstance(value, float | int):
        return float(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else _text(value)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a value that cannot even be shown must not lose the event
        return f"<{type(value).__name__} that cannot be shown>"


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


# Routing: structlog and every library to the root logger


def _route(undo: ExitStack, level: int) -> None:
    undo.callback(logging.root.setLevel, logging.root.level)
    logging.root.setLevel(level)
    if level > logging.DEBUG:
        # It says "1 change detected" at info for every wake-up, which is news to nobody.
        watcher = logging.getLogger("watchfiles")
        undo.callback(watcher.setLevel, watcher.level)
        watcher.setLevel(logging.WARNING)
    undo.callback(logging.captureWarnings, False)
    logging.captureWarnings(True)
    undo.callback(_configure_default)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _configure_default() -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            _readable_renderer(colors=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )


# What is printed, and how a process ends


class _Tee(io.TextIOBase):
    """A stream that also appends whole lines to a file; of a line redrawn with carriage returns, its last state."""

    def __init__(self, stream: TextIO, lines: PatientLines, node_id: str) -> None:
        self._stream = stream
        self._lines = lines
        self._node_id = node_id
        self._pending = ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        with suppress(OSError):  # the terminal may be gone; the file is there
            self._stream.write(text)
        if _concerns(self._node_id):
            self._keep(text)
        return len(text)

    def _keep(self, text: str) -> None:
        with self._lock:
            *lines, self._pending = (self._pending + text).split("\n")
            if len(self._pending) > _LONGEST_UNFINISHED_LINE:
                lines, self._pending = [*lines, self._pending], ""
            for line in lines:
                self._append(line)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def finish(self) -> None:
        with self._lock:
            if self._pending:
                self._append(self._pending)
            self._pending = ""

    def _append(self, line: str) -> None:
        line = line.rstrip("\r").rpartition("\r")[2]
        self._lines.write(_as_bytes(line))

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _tee_prints(undo: ExitStack, lines: PatientLines, node_id: str) -> None:
    """Several nodes' tees stand one behind the other; each lets everything through to the terminal."""
    for name in ("stdout", "stderr"):
        original: TextIO = getattr(sys, name)
        tee = _Tee(original, lines, node_id)
        undo.callback(setattr, sys, name, original)
        undo.callback(tee.finish)
        setattr(sys, name, tee)


def _dump_fatal_signals(undo: ExitStack, lines: PatientLines) -> None:
    """Segmentation faults and aborts leave their tracebacks in the file, which outlives the terminal."""
    restore: Callable[[], object] = faulthandler.disable
    if faulthandler.is_enabled() and sys.__stderr__ is not None:
        stderr = sys.__stderr__

        def restore() -> None:
            faulthandler.enable(file=stderr)

    undo.callback(restore)
    faulthandler.enable(file=lines.fileno())


def _report_crashes(undo: ExitStack) -> None:
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


def _record_crash(
    kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, **more: str
) -> None:
    log = get_logger("swarm.process")
    if isinstance(error, DuplicateNodeError):
        for lines in _files_of(_node.get()):
            lines.forget()  # what was not begun is another's, who writes it
    if isinstance(error, SwarmError):
        log.error("process.failed", error=str(error), kind=type(error).__name__, **more)
    elif kind is not None and isinstance(error, Exception):
        log.critical("process.crashed", error=_text(error), exc_info=(kind, error, trace), **more)


if not structlog.is_configured():
    _configure_default()
