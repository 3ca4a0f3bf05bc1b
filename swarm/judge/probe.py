"""Measures what a model can do of the tasks of a run before it is trained on them: a few held-out questions of each.

questions of each task ─▶ one generate call per task ─▶ bounded scoring ─▶ MeasuredTask ─▶ proposed: what to ask

measure sums up what a probe of one task shows: shares over its questions, with their uncertainty. Pure.

proposed says which of the tasks that were measured a model can learn from: a mixture, and why the others are left out.
Pure.

MeasuredTask of each task ─▶ proposed ─▶ Proposal: its tasks are the universe's, and each of them gives an informative
                                     group of five at least, and four of five at most
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import NamedTuple

import msgspec
from anyio import to_thread

from swarm.algo.seeds import held_out_seed
from swarm.config import Settings
from swarm.config.task_table import as_mixture
from swarm.errors import ModelError, ProtocolError
from swarm.judge.exam import answers_of, score_all
from swarm.records.pace import Share, wilson
from swarm.records.round_forecast import RoundForecast
from swarm.tasks.family import QuestionRequest
from swarm.tasks.registry import NO_TASKS
from swarm.tasks.scoring import FULL_ANSWER, GroupScore, Scorer
from swarm.tasks.universe import Universe, universe_of
from swarm.types import Completion, Policy, Question, TrainGroup


class MeasuredTask(msgspec.Struct, frozen=True):
    task: str
    questions: int
    generations: int
    pass_at_1: Share
    pass_at_g: Share
    """Questions of which an answer is right."""
    reward: Share
    tagged: Share
    """Completions with a closed answer."""
    finished: Share
    informative: Share
    """Groups whose rewards are not all equal: others teach nothing."""
    seconds: float
    """Seconds of generation."""
    tokens: int
    """Tokens of all completions."""
    earned: int = 0
    """Completions with a reward."""


def measure(
    task: str, scores: Sequence[GroupScore], groups: Sequence[Sequence[Completion]], *, seconds: float
) -> MeasuredTask:
    """Sums up the groups of one task; there is at least one, and all have one size."""

    def share(value: Callable[[GroupScore], float]) -> Share:
        return wilson([value(score) for score in scores])

    return MeasuredTask(
        task=task,
        questions=len(scores),
        generations=len(scores[0].rewards),
        pass_at_1=share(lambda score: fmean(reward >= FULL_ANSWER for reward in score.rewards)),
        pass_at_g=share(lambda score: max(score.rewards) >= FULL_ANSWER),
        reward=share(lambda score: fmean(score.rewards)),
        tagged=share(lambda score: fmean(score.answered)),
        finished=wilson([fmean(one.finished for one in group) for group in groups]),
        informative=share(lambda score: len(set(score.rewards)) > 1),
        earned=sum(reward > 0 for score in scores for reward in score.rewards),
        seconds=seconds,
        tokens=sum(len(turn.token_ids or ()) for group in groups for one in group for turn in one.every_turn),
    )


LEAST, MOST = 0.2, 0.8
"""Shares of a task's groups that are informative."""


class Proposal(msgspec.Struct, frozen=True):
    mixture: str | None
    """Mixture as SWARM_MIXTURE has it; None: there is none."""
    tasks: tuple[str, ...]
    left_out: dict[str, str]
    """Task -> why."""


def proposed(measured: Sequence[MeasuredTask], universe: Universe) -> Proposal:
    """Returns the tasks whose groups are informative often enough, by the weights that the universe has.

    Args:
        measured: of the universe's tasks; of others nothing is said.
    """
    known = {one.task: one for one in measured if one.task in universe.profiles}
    left_out = {task: why for task, one in known.items() if (why := _why_left_out(one))}
    tasks = tuple(task for task in universe.profiles if task in known and task not in left_out)
    mixture = universe.mixture_of({task: universe.weights[task] for task in tasks}) if tasks else None
    return Proposal(as_mixture(mixture.weights) if mixture else None, tasks, left_out)


def _why_left_out(one: MeasuredTask) -> str:
    """Empty if it is not."""
    share = one.informative.mean
    if LEAST <= share <= MOST:
        return ""
    said = f"{share:.0%} of its groups are informative"
    if share > MOST:
        return f"{said}, more than {MOST:.0%}: rewards differ whatever is answered"
    if one.tagged.mean == 0:
        return f"{said}: no completion has a closed <answer>"
    if one.reward.mean < 0.5:
        right, tagged = one.pass_at_1.mean, one.tagged.mean
        return f"{said}: too hard, {right:.0%} of the completions are right, {tagged:.0%} have a closed <answer>"
    return f"{said}: too easy, {one.pass_at_1.mean:.0%} of the completions are right"


TRAINED_ON = 4
"""Groups whose gradient is timed."""
Tell = Callable[[str], None]
"""Is told what is being done."""


class Probed(msgspec.Struct, frozen=True):
    model: str
    measured: tuple[MeasuredTask, ...]
    proposal: Proposal
    forecast: RoundForecast
    """How long a run's round takes to be answered, at this pace, and how many answers earned a reward."""


class _Written(NamedTuple):
    groups: Sequence[tuple[Completion, ...]]
    seconds: float


async def probe(settings: Settings, questions: int, tell: Tell) -> Probed:
    """Measure every task of the settings on held-out questions, and say what can be learned from.

    Args:
        questions: of each task; which ones follows from the settings' seed, and no run draws them.

    Raises:
        ModelError: the model cannot be loaded or used.
        ConfigError: a task cannot be asked.
        ScoringError: no scoring child can be kept alive.
    """
    universe = universe_of(settings)
    async with Scorer(settings.scorer_processes, settings.task_families, settings.task_table or NO_TASKS) as scorer:
        tell(f"making {questions} questions of each of {len(universe.profiles)} tasks")
        made = {
            task: await _made(scorer, settings, task, profile, questions) for task, profile in universe.profiles.items()
        }
        papers = {task: found for task, found in made.items() if not isinstance(found, str)}
        written, learning = await to_thread.run_sync(partial(_write, settings, papers, tell, scorer))
        measured = []
        for task, paper in papers.items():
            scores = await score_all(scorer, paper, written[task].groups)
            measured.append(measure(task, scores, written[task].groups, seconds=written[task].seconds))
    proposal = proposed(measured, universe)
    unmade = {task: found for task, found in made.items() if isinstance(found, str)}
    proposal = msgspec.structs.replace(proposal, left_out={**unmade, **proposal.left_out})
    return Probed(settings.model[0], tuple(measured), proposal, _forecast(settings, measured, learning))


def _forecast(settings: Settings, measured: Sequence[MeasuredTask], learning: float | None) -> RoundForecast:
    """Sums up a round: own groups teach as often as they did here, those of peers always.

    Args:
        learning: seconds of the gradient of one group; None: not measured.
    """
    questions = sum(one.questions for one in measured)
    informative = sum(one.questions * one.informative.mean for one in measured) / max(1, questions)
    trained_on = settings.local_groups * informative + settings.external_groups
    return RoundForecast(
        answering=settings.local_groups * sum(one.seconds for one in measured) / max(1, questions),
        learning=None if learning is None else learning * trained_on * settings.grpo_iterations,
        interval=settings.round_interval if settings.clock == "coordinator" else 0.0,
        answers=sum(one.questions * one.generations for one in measured),
        earned=sum(one.earned for one in measured),
        task=min(measured, key=lambda one: one.pass_at_1.mean).task if measured else "",
    )


async def _made(scorer: Scorer, settings: Settings, task: str, profile: str, questions: int) -> list[Question] | str:
    """Or why there are none."""
    seeds = [held_out_seed(settings.seed, "probe", profile, task, number) for number in range(questions)]
    try:
        return await scorer.make([QuestionRequest.named(task, profile, seed) for seed in seeds])
    except ProtocolError as error:  # the boundary of one task: the others are measured all the same
        return f"its questions cannot be made: {error}"


def _write(
    settings: Settings, papers: Mapping[str, Sequence[Question]], tell: Tell, scorer: Scorer
) -> tuple[dict[str, _Written], float | None]:
    """Returns all answers, and seconds of the gradient of one group. Blocking: loads the model, and stays in the thread
    that did."""
    from swarm.policy.policy import load_generator, load_policy
    from swarm.policy.settings import grpo_config, loading_options

    tell(f"loading {settings.model[0]}")
    model, config, options = settings.model[0], grpo_config(settings), loading_options(settings)
    policy = load_policy(model, config, **options) if settings.trains else None
    generator = policy or load_generator(model, config, **options)
    written = {}
    for task, paper in papers.items():
        tell(f"answering {task}")
        began, seed = time.perf_counter(), (settings.seed, "probe answers", task)
        groups = answers_of(generator, paper, settings.generations, seed, scorer)
        written[task] = _Written(groups, time.perf_counter() - began)
    asked = [pair for task in papers for pair in zip(papers[task], written[task].groups, strict=True)]
    some = asked[:: max(1, len(asked) // TRAINED_ON)]
    return written, _learning(policy, some, tell) if policy and some else None


def _learning(policy: Policy, asked: Sequence[tuple[Question, tuple[Completion, ...]]], tell: Tell) -> float | None:
    """Returns seconds of the gradient of one group; None: this machine cannot. No weight is changed."""
    tell("training on some of the answers, to see how long it takes")
    groups = [
        TrainGroup(question.prompt, answers, tuple((-1.0) ** place for place in range(len(answers))))
        for question, answers in asked
    ]
    try:
        policy.begin_update(groups[:1])  # the first one takes longer
        began = time.perf_counter()
        policy.begin_update(groups)
    except ModelError as error:
        tell(f"how long an update takes is not known: {error}")
        return None
    return (time.perf_counter() - began) / len(groups)
