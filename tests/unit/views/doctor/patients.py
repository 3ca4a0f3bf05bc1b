"""A folder to be looked at, time that only passes when the doctor waits, and what happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swarm.config import Settings
from swarm.store.folder.health import FolderProbe
from swarm.store.place import open_place
from swarm.views.doctor.check import CheckContext, Finding, Timing, Verdict
from swarm.views.doctor.examine import Check
from tests.layout import Layout
from tests.unit.views.factories import START, make_peer

OK, WARNING, FAILURE = Verdict.OK, Verdict.WARNING, Verdict.FAILURE
NOW = START + 1000.0


@dataclass
class Scene:
    """Time, and what happens at each of the doctor's looks."""

    happens: list[Callable[[int], None]] = field(default_factory=list)
    passed: float = 0.0
    looks: int = 0

    def wall(self) -> float:
        return NOW + self.passed

    def sleep(self, seconds: float) -> None:
        self.passed += seconds
        self.looks += 1
        for happen in self.happens:
            happen(self.looks)

    @property
    def timing(self) -> Timing:
        return Timing(lambda: self.passed, self.wall, self.sleep)

    def beats(self, layout: Layout, node: str, *incarnations: str, clock_off: float = 0.0, **fields: Any) -> None:
        """Have a node beat at every look, by its processes in turns."""
        by_turns = incarnations or ("only",)

        def beat(look: int) -> None:
            incarnation = by_turns[look % len(by_turns)]
            seen = self.wall() + clock_off
            make_peer(layout, node, **({"beat": look, "incarnation": incarnation, "last_seen": seen} | fields))

        beat(0)
        self.happens.append(beat)


def make_patient(path: Path, scene: Scene | None = None, *, probe: bool = True, **settings: Any) -> CheckContext:
    """The experiment `exp` in a folder, with a probe folder beside it."""
    place = path.parent / f"{path.name}-probe"
    if probe:
        place.mkdir()
    made = Settings().with_values({"path": str(path), "experiment": "exp", **settings})
    health = FolderProbe(path, "experiments/exp", place, "" if probe else "nothing can be written")
    run = open_place(path).open("exp") if health.there else None
    return CheckContext(made, run, health, 1.0, (scene or Scene()).timing)


def look(check: Check, context: CheckContext) -> dict[str, Finding]:
    """The findings of one area by what was checked. Each trouble must come with a fix, in one line."""
    findings = list(check(context))
    for finding in findings:
        assert bool(finding.fix) == (finding.verdict is not OK), finding
        assert "\n" not in finding.fix
    return {finding.check: finding for finding in findings}
