"""`swarm plan`: how much memory would a swarm need, and does it fit?"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from swarm.cli.flags import UP_DEFAULTS, UpFlags
from swarm.cli.longest_talk import longest_talk
from swarm.cli.plan_text import render_plan, render_probe
from swarm.cli.suiting import suited_settings
from swarm.cli.up import DEFAULT_WORKERS
from swarm.config import Settings
from swarm.errors import ConfigError, ModelError
from swarm.planner.plan import PROCESS, Plan
from swarm.planner.planner import make_plan
from swarm.planner.probe import ProbeReport, ProbeTask, probe
from swarm.planner.startable import problems
from swarm.systems import require_for
from swarm.tasks.universe import check_tasks
from swarm.views.expected_requests import render_expected


def plan(
    *,
    nodes: Annotated[int, Parameter(help="Number of workers.")] = DEFAULT_WORKERS,
    in_process: Annotated[bool, Parameter(help="All workers in one process, as `swarm up --in-process`.")] = False,
    flags: UpFlags | None = None,
    probe_it: Annotated[bool, Parameter("--probe", negative="--no-probe", help="Check it with one real step.")] = True,
    as_json: Annotated[bool, Parameter("--json", help="JSON instead of a table.")] = False,
) -> int:
    """Predict the memory of a swarm, check the prediction with one step of one node, and say what fits.

    Exit code 0 if it fits, 1 if not. The settings are those of `swarm up`.
    """
    require_for("`swarm plan`")
    if nodes < 1:
        raise ConfigError(f"--nodes must be at least 1, got {nodes}")
    settings = suited_settings(flags, **UP_DEFAULTS)
    check_tasks(settings)
    if found := problems(settings):
        raise ModelError("\n".join(found))
    made = make_plan(settings, nodes, in_process, longest_talk(settings))
    report = _probe(settings, made) if probe_it and one_node(made) <= made.usable else None
    sys.stdout.write((_json(made, report) if as_json else _text(made, settings, report)) + "\n")
    return 0 if made.fits and not (report and report.refuted) else 1


def one_node(made: Plan) -> int:
    """What a probe of one node is expected to see: on a CPU its process, too, on a GPU what torch takes alone."""
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


def _text(made: Plan, settings: Settings, report: ProbeReport | None) -> str:
    requests = render_expected(settings, made.nodes)
    probed = render_probe(report, one_node(made)) if report else ""
    return "\n".join(filter(None, (render_plan(made, settings), probed, requests)))


def _json(made: Plan, report: ProbeReport | None) -> str:
    content: dict[str, Any] = msgspec.to_builtins(made)
    content |= {"needed": made.needed, "host_needed": made.host_needed, "usable": made.usable, "fits": made.fits}
    content |= {"probe": msgspec.to_builtins(report), "probe_predicted": one_node(made)}
    return msgspec.json.encode(content).decode()
