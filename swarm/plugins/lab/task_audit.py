"""`swarm task audit`: what tasks pay to who does not think, and whether their questions have a meaning."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import anyio

from swarm.cli.flags import CommonFlags, settings_from
from swarm.cli.say import say
from swarm.cli.task import Task, found
from swarm.errors import ConfigError
from swarm.plugins.lab.audit import MOST, Audit, Guess, audited
from swarm.systems import require_for
from swarm.tasks.registry import Families
from swarm.tasks.scoring import Scorer
from swarm.views.text import shorten, table

QUESTIONS, SEED = 200, 5_000
HEADER = (
    "task",
    "questions",
    "usual key",
    "best constant",
    "from the text",
    "scrap of the key",
    "own",
    "without meaning",
    "ended",
)
PAYS_TOO_MUCH = f"pays who does not think more than its usual key or {MOST:g}, or asks questions without meaning"


def audit(
    *names: str, questions: int = QUESTIONS, seed: int = SEED, experiment_flags: CommonFlags | None = None
) -> int:
    """Answer a task's questions without thinking, in every way we know, and say what that earns; exit 1 if too much.

    Args:
        names: Tasks of the settings file or of a family, datasets of reasoning-gym, or files; none: all of the profile.
        questions: Of each task.
        seed: Of the first question; the others have those that follow.
    """
    require_for("`swarm task audit`")
    if questions < 1:
        raise ConfigError(f"--questions must be at least 1, got {questions}")
    settings = settings_from(experiment_flags)
    chosen = names or Families(settings.task_families).profiles().get(settings.profile, ())
    tasks = [found(name, settings) for name in chosen]
    audits = anyio.run(_audit_all, tasks, range(seed, seed + questions))
    say(table(HEADER, [_row(one) for one in audits], left=(0, 2, 3, 4, 5)))
    too_much = [one.task for one in audits if one.pays_too_much or one.meaningless]
    for task in too_much:
        say(f"problem: {task} {PAYS_TOO_MUCH}")
    return int(bool(too_much))


async def _audit_all(tasks: Iterable[Task], seeds: Sequence[int]) -> list[Audit]:
    audits = []
    for task in tasks:
        async with Scorer(1, task.families, task.defined) as scorer:
            audits.append(await audited(task.task, scorer, [task.request(seed) for seed in seeds]))
        sys.stderr.write(f"{task.task}: done\n")
    return audits


def _row(one: Audit) -> tuple[str, ...]:
    own = "-" if one.own is None else f"{one.own:.3f}"
    shown = [_shown(guess) for guess in (one.usual, one.constant, one.trick, one.scrap)]
    return (one.task, str(one.questions), *shown, own, str(one.meaningless), str(one.ended))


def _shown(guess: Guess | None) -> str:
    return "-" if guess is None else f"{guess.reward:.3f} {shorten(guess.how, 24)!r}"
