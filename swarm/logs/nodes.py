"""Knows which node of this process is at work, if it runs several: each line and print belongs to that node alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

NODE: ContextVar[str | None] = ContextVar("NODE", default=None)
"""The node that is at work. Tasks, their threads and the compute step inherit it."""


@contextmanager
def logging_as(node_id: str) -> Iterator[None]:
    """Assigns what is logged inside to this node, in the tasks started there and the threads they run as well."""
    token = NODE.set(node_id)
    try:
        yield
    finally:
        NODE.reset(token)


def concerns(node_id: str) -> bool:
    """Tells whether what happens now belongs to this node, or to no node and so to every one."""
    return NODE.get() in (None, node_id)
