"""Versions that the nodes run: questions are regenerated, which needs equal ones of the task families' packages."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from swarm.records.read import Tail, nodes_with_logs
from swarm.tasks.registry import Families
from swarm.types import OTHER_VERSION
from swarm.views.doctor.check_context import CheckContext
from swarm.views.doctor.finding import Area, Finding
from swarm.views.doctor.machine import installed_version
from swarm.views.text import shorten
from swarm.wire.layout import Layout

AREA = Area("versions")
OURS = "swarm"
_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,3}[a-z0-9.+]{0,20}")
"""Of what strangers wrote, what may stand in a command that somebody will copy."""

NodeVersions = Mapping[str, str]
"""What a node said at its last start: package -> version."""


def check(context: CheckContext) -> Iterator[Finding]:
    """Versions by the nodes' own start-up events, and the models that they run."""
    if not context.there:
        return
    found = measure(context.layout)
    for package in Families(context.settings.task_families).packages:
        yield judge(package, found, installed_version(package))
    yield judge_ours(found)
    yield models({name: watch.peer.model for name, watch in context.watched.nodes.items()})


def measure(layout: Layout) -> dict[str, NodeVersions]:
    """Node -> what it said at its last start."""
    found: dict[str, NodeVersions] = {}
    for node in nodes_with_logs(layout):
        for line in Tail(layout.events_file(node)).read():
            if b'"node.starting"' in line and (said := _said(line)).get("event") == "node.starting":
                found[node] = said
    return found


def _said(line: bytes) -> dict[str, str]:
    """The texts of one JSON line, none of anything else."""
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return {name: value for name, value in fields.items() if isinstance(value, str)}


def judge(package: str, found: Mapping[str, NodeVersions], here: str) -> Finding:
    """Whether questions of one package can be regenerated everywhere.

    Args:
        here: the version that a node started on this host would have, empty for none.
    """
    by_node = {node: said[package] for node, said in found.items() if _VERSION.fullmatch(said.get(package, ""))}
    versions = set(by_node.values())
    if len(versions) > 1:
        newest = max(versions, key=_key)
        fix = f"pip install {package}=={newest} everywhere: with others, groups are refused ({OTHER_VERSION})"
        return AREA.failure(package, _by_value(by_node), fix)
    if by_node and here and here not in versions:
        fix = f"pip install {package}=={next(iter(versions))} before starting a node here"
        return AREA.warning(package, f"{_by_value(by_node)}, but {here} on this host", fix)
    return AREA.ok(package, _by_value(by_node) or "no node has said its version")


def judge_ours(found: Mapping[str, NodeVersions]) -> Finding:
    """Whether all nodes are of one version."""
    by_node = {node: said[OURS] for node, said in found.items() if said.get(OURS)}
    if len(set(by_node.values())) > 1:
        return AREA.warning(OURS, _by_value(by_node), "install one version everywhere; old forms are still read")
    return AREA.ok(OURS, _by_value(by_node) or "no node has said its version")


def models(by_node: dict[str, str]) -> Finding:
    """Which models there are; they may differ."""
    return AREA.ok("models", _by_value({node: model for node, model in by_node.items() if model}) or "none loaded yet")


def _by_value(values: dict[str, str]) -> str:
    nodes = defaultdict(list)
    for node, value in sorted(values.items()):
        nodes[value].append(node)
    if len(nodes) == 1:
        value = next(iter(nodes))
        return f"{shorten(value, 60)} on {len(values)} nodes"
    return "; ".join(f"{shorten(value, 60)} on {shorten(', '.join(names), 80)}" for value, names in nodes.items())


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
