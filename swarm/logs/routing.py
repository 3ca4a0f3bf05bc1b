"""Sends structlog's events and every library's records to the root logger, and from there to the terminal.

Before a process has its log files, and after it has closed them, events go to stderr.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO, cast

import structlog
from structlog.typing import FilteringBoundLogger

from swarm.logs.formatting import readable_renderer


def get_logger(name: str) -> FilteringBoundLogger:
    """Returns a logger that follows the configuration of the moment, so module-level ones are fine."""
    return cast(FilteringBoundLogger, structlog.get_logger(name))


def configure_default() -> None:
    """Events go to stderr as readable lines, info and above."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            readable_renderer(colors=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )


def route(undo: ExitStack, level: int) -> None:
    """Events of structlog, warnings and library records from this level up go to the root logger."""
    undo.callback(logging.root.setLevel, logging.root.level)
    logging.root.setLevel(level)
    if level > logging.DEBUG:
        # It says "1 change detected" at info for every wake-up, which is news to nobody.
        watcher = logging.getLogger("watchfiles")
        undo.callback(watcher.setLevel, watcher.level)
        watcher.setLevel(logging.WARNING)
    undo.callback(logging.captureWarnings, False)
    logging.captureWarnings(True)
    undo.callback(configure_default)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


@contextmanager
def handling(handler: logging.Handler, level: int) -> Iterator[None]:
    """The handler gets the root logger's records from this level up."""
    handler.setLevel(level)
    logging.root.addHandler(handler)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)


class TerminalHandler(logging.StreamHandler[TextIO]):
    """Writes readable lines to a terminal, which may go away."""

    def __init__(self, stream: TextIO, formatter: logging.Formatter) -> None:
        super().__init__(stream)
        self.setFormatter(formatter)

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
