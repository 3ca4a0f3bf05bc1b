"""Logging: every event once, to three readers, and none lost.

    structlog ─┐                        ┌▶ terminal              readable lines, from `level` up
               ├▶ root logger ─ handlers ┼▶ training_events.jsonl JSON lines, info and above always
    logging  ──┘   (all libraries)      └▶ stdout.log             readable lines, info and above always
    print(), sys.stdout, sys.stderr ──────▶ terminal and stdout.log

Several nodes in one process have a training_events.jsonl and a stdout.log each. What happens inside `logging_as(node)`
goes to that node's files alone, and the terminal shows whose it is; what belongs to no node, such as the end of the
process or a warning of something shared, goes to the files of all. A fatal signal's traceback goes to the first's.

Files are written by a thread each, so that a folder that hangs holds up nobody who says something (swarm.lines). What
was said is in the file a moment later, and at the end of the process; a kill -9 takes the lines of that moment.

formatting ◀ files ◀ configure

Before `configure_logging` is called, and after it is undone, events go to stderr as readable lines.
"""

import structlog

from swarm.logs.configure import NodeLog, configure_default, configure_logging, get_logger, record_failure
from swarm.logs.files import begin_files, flush_files
from swarm.logs.formatting import logging_as

__all__ = ["NodeLog", "begin_files", "configure_logging", "flush_files", "get_logger", "logging_as", "record_failure"]

if not structlog.is_configured():
    configure_default()
