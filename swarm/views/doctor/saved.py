"""Could every node go on from its checkpoint, and add to its logs?"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from swarm.errors import ProtocolError
from swarm.records.read import nodes_with_logs, read_file
from swarm.store.folder.fetch import list_names, list_numbered, open_regular
from swarm.views.doctor.check_context import CheckContext
from swarm.views.doctor.finding import Area, Finding
from swarm.views.text import shorten
from swarm.wire.layout import Layout, is_node_id, round_of
from swarm.wire.messages import NodeState

AREA = Area("saved")
LARGEST_MANIFEST = 16 * 2**20


class _Stamp(msgspec.Struct):
    bytes: int


class _Manifest(msgspec.Struct):
    """The few columns of a checkpoint's manifest.json that tell whether it is all there."""

    files: dict[str, _Stamp]


class Saved(msgspec.Struct, frozen=True):
    """What is saved."""

    checkpoints: dict[str, list[str]]
    """Node -> what is wrong with each of its checkpoints, newest first; an empty text for a sound one."""
    torn: list[str]
    """Logs that end within a line."""


def check(context: CheckContext) -> Iterator[Finding]:
    """Checkpoints and the ends of logs."""
    if context.there:
        alive = {name for name, watch in context.watched.nodes.items() if watch.alive}
        yield from judge(measure(context.layout), alive)


def measure(layout: Layout) -> Saved:
    """Look at every checkpoint, and at the last byte of every log."""
    checkpoints = defaultdict(list)
    for round_ in reversed(list_numbered(layout.checkpoints, round_of)):
        for node in filter(is_node_id, list_names(layout.checkpoints / f"round_{round_}")):
            checkpoints[node].append(damage(layout.checkpoint(round_, node)))
    nodes = nodes_with_logs(layout)
    torn = [node for node in nodes if any(map(is_torn, (layout.metrics_file(node), layout.events_file(node))))]
    return Saved(dict(checkpoints), torn)


def damage(checkpoint: Path) -> str:
    """What is wrong with a checkpoint, empty if nothing; sizes are compared, hashes are not."""
    try:
        if read_file(checkpoint / "node.json", NodeState, 1 << 20) is None:
            return f"{checkpoint}: node.json is missing"
        manifest = read_file(checkpoint / "manifest.json", _Manifest, LARGEST_MANIFEST)
        if manifest is None:
            return f"{checkpoint}: manifest.json is missing"
        for name, stamp in manifest.files.items():
            taken = (checkpoint / name).lstat().st_size
            if taken != stamp.bytes:
                return f"{checkpoint / name} has {taken} bytes, expected {stamp.bytes}"
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    except (OSError, ProtocolError, ValueError) as error:  # a manifest may name a file with a NUL
        return f"{checkpoint}: {error}"
    return ""


def is_torn(log: Path) -> bool:
    """Whether a log ends within a line."""
    try:
        descriptor = open_regular(log)
    except (FileNotFoundError, ProtocolError):
        return False
    try:
        size = os.fstat(descriptor).st_size
        return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    finally:
        os.close(descriptor)


def judge(saved: Saved, alive: set[str]) -> Iterator[Finding]:
    """The figures as findings.

    Args:
        alive: nodes that may be writing a line just now.
    """
    newest = {node: problems[0] for node, problems in saved.checkpoints.items() if problems[0]}
    older = [p for node, problems in saved.checkpoints.items() if node not in newest for p in problems[1:] if p]
    total = sum(map(len, saved.checkpoints.values()))
    for problem in newest.values():
        fix = "move that folder away: the node goes on from the one before, or begins anew"
        yield AREA.failure("checkpoint", shorten(problem, 240), fix)
    for problem in older:
        yield AREA.warning("older checkpoint", shorten(problem, 240), "delete that folder; the node has a newer one")
    if not newest and not older:
        yield AREA.ok("checkpoints", f"{total} of {len(saved.checkpoints)} nodes, all files there in full length")
    torn = sorted(set(saved.torn) - alive)
    if torn:
        fix = "start these nodes again, which closes the line; if they stay away, remove what follows the last newline"
        yield AREA.warning("ends of logs", f"a last line without its end: {shorten(', '.join(torn), 120)}", fix)
    else:
        yield AREA.ok("ends of logs", "every log ends with a whole line")
