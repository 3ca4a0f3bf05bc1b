"""Does the file system keep the names apart that nodes may have?"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from swarm.store.folder.fetch import list_nodes
from swarm.views.doctor.check_context import CheckContext
from swarm.views.doctor.finding import Area, Finding
from swarm.wire.layout import Layout

AREA = Area("names")
TRIED = ("a" * 59 + ".json", "A.b_c-d.json", "0.json", "aux.json", "nul.json", "com1.json")
"""A node id may have 64 characters, and be a device to Windows."""
DEEPEST = "checkpoints/round_999999999/" + "n" * 64 + "/model/special_tokens_map.json"
FALLBACK_PATH_MAX = 4096


class Naming(msgspec.Struct, frozen=True):
    """What the file system made of some names."""

    folds_case: bool
    """`a` and `A` are one file."""
    refused: tuple[str, ...]
    longest_path: int
    """Characters that the deepest file of the experiment would have."""
    path_limit: int
    colliding: tuple[tuple[str, ...], ...]
    """Nodes of the experiment whose names differ only in case."""


def check(context: CheckContext) -> Iterator[Finding]:
    """Case, refused names, length of paths."""
    if context.probe is not None:
        yield from judge(measure(context.layout, context.probe))


def measure(layout: Layout, probe: Path) -> Naming:
    """Try the names out."""
    folder = probe / "names"
    folder.mkdir()
    (folder / "case-a").touch()
    folds = (folder / "case-A").exists()
    refused = tuple(name for name in TRIED if not _takes(folder, name))
    nodes = list_nodes(layout.peers)
    return Naming(folds, refused, len(os.fsencode(layout.root / DEEPEST)), _path_limit(probe), collisions(nodes))


def _takes(folder: Path, name: str) -> bool:
    try:
        (folder / name).write_bytes(b"{}")
        return name in os.listdir(folder)
    except OSError:
        return False


def _path_limit(folder: Path) -> int:
    try:
        return os.pathconf(folder, "PC_PATH_MAX")
    except (OSError, ValueError, AttributeError):
        return FALLBACK_PATH_MAX


def collisions(nodes: set[str]) -> tuple[tuple[str, ...], ...]:
    """Groups of names that are one name where case does not count."""
    alike = defaultdict(list)
    for node in sorted(nodes):
        alike[node.casefold()].append(node)
    return tuple(tuple(group) for group in alike.values() if len(group) > 1)


def judge(naming: Naming) -> Iterator[Finding]:
    """The figures as findings."""
    pairs = ", ".join(" and ".join(group) for group in naming.colliding)
    if naming.colliding:
        fix = "give one of them another NODE_ID: anybody who copies this folder to macOS or Windows loses one of them"
        yield AREA.warning("case", f"{pairs} differ only in case", fix)
    elif naming.folds_case:
        fix = "choose node ids that differ in more than case, such as the generated ones"
        yield AREA.warning("case", "a and A are one file: NODE_IDs that differ only in case overwrite each other", fix)
    else:
        yield AREA.ok("case", "a and A are two files, no node ids differ only in case")
    if naming.refused:
        fix = "leave such NODE_IDs out; the generated ones work"
        yield AREA.warning("node ids", f"refused here: {', '.join(naming.refused)}", fix)
    else:
        yield AREA.ok("node ids", f"{len(TRIED)} odd and long ones taken")
    length = f"{naming.longest_path} bytes at most, the system takes {naming.path_limit}"
    if naming.longest_path >= naming.path_limit:
        yield AREA.failure("path length", length, "use a shorter --path or --experiment")
    else:
        yield AREA.ok("path length", length)
