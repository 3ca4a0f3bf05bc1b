"""Decides how many swarms of a study run at a time, by its memory plans; one that does not fit is refused, with what
would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from swarm.cli.plan import longest_talk, render_remedies, verdict
from swarm.cli.say import say
from swarm.config import Settings, variable
from swarm.errors import MemoryPlanError
from swarm.planner.plan import RESERVE, Plan
from swarm.planner.planner import Remedy, plan_for, remedies_of
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.run.matrix import run_settings
from swarm.provenance import cores


def different(record: StudyRecord, folder: Path, hub_token: str | None) -> list[Settings]:
    """Returns the settings of all runs, those once that differ in nothing but their seed."""
    ones = {run.configuration: run for run in record.runs}.values()
    runs = (run_settings(record, one, folder, hub_token=hub_token) for one in ones)
    return list(dict.fromkeys(replace(settings, seed=0, experiment=record.study) for settings in runs))


def places(record: StudyRecord, folder: Path, wanted: int | None, hub_token: str | None) -> int:
    """Swarms at a time: as many as wanted, or as there are cores, if the memory does for them.

    Raises:
        MemoryPlanError: it does not do for one; names what would fit, which a study never chooses by itself.
    """
    jobs = min(wanted or cores(), len(record.runs))
    plans = [
        (settings, plan)
        for settings in different(record, folder, hub_token)
        if (plan := plan_for(settings, settings.expected_count or 1, processes=1, talk=longest_talk(settings)))
    ]
    fit = min((_how_many(plan) for _, plan in plans), default=jobs)
    if fit < 1:
        raise MemoryPlanError(_does_not_fit(*min(plans, key=lambda pair: _how_many(pair[1]))))
    if fit < jobs:
        say(f"{fit} swarms at a time, not {jobs}: the free memory does for no more")
    return min(jobs, fit)


def _how_many(plan: Plan) -> int:
    """Returns how many such swarms fit, as far as their device and the host beside it have memory."""
    host = int(plan.device.host_free * (1 - RESERVE)) // plan.host_needed if plan.host_needed else None
    device = plan.usable // plan.needed
    return device if host is None else min(device, host)


def _does_not_fit(settings: Settings, plan: Plan) -> str:
    found = _as_settings(remedies_of(plan, settings, longest_talk(settings)))
    would = render_remedies(found) or "fewer --nodes need less"
    return f"the memory does not do for one swarm of this study: {verdict(plan)}; {would}; `swarm plan` shows the parts"


def _as_settings(remedies: Sequence[Remedy]) -> list[Remedy]:
    """Lengths are a setting, for which a study has no flag."""
    length = "--max-new-tokens "
    return [one._replace(flags=one.flags.replace(length, f"{variable('max_new_tokens')}=")) for one in remedies]
