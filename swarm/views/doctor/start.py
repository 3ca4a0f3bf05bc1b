"""Checks what a node that is started here would need: its models, and its device."""

from __future__ import annotations

from collections.abc import Iterator

from swarm.planner.startable import device_problem, model_problem
from swarm.systems import missing
from swarm.views.doctor.check import Area, CheckContext, Finding

AREA = Area("start")


def check(context: CheckContext) -> Iterator[Finding]:
    """Models and device of the settings, as `swarm up` looks at them; nothing where no node runs."""
    if missing():
        return
    settings = context.settings
    for name in dict.fromkeys(settings.model):
        fix = "see there, or choose another MODEL_NAME; nodes with it end before their first round"
        yield _finding(f"model {name}", model_problem(name, settings.hub_token), "can be had", fix)
    fix = "see there, or leave SWARM_DEVICE, SWARM_PRECISION and SWARM_ATTENTION out"
    yield _finding("device", device_problem(settings), settings.device or "a GPU if there is one, else the CPU", fix)


def _finding(check: str, problem: str, fine: str, fix: str) -> Finding:
    return AREA.failure(check, problem, fix) if problem else AREA.ok(check, fine)
