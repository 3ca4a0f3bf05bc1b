"""Log files of a node in a folder, as a node of a shared folder has them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from swarm.logs import NodeLog
from swarm.store.folder.store import FolderStore


def log_in(folder: Path, node: str, events: str, stdout: str | None = None) -> NodeLog:
    """The log of a node whose files are at these keys."""
    opened = FolderStore(folder, node).open_log
    return NodeLog(node, partial(opened, events), stdout and partial(opened, stdout))
