"""`swarm plan`: how much memory would a swarm need, and does it fit?"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import msgspec
from cyclopts import Parameter

from swarm.cli.flags import UP_DEFAULTS, UpFlags
from swarm.cli.longest_talk import longest_talk
from swarm.cli.plan_text import render_pace, render_plan, render_probe, render_remedies
from swarm.cli.suiting import suited_settings
from swarm.cli.up import DEFAULT_WORKERS
from swarm.config import Settings
from swarm.errors import ConfigError, ModelError
from swarm.planner.device_memory import far_device
from swarm.planner.plan import PROCESS, Plan
from swarm.planner.planner import RoundPace, make_plan, measured_pace, remedies_of
from swarm.planner.probe import ProbeReport, ProbeTask, probe
from swarm.planner.remedies import Remedy
from swarm.planner.startable import problems
from swarm.policy.embedded import EMBEDDED
from swarm.provenance import cores
from swarm.systems import require_for
from swarm.tasks.universe import check_tasks
from swarm.views.requests import render_expected


def plan(
    *,
    nodes: Annotated[int, Parameter(help="Number of workers.")] = DEFAULT_WORKERS,
    in_process: Annotated[bool, Parameter(help="All workers in one process, as `swarm up --in-process`.")] = False,
    device_memory: Annotated[
        str | None,
        Parameter(
            help="Plan for a device that is not on this machine, by its memory, such as 16GB or 22GiB (with --device "
            "cpu: for a machine without a GPU). A folder of the model then needs no weights, only config.json."
        ),
    ] = None,
    up_flags: UpFlags | None = None,
    probe_it: Annotated[bool, Parameter("--probe", negative="--no-probe", help="Check it with one real step.")] = True,
    as_json: Annotated[bool, Parameter("--json", help="JSON instead of a table.")] = False,
) -> int:
    """Predict the memory of a swarm, check the prediction with one step of one node, and say what fits.

    Exit code 0 if it fits, 1 if not. The settings are those of `swarm up`. A device that is not here is
    planned for without that step.
    """
    require_for("`swarm plan`")
    if nodes < 1:
        raise ConfigError(f"--nodes must be at least 1, got {nodes}")
    settings = suited_settings(up_flags, **UP_DEFAULTS)
    check_tasks(settings)
    far = far_device(device_memory, settings.device) if device_memory else None
    if far is None and (found := problems(settings)):
        raise ModelError("\n".join(found))
    talk = longest_talk(settings)
    made = make_plan(settings, nodes, in_process, talk, far)
    report = _probe(settings, made) if probe_it and far is None and one_node(made) <= made.usable else None
    pace = measured_pace(report, made, at_once=cores() if set(made.models) <= set(EMBEDDED) else 1) if report else None
    planned = Planned(made, report, pace, [] if made.fits else remedies_of(made, settings, talk))
    sys.stdout.write((_json(planned) if as_json else _text(planned, settings)) + "\n")
    return 0 if made.fits and not (report and report.refuted) else 1


class Planned(NamedTuple):
    """All that is said."""

    plan: Plan
    report: ProbeReport | None
    pace: RoundPace | None
    remedies: list[Remedy]


def one_node(made: Plan) -> int:
    """Returns the bytes that a probe of one node should see: on a CPU its process, too, on a GPU what torch takes
    alone."""
    return made.node.peak + (0 if made.device.is_gpu else PROCESS)


def _probe(settings: Settings, made: Plan) -> ProbeReport:
    chosen = replace(
        settings,
        model=(made.node.model,),
        device=made.device.device,
        micro_batch_tokens=made.micro_batch_tokens,
        gradient_checkpointing=made.gradient_checkpointing,
    )
    return probe(chosen, ProbeTask(made.node.prompt_tokens, made.node.new_tokens))


def _text(planned: Planned, settings: Settings) -> str:
    made, report = planned.plan, planned.report
    requests = render_expected(settings, made.nodes)
    probed = render_probe(report, one_node(made)) if report else ""
    pace = render_pace(planned.pace, settings.max_rounds) if planned.pace else ""
    lines = (render_plan(made, settings), render_remedies(planned.remedies), probed, pace, requests)
    return "\n".join(filter(None, lines))


def _json(planned: Planned) -> str:
    made, report = planned.plan, planned.report
    content: dict[str, Any] = msgspec.to_builtins(made)
    content |= {"needed": made.needed, "host_needed": made.host_needed, "usable": made.usable, "fits": made.fits}
    content |= {"probe": msgspec.to_builtins(report), "probe_predicted": one_node(made)}
    content |= {"seconds_per_round": planned.pace._asdict() if planned.pace else None}
    content |= {"would_fit": [remedy.flags for remedy in planned.remedies]}
    return msgspec.json.encode(content).decode()
