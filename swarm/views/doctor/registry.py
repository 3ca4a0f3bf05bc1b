"""Every area that the doctor looks at, in the order in which it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from swarm.views.doctor import (
    clock_file,
    events,
    folder,
    inotify,
    machine,
    naming,
    nodes,
    renaming,
    saved,
    space,
    strays,
    times,
    trust,
    versions,
)
from swarm.views.doctor.check_context import CheckContext
from swarm.views.doctor.finding import Finding

Check = Callable[[CheckContext], Iterator[Finding]]

CHECKS: dict[str, Check] = {
    "folder": folder.check,
    "rename": renaming.check,
    "names": naming.check,
    "space": space.check,
    "clocks": times.check,
    "events": events.check,
    "inotify": inotify.check,
    "nodes": nodes.check,
    "trust": trust.check,
    "versions": versions.check,
    "state": clock_file.check,
    "files": strays.check,
    "saved": saved.check,
    "machine": machine.check,
}
