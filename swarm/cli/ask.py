"""`swarm ask` and `swarm probe`: what a model makes of questions before it is trained.

The first asks one question, and shows the prompt as the model gets it, what its answers earn, and why. The second
measures what the model can do of each task, and says which tasks to train it on.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.before_start import suited_settings
from swarm.cli.node import with_tasks_of
from swarm.cli.run_flags import RunFlags
from swarm.cli.say import print_result, warn
from swarm.config import Settings, variable
from swarm.errors import ConfigError
from swarm.judge.asked import Answer, AskedQuestion
from swarm.judge.asked import ask as ask_model
from swarm.judge.probe import LEAST, MOST, MeasuredTask, Probed
from swarm.judge.probe import probe as probe_model
from swarm.node.base.experiment import read_experiment
from swarm.node.process.daemon import run_loop
from swarm.records.pace import Share
from swarm.store.place import open_place
from swarm.systems import require_for
from swarm.tasks.universe import universe_of
from swarm.views.text import table

FEW = Number(gte=1, lte=1024)
"""Questions or answers that anybody means."""
DEFAULT_QUESTIONS = 16
THINKING_OFF = (
    f"thinking is off: the model's chat template has the switch, and nobody set it; to leave it on: "
    f"""{variable("chat_template_args")}={{"enable_thinking": true}}"""
)


def ask(
    *,
    run_flags: RunFlags | None = None,
    task: Annotated[str, Parameter(help="Which task; `--config` adds your own.")],
    samples: Annotated[int, Parameter(help="Answers.", validator=FEW)] = 1,
    as_json: Annotated[bool, Parameter("--json", help="JSON instead of text.")] = False,
) -> None:
    """Ask a model one held-out question of a task, with a run's own settings, and show everything.

    The prompt is exactly what the model gets, special tokens and all. `--seed` chooses question and answers.
    """
    require_for("`swarm ask`")
    settings = _settings_to_ask(run_flags, task)
    refuse_unfit(settings, "ask")
    ((name, profile),) = universe_of(settings).profiles.items()
    print_result(run_loop(ask_model, settings, name, profile, samples), render, as_json=as_json)


def _settings_to_ask(run_flags: RunFlags | None, task: str) -> Settings:
    """Returns the settings of the run, with the profile and the tasks of the experiment that they name, if there is
    one."""
    settings = suited_settings(run_flags, own={"tasks": (task,)}, begins=True)
    place = open_place(settings.place)
    if settings.experiment not in place.experiments():
        return settings
    run = place.open(settings.experiment)
    experiment = read_experiment(run)
    return with_tasks_of(run, experiment, settings) if experiment else settings


def refuse_unfit(settings: Settings, command: str) -> None:
    """Refuse settings that name no model to load. Raises ConfigError."""
    if len(settings.model) != 1:
        raise ConfigError(f"swarm {command} takes one model, got {', '.join(settings.model)}; name one with --model")
    if settings.endpoint is not None:
        raise ConfigError(
            f"swarm {command} loads a model, and {variable('endpoint')} names a server, which renders prompts itself; "
            "leave it out"
        )


def render(asked: AskedQuestion) -> str:
    """Everything, in the order in which it came about."""
    head = f"{asked.model} on {asked.task} ({asked.profile}), question seed {asked.seed}"
    truth = "none: the task has no single answer" if asked.truth is None else asked.truth
    parts = [
        head,
        *([THINKING_OFF] if asked.prompt.thinking_off else []),
        f"── prompt, {asked.prompt.tokens} tokens ──\n{asked.prompt.text}",
        f"── ground truth ──\n{truth}",
        *(_of_answer(number, answer) for number, answer in enumerate(asked.answers, 1)),
    ]
    return "\n\n".join(parts)


def _of_answer(number: int, one: Answer) -> str:
    ended = "finished" if one.finished else "cut at the length limit"
    before = "".join(
        f"{said.text}\n── reply ──\n{said.reply}\n── turn {n} ──\n" for n, said in enumerate(one.earlier, 2)
    )
    extracted = "none" if one.answer is None else one.answer
    return (
        f"── answer {number}, {one.tokens} tokens, {ended} ──\n{before}{one.text}\n"
        f"extracted: {extracted}\nscore: {one.reward:g} ({one.why})"
    )


def probe(
    *,
    run_flags: RunFlags | None = None,
    questions: Annotated[int, Parameter(help="Held-out questions per task.", validator=FEW)] = DEFAULT_QUESTIONS,
    as_json: Annotated[bool, Parameter("--json", help="JSON instead of a table.")] = False,
) -> None:
    """Measure what a model can do of each task, and propose the tasks from whose groups it can learn.

    Groups are informative whose rewards are not all equal. The questions are held out: no run draws them.
    """
    require_for("`swarm probe`")
    settings = suited_settings(run_flags)
    refuse_unfit(settings, "probe")
    print_result(run_loop(probe_model, settings, questions, warn), render_probed, as_json=as_json)


def render_probed(found: Probed) -> str:
    """Returns a line for each task, then what to ask."""
    first = found.measured[0] if found.measured else None
    if first is None:
        return "no task could be measured\n\n" + _left_out(found)
    head = f"{found.model}: {first.questions} held-out questions per task, {first.generations} completions each"
    measures = ("pass@1", f"pass@{first.generations}", "reward", "tagged", "finished", "informative")
    rows = table(("task", *measures, "seconds", "tokens"), [_row(one) for one in found.measured])
    note = "mean, and Wilson's 95 % interval at as many draws as there are questions"
    return "\n\n".join(filter(None, (head, f"{rows}\n({note})", _forecast(found), _proposal(found), _left_out(found))))


def _row(one: MeasuredTask) -> list[str]:
    shares = (one.pass_at_1, one.pass_at_g, one.reward, one.tagged, one.finished, one.informative)
    return [one.task, *map(_share, shares), f"{one.seconds:.1f}", str(one.tokens)]


def _share(share: Share) -> str:
    return f"{share.mean:.2f} ({share.low:.2f}-{share.high:.2f})"


def _forecast(found: Probed) -> str:
    return "\n".join(filter(None, (found.forecast.line, found.forecast.earned_line([found.model]))))


def _proposal(found: Probed) -> str:
    mixture = found.proposal.mixture
    if mixture is None:
        return (
            f"No mixture: of no task are {LEAST:.0%} to {MOST:.0%} of the groups informative. Take easier or harder "
            "questions (--profile, or the level of a task), more completions (--generations), or another model; "
            "`swarm ask` shows what it writes."
        )
    return (
        f"From {LEAST:.0%} to {MOST:.0%} of the groups of these tasks are informative:\n"
        f"{variable('mixture')}={mixture}\n--mixture {mixture}"
    )


def _left_out(found: Probed) -> str:
    return "\n".join(f"left out: {task}: {why}" for task, why in found.proposal.left_out.items())
