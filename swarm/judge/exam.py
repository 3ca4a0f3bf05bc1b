"""The exam: models before and after their training, on one frozen set of held-out questions.

    exam paper (a constant) ─▶ one generate call per task ─▶ bounded scoring ─▶ ExamRow per node, moment and task

The questions are a function of a constant seed, the profile and the task: every model of every experiment gets the same
ones, and the same assigned, so that two results differ by the models alone. The seeds are held out from all runs.

Of a run whose rounds have several stages each stage is examined: after the first a model is shown its own answers.

answers_of asks a model that was loaded to be measured: completions, or whole conversations with the scoring children.

Its candidates are every node's newest checkpoint, earlier ones if asked for, and the model that it started from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from math import comb
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import anyio
from anyio import from_thread, to_thread
from msgspec import UNSET

from swarm.algo.seeds import derive_seed, held_out_seed
from swarm.config import Settings
from swarm.config.revising import revising
from swarm.errors import CheckpointError, ModelError, ProtocolError, SwarmError
from swarm.harmless import quoted
from swarm.policy.hub import own_model
from swarm.records.files import read_form
from swarm.records.listing import saved_rounds
from swarm.store.run import Run
from swarm.tasks.conversation import Conversations
from swarm.tasks.family import QuestionRequest
from swarm.tasks.revise import revised
from swarm.tasks.scoring import FULL_ANSWER, GroupScore, Scorer
from swarm.types import Completion, Generator, Question, RolloutGroup
from swarm.wire import keys
from swarm.wire.judge_messages import PASS_AT, ExamRow
from swarm.wire.messages import NodeState


class Candidate(NamedTuple):
    """One node at one moment."""

    node_id: str
    model: str
    """Name as the node calls it."""
    rounds_done: int
    """0: before the training."""
    start: str
    """The model that it started from, one of the user's: an embedded name, a Hugging Face id or a folder."""
    checkpoint: str = ""
    """Prefix of the checkpoint in the run's store; empty before the training."""
    where: str = ""
    """Where the checkpoint's model is, for messages."""

    @property
    def source(self) -> str:
        return self.where or self.start


def candidates(
    run: Run, models: Sequence[str], leave_out: Callable[[str], None] = lambda why: None, every: int = 0
) -> list[Candidate]:
    """Returns the models before and after, node by node, each at the newest checkpoint that can be read. Blocking.

    Anybody can make the folder of a checkpoint, so what cannot be examined costs no other node its exam.

    Args:
        models: what the experiment's nodes may have started from, as settings name models.
        leave_out: told of each node that cannot be examined, and why.
        every: if not 0, the checkpoints after so many rounds, twice as many and so on, too, as far as they are kept.

    Raises:
        CheckpointError: there is no checkpoint, or none can be read.
        ModelError: nobody says where the model is that a node started from, of any.
    """
    saved = saved_rounds(run)
    if not saved:
        where = run.store.describe(keys.CHECKPOINTS)
        raise CheckpointError(f"{where}: expected a checkpoint of some node, got none; nodes write one when they stop")
    found, errors = list[Candidate](), dict[str, CheckpointError | ModelError]()
    for node, rounds in sorted(saved.items()):
        try:
            found += _of_node(run, node, rounds, models, every)
        except (CheckpointError, ModelError) as error:
            errors[node] = error
    if not found:
        raise next(iter(errors.values()))
    for node, why in errors.items():
        leave_out(f"{node}: {why}")
    return found


def _of_node(run: Run, node: str, rounds: Sequence[int], models: Sequence[str], every: int) -> list[Candidate]:
    newest = _newest(run, node, rounds)
    earlier = [done for done in rounds if every and done % every == 0 and 0 < done < newest.rounds_done]
    states = [*(_read_state(run, node, done) for done in earlier), newest]
    start = own_model(newest.model, models)
    saved = [(state, keys.checkpoint(state.rounds_done, node)) for state in states]
    return [
        Candidate(node, newest.model, 0, start),
        *(
            Candidate(node, state.model, state.rounds_done, start, prefix, run.store.describe(f"{prefix}/model"))
            for state, prefix in saved
        ),
    ]


def _newest(run: Run, node: str, rounds: Sequence[int]) -> NodeState:
    """Reads the newest checkpoint that can be read. Raises CheckpointError: none can, and why the newest cannot."""
    wrong: CheckpointError | None = None
    for rounds_done in reversed(rounds):
        try:
            return _read_state(run, node, rounds_done)
        except CheckpointError as error:
            wrong = wrong or error
    raise wrong or CheckpointError(f"{node} has no checkpoint")


@contextmanager
def opened(run: Run, candidate: Candidate) -> Iterator[Path | None]:
    """The folder of what training made of a candidate's model, for the block; None: nothing yet.

    Raises CheckpointError: it is gone by now; else as Store.open_bundle does.
    """
    if not candidate.checkpoint:
        yield None
        return
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(run.store.open_bundle(candidate.checkpoint))
        except FileNotFoundError:
            raise CheckpointError("it is gone: its node has newer ones by now, so try once more") from None
        yield folder / "model"


def _read_state(run: Run, node: str, rounds_done: int) -> NodeState:
    prefix = keys.checkpoint(rounds_done, node)
    where = run.store.describe(prefix)
    try:
        state = read_form(run.store, f"{prefix}/node.json", NodeState)
    except ProtocolError as error:
        raise CheckpointError(f"{error}; move the checkpoint away to examine the one before") from None
    if state is None:
        raise CheckpointError(f"{where}: expected a node.json, got none; move the checkpoint away")
    if (state.node_id, state.rounds_done) != (node, rounds_done):
        raise CheckpointError(
            f"{where}: expected that of {node} after {rounds_done} rounds, got that of {quoted(state.node_id)} after "
            f"{state.rounds_done}; move it away"
        )
    return state


def answers_of(
    generator: Generator,
    questions: Sequence[Question],
    samples: int,
    seed: tuple[int, str, *tuple[str, ...]],
    scorer: Scorer | None,
) -> list[tuple[Completion, ...]]:
    """Returns so many completions to each question, in one go. Blocking, in a worker thread of the scorer's loop.

    Args:
        seed: as of derive_seed; of later turns it has their number behind it.
        scorer: replies to the model; not needed where no question converses.
    """
    prompts = [question.prompt for question in questions]
    first_turns = generator.generate(prompts, group_size=samples, seed=derive_seed(*seed))
    talks = Conversations(questions, first_turns)
    while asked := talks.to_reply_to():
        assert scorer
        replies = {
            number: from_thread.run(scorer.reply, questions[number].known_origin(), texts).replies
            for number, texts in asked.items()
        }
        if dialogues := talks.hear(replies):
            talks.say(generator.generate(dialogues, group_size=1, seed=derive_seed(*seed, talks.turn)))
    return talks.groups


EXAM_SEED = 20_250_921
"""Changing it makes another exam, whose results compare with none of before."""
Paper = Mapping[str, Sequence[Question]]
"""Task -> its questions."""
Answers = Mapping[str, Sequence[tuple[Completion, ...]]]
"""Task -> the completions to each of its questions, of one stage."""


async def make_paper(scorer: Scorer, profiles: Mapping[str, str], questions: int) -> Paper:
    """Returns the exam's first so many questions of each task; more of them begin with the same ones.

    Args:
        profiles: task, by its full name -> profile.
    """
    return {
        task: await scorer.make(
            [
                QuestionRequest.named(task, profile, held_out_seed(EXAM_SEED, "exam", profile, task, number))
                for number in range(questions)
            ]
        )
        for task, profile in profiles.items()
    }


async def examine(
    candidates: Sequence[Candidate],
    paper: Paper,
    scorer: Scorer,
    settings: Settings,
    *,
    samples: int = 1,
    opened: Callable[[Candidate], AbstractContextManager[Path | None]] = lambda candidate: nullcontext(None),
    on_model: Callable[[str], None] = lambda model: None,
    leave_out: Callable[[str], None] = lambda why: None,
) -> list[ExamRow]:
    """Let every candidate sit the exam; a model that several nodes share sits it once.

    Args:
        candidates: which models, and whose they are.
        settings: how to load and sample: device, threads, temperature, length limit.
        samples: completions per question; pass@1 and rewards are means over all of them.
        opened: the folder of what training made of a candidate's model, for a block; None: nothing.
        on_model: called with the name or path of each model before it is loaded.
        leave_out: told of each model that cannot be loaded or used, and why; its nodes have no rows.

    Raises:
        CheckpointError, ModelError: no node can be examined.
        ScoringError: no scoring child can be kept alive.
    """
    results: dict[str, list[dict[str, list[GroupScore]]]] = {}
    errors: dict[str, SwarmError] = {}
    for model, candidate in {candidate.source: candidate for candidate in candidates}.items():
        on_model(model)
        try:
            with opened(candidate) as trained:
                stages = await to_thread.run_sync(answer, candidate.start, trained, paper, settings, samples, scorer)
        except (CheckpointError, ModelError, ProtocolError) as error:  # the boundary of one model, a stranger's perhaps
            errors[model] = error
            continue
        results[model] = [
            {task: await score_all(scorer, paper[task], answers[task]) for task in paper} for answers in stages
        ]
    failed = {candidate.node_id for candidate in candidates if candidate.source in errors}
    examined = [candidate for candidate in candidates if candidate.node_id not in failed]
    if not examined and errors:
        raise next(iter(errors.values()))
    for model, why in errors.items():
        leave_out(f"{model}: {why}")
    return [
        _row(candidate, task, stage, scores[task])
        for candidate in examined
        for stage, scores in enumerate(results[candidate.source])
        for task in paper
    ]


def answer(
    model: str, trained: Path | None, paper: Paper, settings: Settings, samples: int, scorer: Scorer | None = None
) -> list[Answers]:
    """Load a model and let it answer everything, stage by stage and a task in one go. Blocking, in a thread of the
    scorer's loop.

    Args:
        trained: what a training made of it, anybody's, as of load_generator.
        scorer: replies to the model; not needed where no task converses.
    """
    from swarm.policy.policy import load_generator
    from swarm.policy.settings import grpo_config, loading_options

    settings = replace(settings, model=(model,))
    generator = load_generator(model, grpo_config(settings), trained=trained, **loading_options(settings))
    stages: list[Answers] = []
    for stage in range(settings.max_stages):
        purpose = ("exam answers", f"stage {stage}") if stage else ("exam answers",)
        asked = (
            {task: _asked_again(paper[task], stages[-1][task], stage, settings) for task in paper} if stage else paper
        )
        stages.append(
            {
                task: answers_of(generator, questions, samples, (EXAM_SEED, *purpose, task), scorer)
                for task, questions in asked.items()
            }
        )
    return stages


def _asked_again(
    questions: Sequence[Question], answers: Sequence[tuple[Completion, ...]], stage: int, settings: Settings
) -> list[Question]:
    """Returns each with the model's own answers of the stage before."""
    rules = revising(settings.revise, settings.profile)
    own = [
        RolloutGroup("examined", 0, stage - 1, number, question, completions)
        for number, (question, completions) in enumerate(zip(questions, answers, strict=True))
    ]
    return [revised(question, [group], stage, rules) for question, group in zip(questions, own, strict=True)]


async def score_all(
    scorer: Scorer, questions: Sequence[Question], answers: Sequence[tuple[Completion, ...]]
) -> list[GroupScore]:
    """Returns the scores of groups of completions, a question each; at the same time: what waits together shares a
    child."""
    scores: dict[int, GroupScore] = {}

    async def score(number: int, question: Question) -> None:
        scores[number] = await scorer.score(question.known_origin(), question.prompt, answers[number])

    async with anyio.create_task_group() as tasks:
        for number, question in enumerate(questions):
            tasks.start_soon(score, number, question)
    return [scores[number] for number in range(len(questions))]


def _row(candidate: Candidate, task: str, stage: int, scores: Sequence[GroupScore]) -> ExamRow:
    rewards = [reward for score in scores for reward in score.rewards]
    samples = len(rewards) // len(scores)
    right = [sum(reward >= FULL_ANSWER for reward in score.rewards) for score in scores]
    return ExamRow(
        node_id=candidate.node_id,
        model=candidate.model,
        rounds_done=candidate.rounds_done,
        task=task,
        n=len(scores),
        pass_at_1=fmean(reward >= FULL_ANSWER for reward in rewards),
        mean_reward=fmean(rewards),
        answered=fmean(flag for score in scores for flag in score.answered),
        samples=samples,
        stage=stage or UNSET,
        **{f"pass_at_{k}": fmean(pass_at(k, one, samples) for one in right) for k in PASS_AT if k <= samples},
    )


def pass_at(k: int, right: int, samples: int) -> float:
    """Estimates without bias how likely k completions to a question hold a right one, if `right` of `samples` are.

    Source: arXiv:2107.03374, equation 1.
    """
    return 1 - comb(samples - right, k) / comb(samples, k)
