"""The files of each node: its events as JSON lines, and its stdout.log.

They wait until it is known that the node's name is its own: a second process of that name, which is refused, must not
write into the log of the first (`begin_files`). They also wait while the folder refuses them, as a full disk does, and
lose nothing but the oldest lines, counted, if that takes long; see swarm.lines.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack

from swarm.lines import BufferedLog, LogFile
from swarm.logs.formatting import as_bytes
from swarm.logs.nodes import concerns
from swarm.logs.routing import handling


def begin_files(node_id: str) -> None:
    """The node's name is its own: what was said so far goes to its files, and all that follows."""
    for lines in files_of(node_id):
        lines.begin()


def files_of(node_id: str | None) -> list[BufferedLog]:
    """Of one node; None: of all."""
    handlers = [h for h in logging.root.handlers if isinstance(h, FileHandler)]
    return [handler.lines for handler in handlers if node_id in (None, handler.node_id)]


def keep_file(
    undo: ExitStack,
    opener: Callable[[], LogFile],
    formatter: logging.Formatter,
    node_id: str,
    level: int,
    *,
    held: bool,
) -> BufferedLog:
    """Give a node one of its files. Raises StoreError if it cannot be opened."""

    def note(dropped: int) -> bytes:
        return as_bytes(
            formatter.format(_warning_of("log.lines_dropped", count=dropped, reason="they could not be written"))
        )

    lines = undo.enter_context(BufferedLog(opener, note, held=held))
    undo.enter_context(handling(FileHandler(lines, formatter, node_id), level))
    return lines


def _warning_of(event: str, **more: object) -> logging.LogRecord:
    """A record of our own that goes to one file alone."""
    record = logging.LogRecord(__package__, logging.WARNING, __file__, 0, event, None, None)
    record.__dict__.update(more)
    return record


class FileHandler(logging.Handler):
    """Writes the records that concern one node to one of its files."""

    def __init__(self, lines: BufferedLog, formatter: logging.Formatter, node_id: str) -> None:
        super().__init__()
        self.lines = lines
        self.node_id = node_id
        self.setFormatter(formatter)
        self.addFilter(lambda _: concerns(node_id))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.lines.write(as_bytes(self.format(record)))
        except Exception:  # noqa: BLE001 - a log line must never stop a node; logging reports it on stderr
            self.handleError(record)
