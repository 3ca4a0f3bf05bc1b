"""`swarm ask`: one question to one model, the prompt as the model gets it, and what its answers earn, and why."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import RunFlags
from swarm.cli.say import print_result
from swarm.cli.suiting import suited_settings
from swarm.config import Settings, variable
from swarm.errors import ConfigError
from swarm.judge.asked import Answer, AskedQuestion
from swarm.judge.asked import ask as ask_model
from swarm.node.process.daemon import run_loop
from swarm.systems import require_for
from swarm.tasks.universe import universe_of

MOST = 1024
THINKING_OFF = (
    f"thinking is off: the model's chat template has the switch, and nobody set it; to leave it on: "
    f"""{variable("chat_template_args")}={{"enable_thinking": true}}"""
)


def ask(
    *,
    run_flags: RunFlags | None = None,
    task: Annotated[str, Parameter(help="Which task; `--config` has those of one's own.")],
    samples: Annotated[int, Parameter(help="Answers.")] = 1,
    as_json: Annotated[bool, Parameter("--json", help="JSON instead of text.")] = False,
) -> None:
    """Ask a model one held-out question of a task, with a run's own settings, and show everything.

    The prompt is exactly what the model gets, special tokens and all. `--seed` chooses question and answers.
    """
    require_for("`swarm ask`")
    within("--samples", samples)
    settings = suited_settings(run_flags, own={"tasks": (task,)})
    refuse_unfit(settings, "ask")
    ((name, profile),) = universe_of(settings).profiles.items()
    print_result(run_loop(ask_model, settings, name, profile, samples), render, as_json=as_json)


def within(flag: str, value: int) -> None:
    """Refuse counts that nobody means. Raises ConfigError."""
    if not 1 <= value <= MOST:
        raise ConfigError(f"{flag} must be from 1 to {MOST}, got {value}")


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
