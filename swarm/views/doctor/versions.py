"""Do the nodes run the same versions? Questions are regenerated, which needs equal ones of reasoning-gym."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from swarm.records.read import Tail, nodes_with_logs, parse_line
from swarm.views.doctor.check_context import CheckContext
from swarm.views.doctor.finding import Area, Finding
from swarm.views.doctor.machine import installed_version
from swarm.views.text import shorten
from swarm.wire.layout import Layout

AREA = Area("versions")
GYM = "reasoning-gym"
_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,3}[a-z0-9.+]{0,20}")
"""Of what strangers wrote, what may stand in a command that somebody will copy."""


class NodeVersions(msgspec.Struct, frozen=True):
    """What a node said at its last start."""

    swarm: str = ""
    gym: str = msgspec.field(default="", name="reasoning-gym")
    event: str = ""


def check(context: CheckContext) -> Iterator[Finding]:
    """Versions by the nodes' own start-up events, and the models that they run."""
    if not context.there:
        return
    yield from judge(measure(context.layout), installed_version(GYM))
    yield models({name: watch.peer.model for name, watch in context.watched.nodes.items()})


def measure(layout: Layout) -> dict[str, NodeVersions]:
    """Node -> what it said at its last start."""
    found = {}
    for node in nodes_with_logs(layout):
        for line in Tail(layout.events_file(node)).read():
            if (
                b'"node.starting"' in line
                and (said := parse_line(line, NodeVersions))
                and said.event == "node.starting"
            ):
                found[node] = said
    return found


def judge(found: dict[str, NodeVersions], gym_here: str) -> Iterator[Finding]:
    """One finding per package.

    Args:
        gym_here: the version that a node started on this host would have, empty for none.
    """
    gym = {node: said.gym for node, said in found.items() if _VERSION.fullmatch(said.gym)}
    swarm = {node: said.swarm for node, said in found.items() if said.swarm}
    if len(set(gym.values())) > 1:
        newest = max(set(gym.values()), key=_key)
        fix = f"pip install reasoning-gym=={newest} everywhere: with others, groups are refused (gym_version)"
        yield AREA.failure(GYM, _by_value(gym), fix)
    elif gym and gym_here and gym_here not in gym.values():
        fix = f"pip install reasoning-gym=={next(iter(gym.values()))} before starting a node here"
        yield AREA.warning(GYM, f"{_by_value(gym)}, but {gym_here} on this host", fix)
    else:
        yield AREA.ok(GYM, _by_value(gym) or "no node has said its version")
    if len(set(swarm.values())) > 1:
        yield AREA.warning("swarm", _by_value(swarm), "install one version everywhere; old forms are still read")
    else:
        yield AREA.ok("swarm", _by_value(swarm) or "no node has said its version")


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
