"""The loggers that all modules use, and what they do before and after the process has its log files."""

from __future__ import annotations

import logging
import sys
from typing import cast

import structlog
from structlog.typing import FilteringBoundLogger

from swarm.logs.formatting import readable_renderer


def get_logger(name: str) -> FilteringBoundLogger:
    """A logger that follows the configuration of the moment, so module-level ones are fine."""
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
