"""`swarm study run`: a matrix of swarms in one command.

matrix, flags, environment ─resolve─▶ StudyRecord ─▶ study.json ─▶ Runner ─▶ terminal, table, how to go on
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from swarm.cli.before_start import make_ready, say_chosen
from swarm.cli.elsewhere import LOCAL, Elsewhere, ElsewhereFlags, elsewhere_of
from swarm.cli.flags import command_again, flag_words
from swarm.cli.run_flags import setting_parameter
from swarm.cli.say import say
from swarm.config import Settings, sources_of, variable, with_secrets
from swarm.errors import ConfigError
from swarm.plugins.study.cli.study_mirror import bring_back_record, bring_back_runs, mirror_study, refuse_own_place
from swarm.plugins.study.cli.study_places import different, places
from swarm.plugins.study.cli.study_rehearsal import rehearse as rehearse_study
from swarm.plugins.study.cli.study_running import parts, run_all
from swarm.plugins.study.record import StudyRecord, read_study, studies, write_study
from swarm.plugins.study.run.defaults import PROFILE, as_begun, grown, models_of, suited
from swarm.plugins.study.run.launch import Launcher, LocalBackend
from swarm.plugins.study.run.matrix import Matrix, changed_settings, ignored_settings, resolve, shared_settings
from swarm.plugins.study.run.matrix_file import built_in, read_matrix
from swarm.plugins.study.run.reuse import with_finished_elsewhere
from swarm.plugins.study.run.run_folder import progress_of_runs
from swarm.plugins.study.run.runner import alone
from swarm.provenance import versions
from swarm.systems import require_for
from swarm.tasks.universe import check_tasks


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StudyFlags:
    """Declares what a study runs, on top of its matrix."""

    name: Annotated[str | None, Parameter(help="Name of the study; the matrix's if not given.")] = None
    path: Annotated[str | None, Parameter(help="The shared folder.")] = None
    mirror: Annotated[str | None, setting_parameter("mirror")] = None
    config: Annotated[str | None, Parameter(help="TOML file of settings for all runs.")] = None
    rounds: Annotated[int | None, Parameter(help="Rounds of each run.")] = None
    nodes: Annotated[int | None, Parameter(help="Workers of each swarm.")] = None
    seeds: Annotated[str | None, Parameter(help="Seeds separated by commas, or how many: 5 is 1,2,3,4,5.")] = None
    model: Annotated[str | None, Parameter(help="Embedded name, local path or Hugging Face id.")] = None
    learning_rate: Annotated[float | None, Parameter(help="Step size of Adam.")] = None
    jobs: Annotated[int | None, Parameter(help="Swarms at a time; one per core if not given, all with --on slurm.")] = (
        None
    )
    adapter: Annotated[
        str | None, Parameter(help="Train small matrices beside frozen weights: lora, or none; a part of the study.")
    ] = None
    judge: Annotated[bool | None, Parameter(help="A judge asks every node a held-out question each round.")] = None


def run(
    matrix: Annotated[str, Parameter(help="sapo, five-node, thesis, adaptive, samplers, or a TOML file of your own.")],
    /,
    *,
    dry_run: Annotated[bool, Parameter(help="Say what would be run, and start nothing.")] = False,
    rehearse: Annotated[
        bool,
        Parameter(help="Run a few rounds of each configuration, and say how long the study takes; start no more."),
    ] = False,
    cluster: ElsewhereFlags | None = None,
    study_flags: StudyFlags | None = None,
) -> int:
    """Run a study, or go on with it: what is finished is skipped.

    Ctrl-C once: the swarms finish their step and save, exit 130; twice: end at once. The same command goes on. With
    --on slurm each swarm is a job, Ctrl-C leaves them running, and the same command follows them again.
    """
    require_for("`swarm study run`")
    study_flags = study_flags or StudyFlags()
    cluster = cluster or ElsewhereFlags()
    if rehearse and cluster.on not in (None, LOCAL):
        raise ConfigError("--rehearse says how long this machine takes, and --on slurm takes others: leave out one")
    slurm = elsewhere_of(cluster)
    if study_flags.jobs is not None and study_flags.jobs < 1:
        raise ConfigError(f"--jobs must be at least 1, got {study_flags.jobs}")
    chosen = _matrix(matrix, study_flags)
    names = ("path", "mirror", "model", "learning_rate", "adapter")
    given = {name: getattr(study_flags, name) for name in names}
    chosen, shared = as_begun_or_suited(chosen, given, study_flags.config, bring_back=not dry_run)
    if shared.mirror and slurm:
        raise ConfigError("SWARM_MIRROR is for swarms of this machine; for jobs: swarm copy PLACE MIRROR --follow")
    for name in ignored_settings(shared):
        say(f"{variable(name)} is left out: a study decides it for each run")
    again = command_again(["swarm", "study", "run", matrix, *flag_words(cluster)], study_flags)
    judged = bool(study_flags.judge)
    return carry_out(chosen, shared, again, slurm, study_flags.jobs, dry_run=dry_run, rehearse=rehearse, judged=judged)


def carry_out(
    chosen: Matrix,
    shared: Settings,
    again: str,
    slurm: Elsewhere | None = None,
    jobs: int | None = None,
    *,
    dry_run: bool,
    rehearse: bool = False,
    judged: bool = False,
) -> int:
    """Run what is left of the runs of a matrix, or say what that is. Returns the exit code.

    Args:
        shared: the settings that the matrix comes to.
        again: the command that goes on with it.
    """
    folder = shared.shared_folder
    asked = resolve(chosen, shared, judged=judged, created_at=time.time(), versions=versions(shared))
    _check(asked, folder, shared.hub_token, here=slurm is None)
    asked = msgspec.structs.replace(asked, command=again)
    if dry_run:
        _show_dry_run(_whole(folder, asked), folder, slurm, jobs, shared.hub_token)
        return 0
    with alone(folder, chosen.name):
        if shared.mirror and chosen.name in studies(folder):
            bring_back_runs(shared, read_study(folder, chosen.name))
        record = _whole(folder, asked)
        # before anything is written
        at_once = jobs or len(record.runs) if slurm else places(record, folder, jobs, shared.hub_token)
        if rehearse:
            return rehearse_study(record, folder, at_once, versions(shared), shared, models_of(chosen, shared))
        write_study(folder, record)
        if shared.mirror:
            mirror_study(shared, record.study)
        backend = slurm or LocalBackend()
        environ = with_secrets(os.environ, shared)
        launcher = Launcher(record, folder, environ, versions(shared), backend, str(shared.mirror or ""))
        return run_all(launcher, at_once, shared.cadence.liveness_timeout, again, slurm)


def as_begun_or_suited(
    matrix: Matrix, given: Mapping[str, Any], config: str | None, *, bring_back: bool
) -> tuple[Matrix, Settings]:
    """Returns a new study with what suits its models; one that is there with what it was begun with, which is said.

    Args:
        bring_back: one that only the mirror has is copied from there first.
    """
    named = sources_of(given, os.environ, config)

    def load(one: Matrix) -> Settings:
        return shared_settings(one, given, os.environ, config)

    new = suited(matrix, load(matrix), named)
    shared = load(new)
    if shared.mirror:
        refuse_own_place(shared)
        if bring_back:
            bring_back_record(shared, matrix.name)
    if matrix.name not in studies(shared.shared_folder):
        if new.settings.get(PROFILE) != matrix.settings.get(PROFILE):
            say_chosen(models_of(new, shared))
        return new, shared
    there = read_study(shared.shared_folder, matrix.name)
    begun = as_begun(matrix, there)
    begun = suited(begun, load(begun), named, there)
    _say_what_stays(matrix.name, load(begun), shared)
    return begun, load(begun)


def _say_what_stays(study: str, begun: Settings, new: Settings) -> None:
    before, now = changed_settings(begun), changed_settings(new)
    for name in sorted({*before, *now}):
        was, is_now = begun.value(name), new.value(name)
        if was != is_now:
            say(f"{study} goes on with {name} = {was}, as it was begun; a new study would have {is_now}")


def _matrix(name: str, flags: StudyFlags) -> Matrix:
    """Returns a matrix with what the flags say instead."""
    seeds = None if flags.seeds is None else seeds_of(flags.seeds)
    given: dict[str, Any] = {"name": flags.name, "rounds": flags.rounds, "nodes": flags.nodes, "seeds": seeds}
    matrix = read_matrix(Path(name)) if name.endswith(".toml") else built_in(name)
    return replace(matrix, **{field: value for field, value in given.items() if value is not None})


def seeds_of(text: str) -> tuple[int, ...]:
    """`1,2,7` as they are, `3` as 1, 2, 3; `7,` is seed 7 alone.

    Raises:
        ConfigError: it is neither.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words if word) or not words[0]:
        raise ConfigError(f"--seeds must be whole numbers separated by commas, or how many, got {text!r}")
    return tuple(int(word) for word in words if word) if "," in text else tuple(range(1, int(text) + 1))


def _whole(folder: Path, asked: StudyRecord) -> StudyRecord:
    """Returns the study as it is from now on: the one that is there with what is asked for on top."""
    there = asked.study in studies(folder)
    whole = grown(read_study(folder, asked.study), asked) if there else asked
    return with_finished_elsewhere(whole, folder, asked.versions)


def _show_dry_run(
    record: StudyRecord, folder: Path, slurm: Elsewhere | None, jobs: int | None, hub_token: str | None
) -> None:
    progress = progress_of_runs(record, folder)
    left = [name for name, done in progress.items() if not done.is_finished(record.rounds)]
    say(f"{record.title}: {len(left)} of {len(record.runs)} runs are to be done, {record.rounds} rounds of each")
    if slurm:
        say(slurm.describe([(str(folder), name, part) for name in left for part in parts(record)]))
    else:
        at_once = places(record, folder, jobs, hub_token)
        say("\n".join(f"  {name}, {progress[name].rounds_done} rounds done" for name in left))
        say(f"{at_once} at a time")
    say("nothing was started or written; the same command without --dry-run does it")


def _check(asked: StudyRecord, folder: Path, hub_token: str | None, *, here: bool) -> None:
    """Refuses what every run would fail with, before anything is written or started.

    Args:
        here: the runs are on this machine.
    """
    runs = different(asked, folder, hub_token)
    for settings in runs:
        check_tasks(settings)
    make_ready(runs, here=here)
