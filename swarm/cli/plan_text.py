"""A memory plan as people read it."""

from __future__ import annotations

from collections.abc import Sequence

from swarm.config import Settings
from swarm.planner.plan import RESERVE, Part, Plan
from swarm.planner.planner import RoundPace
from swarm.planner.probe import ProbeReport
from swarm.planner.remedies import Remedy
from swarm.views.text import age, size, table


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
