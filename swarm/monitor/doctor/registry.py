"""Every area that the doctor looks at, in the order in which it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from swarm.monitor.doctor import (
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
from swarm.monitor.doctor.finding import Finding
from swarm.monitor.doctor.patient import Patient

Check = Callable[[Patient], Iterator[Finding]]

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
