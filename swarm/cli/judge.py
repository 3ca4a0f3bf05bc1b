"""`swarm judge`: held-out questions, one to every node each round, or as an exam of trained models.

`run` is the judge daemon in the foreground; `python -P -m services.judge` is the same. `exam` examines models before
and after their training, on one frozen set of questions.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, NamedTuple

import anyio
import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number
from msgspec import UNSET

from swarm.cli.ask import FEW
from swarm.cli.flags import CommonFlags, open_experiment, open_experiment_when_there, settings_from, settings_to_look
from swarm.cli.node import experiment_in, with_tasks_of
from swarm.cli.say import say, warn
from swarm.config import JUDGE, Settings
from swarm.errors import (
    CheckpointError,
    ConfigError,
    ModelError,
    ProtocolError,
    StoreError,
    SwarmError,
)
from swarm.harmless import printable
from swarm.judge.exam import Candidate, candidates, examine, make_paper, opened
from swarm.judge.judge import Judge
from swarm.judge.questions import questions_of, with_stages_of
from swarm.logs import NodeLog, configure_logging, get_logger
from swarm.node.process.daemon import run_loop
from swarm.node.process.system import ThreadBlocking, on_signals
from swarm.policy.hub import own_model
from swarm.policy.model_files import local_folder
from swarm.records.files import read_exam, read_experiment, read_form
from swarm.store.folder.publish import publish_own
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.systems import require_for
from swarm.tasks.registry import NO_TASKS
from swarm.tasks.scoring import Scorer
from swarm.views.studies import reader_of
from swarm.views.text import shorten, table
from swarm.wire import keys
from swarm.wire.judge_messages import PASS_AT, ExamRow
from swarm.wire.messages import ExperimentFile

logger = get_logger(__name__)

DEFAULT_QUESTIONS = 16
WRITER = "exam"


def run(*, experiment_flags: CommonFlags | None = None) -> int:
    """Ask every node of an experiment one held-out question per round, and record what the answers are worth.

    It may be started before or during the run, and again after a stop; it ends when the experiment does. Before there
    is such an experiment it waits, and says so.
    """
    require_for("`swarm judge run`")
    settings = settings_to_look(experiment_flags)
    open_experiment_when_there(settings)  # a judge makes none, whose name may be a slip
    run = open_experiment(settings, JUDGE)
    opened = run.store.open_log
    if experiment := experiment_in(run, None):
        settings = with_tasks_of(run, experiment, settings)
    files = NodeLog(JUDGE, partial(opened, keys.events(JUDGE)), partial(opened, keys.stdout(JUDGE)))
    try:
        with configure_logging([files], level=settings.log_level):
            logger.info("judge.starting", path=settings.place, experiment=settings.experiment, pid=os.getpid())
            return run_loop(_judge, settings, run)
    except SwarmError as error:
        return error.exit_code  # it is in the log, on the terminal and in the folder


async def _judge(settings: Settings, run: Run) -> int:
    own = settings.task_table or NO_TASKS
    async with (
        Scorer(settings.scorer_processes, settings.task_families, own) as scorer,
        anyio.create_task_group() as tasks,
    ):
        judge = Judge(settings, run, scorer, ThreadBlocking())
        tasks.start_soon(on_signals, judge.stop)
        code = await judge.run()
        tasks.cancel_scope.cancel()
    return code


def exam(
    *,
    experiment_flags: CommonFlags | None = None,
    study: str | None = None,
    questions: Annotated[int, Parameter(validator=FEW)] = DEFAULT_QUESTIONS,
    samples: Annotated[int, Parameter(validator=FEW)] = 1,
    every: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    output: str | None = None,
) -> None:
    """Examine the newest checkpoint of every node, and the models they started from, on held-out questions.

    Runs of a study whose exam is there already are left out.

    Args:
        study: Examine all finished runs of a study.
        questions: Questions per task.
        samples: Completions per question; with 2 to 32 and more, pass@k for k up to it.
        every: Examine checkpoints after so many rounds, twice as many, ... too; 0: the newest alone.
        output: Where to write the JSON; default: exam.json of the run.
    """
    require_for("`swarm judge exam`")
    sitting = Sitting(questions, samples, every)
    settings = (settings_from if study else settings_to_look)(experiment_flags)
    if study is None:
        open_place(settings.place).require(settings.experiment)
        run = open_experiment(settings, WRITER)
        _refuse_another_start(run, settings)
        _examine(run, settings, sitting, Path(output) if output else None)
        return
    if output:
        raise ConfigError("--output names one file and --study has many runs; leave one of them out")
    problems = []
    for one in _runs(settings, study):
        run = open_experiment(one, WRITER)
        try:
            if _is_there(run, one, sitting):
                say(f"{one.experiment}: examined already")
            else:
                _examine(run, one, sitting, None)
        except (CheckpointError, ModelError) as error:  # the boundary of one run: the others are examined all the same
            say(f"{one.experiment}: {error}")
            problems.append(one.experiment)
    if problems:
        raise CheckpointError(f"not examined: {', '.join(problems)}; the reasons are above")


class _StudyStart(msgspec.Struct, kw_only=True, frozen=True):
    """Holds what a study wrote down of a run before it started it."""

    study: str
    settings: dict[str, Any]
    schema_version: int = 1


def _refuse_another_start(run: Run, settings: Settings) -> None:
    """Checkpoints know the last part of their model's name alone, and two models may share that."""
    try:
        written = read_form(run.store, keys.STUDY_RUN, _StudyStart)
    except ProtocolError as error:  # a stranger's, perhaps
        say(f"whether it is of a study is not known: {error}")
        return
    models = written.settings.get("model") if written else None
    if written and isinstance(models, list) and list(settings.model) != models:
        started = shorten(printable(",".join(map(str, models))), 400)
        raise ModelError(
            f"{run.experiment} started from {started}, as its study_run.json says, and not from "
            f"{','.join(settings.model)}: give MODEL_NAME={started}, or --study {printable(written.study)}"
        )


def _runs(settings: Settings, study: str) -> list[Settings]:
    """Returns the settings of the finished runs, with this machine's device and threads."""
    finished = reader_of(settings.shared_folder, study, warn).finished_runs(settings, study)
    return [_here(_vouched(one, settings), settings) for one in finished]


def _vouched(recorded: Settings, own: Settings) -> Settings:
    """Returns the recorded settings with this user's own families and tasks where both are equal: code counts as the
    user's then."""
    said = {name: getattr(own, name) for name in ("task_families", "task_table")}
    return replace(recorded, **{name: value for name, value in said.items() if value == getattr(recorded, name)})


def _here(one: Settings, settings: Settings) -> Settings:
    """Returns a run's settings with this machine's device, threads and models."""
    models = tuple(_of_record(name, settings) for name in one.model)
    return replace(one, model=models, device=settings.device, threads=settings.threads)


def _of_record(name: str, settings: Settings) -> str:
    """Returns a model that the study's record names, which anybody may have written: a folder of this machine outside
    of the shared one, or as own_model."""
    folder, place = local_folder(name), Path(settings.shared_folder).resolve()
    if folder and not folder.resolve().is_relative_to(place):
        return name
    return own_model(name, settings.model)


class Sitting(NamedTuple):
    questions: int
    """Per task."""
    samples: int
    """Completions per question."""
    every: int
    """Rounds between checkpoints that are examined; 0: the newest alone."""


def _is_there(run: Run, settings: Settings, asked: Sitting) -> bool:
    """The exam in the folder is of these checkpoints, and of this size."""
    try:
        rows = read_exam(run)
    except ProtocolError:
        return False
    wanted = {(one.node_id, one.rounds_done) for one in candidates(run, settings.model, every=asked.every)}
    sizes = {(row.n, row.samples) for row in rows}
    return {(row.node_id, row.rounds_done) for row in rows} == wanted and sizes == {(asked.questions, asked.samples)}


def _examine(run: Run, settings: Settings, asked: Sitting, output: Path | None) -> None:
    who = candidates(run, settings.model, _say_left_out, asked.every)
    rows = run_loop(_sit, run, settings, who, asked)
    written = msgspec.json.format(msgspec.json.encode(rows)) + b"\n"
    if output is None:
        run.store.put(keys.EXAM, written)
    else:
        publish_own(output, written)
    say(f"{run.experiment}: {asked.questions} questions per task, {asked.samples} completions each\n")
    say(f"{render(rows)}\n\n{output or run.store.describe(keys.EXAM)}")


async def _sit(run: Run, settings: Settings, who: Sequence[Candidate], asked: Sitting) -> list[ExamRow]:
    experiment = _experiment(run)
    settings = with_stages_of(experiment, with_tasks_of(run, experiment, settings))
    held_out = questions_of(experiment, settings)
    tasks = settings.task_table or NO_TASKS
    async with Scorer(settings.scorer_processes, settings.task_families, tasks) as scorer:
        paper = await make_paper(scorer, held_out.profiles, asked.questions)
        return await examine(
            who,
            paper,
            scorer,
            settings,
            samples=asked.samples,
            opened=partial(opened, run),
            on_model=lambda model: say(f"examining {model}"),
            leave_out=_say_left_out,
        )


def _say_left_out(why: str) -> None:
    say(f"not examined: {why}")


def _experiment(run: Run) -> ExperimentFile:
    experiment = read_experiment(run)
    if experiment is None:
        file = run.store.describe(keys.EXPERIMENT)
        raise StoreError(f"{file} is missing: nobody knows the experiment's tasks; restore it")
    return experiment


def render(rows: Sequence[ExamRow]) -> str:
    """pass@1, reward and share of answers per node and task, before and after, and each node's mean over tasks; of
    earlier checkpoints the means alone. With several completions to a question pass@k, too, for the largest k.

    pass@1 given answered is pass@1 / answered, since what has no closed `<answer>` is never right; `-` where none has.
    """
    cells, most = [], _largest_k(rows)
    for node, group in groupby(sorted(rows, key=lambda row: row.node_id), key=lambda row: row.node_id):
        of_node = list(group)
        for stage in sorted({row.stage or 0 for row in of_node}):
            in_stage = [row for row in of_node if (row.stage or 0) == stage]
            before = {row.task: row for row in in_stage if row.rounds_done == 0}
            where = f", stage {stage}" if stage else ""
            *earlier, last = sorted({row.rounds_done for row in in_stage if row.rounds_done > 0})
            after = {row.task: row for row in in_stage if row.rounds_done == last}
            cells += [_cells(node, f"{task}{where}", [before[task]], [after[task]], most) for task in after]
            for done in (*earlier, last):
                then = [row for row in in_stage if row.rounds_done == done]
                cells.append(_cells(node, f"all tasks{where}", list(before.values()), then, most))
    measures = ("pass@1", *([f"pass@{most}"] if most else []), "reward", "answered", "pass@1 given answered")
    spans = [span for measure in measures for span in (f"{measure}: before", "after")]
    return table(("node", "task", "rounds", *spans), cells, left=(0, 1))


def _largest_k(rows: Sequence[ExamRow]) -> int:
    """Returns the largest k of which all rows tell pass@k; 0: none."""
    return max((k for k in PASS_AT if all(getattr(row, f"pass_at_{k}") is not UNSET for row in rows)), default=0)


def _cells(node: str, task: str, before: Sequence[ExamRow], after: Sequence[ExamRow], most: int) -> list[str]:
    columns = ("pass_at_1", *([f"pass_at_{most}"] if most else []), "mean_reward", "answered")
    means = [fmean(getattr(row, column) for row in rows) for column in columns for rows in (before, after)]
    given = [
        _figure(passed / answered) if answered else "-" for passed, answered in zip(means[:2], means[-2:], strict=True)
    ]
    return [shorten(node, 24), task, str(after[0].rounds_done), *map(_figure, means), *given]


def _figure(value: float) -> str:
    return f"{value:.3f}"
