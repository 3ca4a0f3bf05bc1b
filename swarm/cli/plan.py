"""`swarm plan`: how much memory would a swarm need, and does it fit?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.before_start import suited_settings
from swarm.cli.flags import DEFAULT_WORKERS, UP_DEFAULTS, UpFlags
from swarm.config import Settings
from swarm.errors import ConfigError, ModelError
from swarm.planner.device_memory import far_device
from swarm.planner.footprint import checkpoint_bytes
from swarm.planner.node_memory import ONE_TURN, Talk
from swarm.planner.plan import PROCESS, RESERVE, Part, Plan
from swarm.planner.planner import RoundPace, make_plan, measured_pace, remedies_of
from swarm.planner.probe import ProbeReport, ProbeTask, probe
from swarm.planner.remedies import Remedy
from swarm.planner.shape import model_shape
from swarm.planner.startable import problems, refusal
from swarm.policy.embedded import EMBEDDED
from swarm.provenance import cores
from swarm.systems import require_for
from swarm.tasks.python.questions import turns_of
from swarm.tasks.registry import NO_TASKS
from swarm.tasks.universe import check_tasks
from swarm.views.requests import Saving, render_expected
from swarm.views.text import age, size, table

REPLY_TOKENS = 128
"""Assumed of a reply, with the chat template's marks: some hundred words. How long it is shows when it is made."""


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
    line: Annotated[
        float, Parameter(help="Megabits a second that a worker's machine sends to a bucket.", validator=Number(gt=0))
    ] = 10.0,
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
        raise refusal(found, settings.model)
    talk = longest_talk(settings)
    made = make_plan(settings, nodes, in_process, talk, far)
    report = _probe(settings, made) if probe_it and far is None and one_node(made) <= made.usable else None
    pace = measured_pace(report, made, at_once=cores() if set(made.models) <= set(EMBEDDED) else 1) if report else None
    planned = Planned(made, report, pace, [] if made.fits else remedies_of(made, settings, talk))
    sys.stdout.write((_json(planned) if as_json else _text(planned, settings, line)) + "\n")
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


def _text(planned: Planned, settings: Settings, line: float) -> str:
    made, report = planned.plan, planned.report
    requests = render_expected(settings, made.nodes, saving_of(settings), line) if settings.sparing else ""
    probed = render_probe(report, one_node(made)) if report else ""
    pace = render_pace(planned.pace, settings.max_rounds) if planned.pace else ""
    lines = (render_plan(made, settings), render_remedies(planned.remedies), probed, pace, requests)
    return "\n".join(filter(None, lines))


def saving_of(settings: Settings) -> Saving | None:
    """Returns what the largest checkpoint of these models takes; None: that cannot be known."""
    adapted = replace(settings, adapter=replace(settings.adapter, kind="lora"))
    try:
        shapes = [model_shape(name, hub_token=settings.hub_token, needs_weights=False) for name in settings.model]
        one = max(checkpoint_bytes(shape, settings) for shape in shapes)
        of_adapter = max(checkpoint_bytes(shape, adapted) for shape in shapes)
    except ModelError:
        return None
    return Saving(one, of_adapter if settings.adapter.kind == "none" else None)


def _json(planned: Planned) -> str:
    made, report = planned.plan, planned.report
    content: dict[str, Any] = msgspec.to_builtins(made)
    content |= {"needed": made.needed, "host_needed": made.host_needed, "usable": made.usable, "fits": made.fits}
    content |= {"probe": msgspec.to_builtins(report), "probe_predicted": one_node(made)}
    content |= {"seconds_per_round": planned.pace._asdict() if planned.pace else None}
    content |= {"would_fit": [remedy.flags for remedy in planned.remedies]}
    return msgspec.json.encode(content).decode()


def render_plan(plan: Plan, settings: Settings) -> str:
    """Returns the table of parts, what is free, the verdict, the choice, and the largest configuration that fits."""
    head, foot = [_title(plan), _assumption(plan), ""], ["", verdict(plan), _choice(plan, settings), _most(plan)]
    return "\n".join([*head, _table(plan), *foot])


def verdict(plan: Plan) -> str:
    """Tells whether it fits, in one line."""
    whose = "of its host" if plan.device.elsewhere else f"of the host's {size(plan.device.host_free)}"
    host = f", and {size(plan.host_needed)} {whose}" if plan.host_needed else ""
    return (
        f"{'fits' if plan.fits else 'does not fit'}: {_nodes(plan.nodes)} on {plan.device.title} need "
        f"{size(plan.needed)} of {size(plan.device.free)} free{host} ({RESERVE:.0%} stay in reserve)"
    )


def render_remedies(found: Sequence[Remedy]) -> str:
    """Returns what would fit, for somebody to choose from; empty where nothing would."""
    if not found:
        return ""
    return f"what would fit, and nothing does by itself: {', or '.join(map(_remedy, found))}"


def render_pace(pace: RoundPace, rounds: int) -> str:
    """Returns seconds of a round, what so many rounds take, and where that comes from."""
    every = f"{rounds} rounds: {age(rounds * pace.least)} to {age(rounds * pace.most)}"
    return f"seconds per round: {_seconds(pace.least)} to {_seconds(pace.most)}, {every} ({pace.source})"


def _seconds(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def _remedy(remedy: Remedy) -> str:
    if remedy.plan is None:
        return remedy.flags
    way = ", small matrices beside frozen weights" if remedy.plan.adapter != "none" else ""
    return f"{remedy.flags} ({size(remedy.plan.needed)}{way})"


def changes(plan: Plan, settings: Settings) -> str:
    """Returns in one line what the plan does otherwise than the settings that it was made from; empty if nothing."""
    done = []
    if plan.gradient_checkpointing and not settings.gradient_checkpointing:
        done.append("turned on gradient checkpointing (SWARM_GRADIENT_CHECKPOINTING=False forbids it)")
    if plan.micro_batch_tokens < settings.micro_batch_tokens:
        done.append(f"cut micro-batches from {settings.micro_batch_tokens} to {plan.micro_batch_tokens} tokens")
    return f"to save memory, the plan {' and '.join(done)}" if done else ""


def render_probe(report: ProbeReport, predicted: int) -> str:
    """Returns what one step of one node showed, beside what was predicted for it."""
    peaks = [("loaded", report.loaded), ("generation", report.generation), ("update", report.update)]
    seen = ", ".join(f"{name} {size(peak)}" for name, peak in peaks if peak is not None) or "nothing measured"
    early = "it ended early: " if report.peak is None else ""
    problem = f"; {early}{report.problem}" if report.problem else ""
    return f"probe of one node: peaks {seen}; predicted {size(predicted)}{problem}"


def _title(plan: Plan) -> str:
    processes = "in one process" if plan.in_process else "one process each"
    what = "adapters beside " if plan.adapter != "none" else ""
    return f"{_nodes(plan.nodes)} of {what}{', '.join(plan.models)} on {plan.device.title}, {processes}"


def _assumption(plan: Plan) -> str:
    return (
        f"assumed: prompts of {plan.prompt_tokens} tokens, the longest measured for these tasks, "
        f"and completions of {plan.new_tokens}, all of full length"
    )


def _table(plan: Plan) -> str:
    rows = [_row(part.name + (" (host)" if part.on_host else ""), part.one, part.all) for part in plan.parts]
    rows.append(_row("total", *_sums(plan.parts, on_host=False)))
    if plan.host_needed:
        rows.append(_row("total (host)", *_sums(plan.parts, on_host=True)))
    return table(("memory", "one node", _nodes(plan.nodes)), rows)


def _sums(parts: tuple[Part, ...], *, on_host: bool) -> tuple[int, int]:
    chosen = [part for part in parts if part.on_host == on_host]
    return sum(part.one for part in chosen), sum(part.all for part in chosen)


def _row(name: str, one: int, every: int) -> tuple[str, str, str]:
    return name, size(one), size(every)


def _choice(plan: Plan, settings: Settings) -> str:
    way = "gradient checkpointing" if plan.gradient_checkpointing else "shared prompts"
    changed = changes(plan, settings)
    why = f"; {changed}" if changed else ""
    if not plan.fits:
        return f"that is with the least: micro-batches of up to {plan.micro_batch_tokens} tokens, {way}"
    return f"chosen: micro-batches of up to {plan.micro_batch_tokens} tokens, {way}{why}"


def _most(plan: Plan) -> str:
    return (
        f"largest that fits: {_nodes(plan.most_nodes)} with what was chosen; for {_nodes(plan.nodes)} micro-batches of "
        f"{_tokens(plan.largest_shared)} with shared prompts, {_tokens(plan.largest_checkpointed)} with checkpointing; "
        f"completions of {_tokens(plan.longest_completion)}"
    )


def _tokens(number: int | None) -> str:
    return "no length (none fits)" if number is None else f"{number} tokens"


def _nodes(number: int) -> str:
    return "1 node" if number == 1 else f"{number} nodes"


def longest_talk(settings: Settings) -> Talk:
    """Returns the longest conversation among the tasks that the settings define."""
    table = settings.task_table or NO_TASKS
    files = [Path(asked["python"]) for asked in table.values() if "python" in asked]
    turns = max(map(turns_of, files), default=1)
    return Talk(turns, REPLY_TOKENS) if turns > 1 else ONE_TURN
