"""Before a node is started: what is known to fail is said once, and the models are on this machine.

settings of the nodes ─▶ refuse_unstartable ─▶ bring_models ─▶ processes

Where nobody chooses the difficulty of the questions it is `paper-2` for models that are not embedded, said aloud:

    somebody chose a profile ─────────────────────────────▶ nothing
    the experiment goes on that these settings name ──────▶ its own profile; if a model is embedded, an embedded one's
    a model is embedded ──────────────────────────────────▶ nothing
    else ─────────────────────────────────────────────────▶ `paper-2`

What comes of it lies below all that a person, a file or a preset says. Who joins an experiment takes what that has; a
model that would then be asked questions that were made for others is refused, unless its user names that profile.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from swarm.cli.flags import CommonFlags, as_settings, open_experiment, settings_from
from swarm.cli.say import warn
from swarm.config import Settings, sources_of, variable
from swarm.config.file_names import why_reserved
from swarm.config.own_code import TASK_TABLE
from swarm.config.revising import EMBEDDED_PROFILES
from swarm.config.sources import Given
from swarm.config.sources import given as given_settings
from swarm.errors import ConfigError, ExperimentError, StoreError
from swarm.node.base.experiment import identity_of, is_begun, read_experiment
from swarm.planner.open_files import raise_limit
from swarm.planner.planner import problems, refusal
from swarm.policy.embedded import FOR_OTHERS, all_embedded, any_embedded, made_for
from swarm.policy.hub import fetch, is_hub_id
from swarm.spelling import named
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.tasks.universe import universe_of
from swarm.views.text import shorten

ANY_DEVICE: dict[str, Any] = {"device": None, "precision": "auto", "attention": "auto"}
"""Settings that ask nothing of a device."""
PROFILE = "profile"
TASKS = "tasks"
WRITER = "suiting"
"""Who looks for the experiment; nothing is written by that name."""
MOST_NAMED, LONGEST = 4, 80


def refuse_unstartable(nodes: Iterable[Settings], *, here: bool = True) -> None:
    """Refuse nodes that could not write to their place or load their models.

    Args:
        here: they run on this machine; of another one's devices nothing is known.

    Raises:
        StoreError: nobody can write there.
        ConfigError: no node of this name or role can, from this machine.
        ModelError: a model cannot be had, or a device not be used; all of them, a line each. NoModelError: the same,
            and no hub was asked, so that trying again is of no use.
    """
    known = list(nodes)
    if here:
        raise_limit()
    for name in {node.experiment for node in known}:
        if why := why_reserved(name):
            raise ConfigError(f"{variable('experiment')}: {why}")
    for folder in {node.place for node in known}:
        refuse_place(folder)
    for node in known:
        if node.node_id is not None:
            open_place(node.place).refuse_node(node.node_id, node.role)
    of_workers = [node if here else replace(node, **ANY_DEVICE) for node in known if node.loads_model]
    workers = {_loaded(node): node for node in of_workers}
    if found := dict.fromkeys(problem for node in workers.values() for problem in problems(node)):
        raise refusal(found, (name for node in workers.values() for name in node.model))


def refuse_place(folder: str) -> None:
    """See that nodes could write in a shared place. Raises StoreError."""
    if problem := open_place(folder).problem():
        raise StoreError(f"--path {folder} cannot be used: {problem}; name a place that is writable")


def _loaded(node: Settings) -> tuple[object, ...]:
    """Returns the settings on which it depends whether a node's model can be loaded."""
    return (node.model, node.device, node.precision, node.attention, node.hub_token)


def bring_models(nodes: Iterable[Settings]) -> None:
    """Fetch the models of the hub that this machine has not, visibly. Raises ModelError: one cannot be had."""
    tokens = {name: node.hub_token for node in nodes if node.loads_model for name in node.model}
    for name, token in tokens.items():
        if is_hub_id(name):
            fetch(name, warn, token)


def make_ready(nodes: Iterable[Settings], *, here: bool = True) -> None:
    """Refuses nodes that cannot start, and brings their models. Raises what both raise."""
    known = list(nodes)
    refuse_unstartable(known, here=here)
    bring_models(known)


def suited(
    given_flags: CommonFlags | None,
    environ: Mapping[str, str] = os.environ,
    *,
    own: Mapping[str, Any] | None = None,
    begins: bool = False,
    tells: bool = True,
    **defaults: Any,
) -> Given:
    """Returns setting -> value and where it came from, of what suits the models and nobody chose; the `base` of
    settings_from.

    Args:
        given_flags, environ, own, defaults: as of settings_from.
        begins: the command begins the experiment that is named, or goes on with it.
        tells: say on the terminal what is chosen.

    Raises:
        ConfigError: an unknown or malformed setting.
        ProtocolError: the experiment's file is none of this version's.
    """
    given = given_flags or CommonFlags()
    settings = settings_from(given_flags, environ, own=own, **defaults)
    preset, asked = given_settings(as_settings(given) | dict(own or {}), environ, given.config)
    said = preset | asked
    begun = _of_the_experiment(settings) if begins else {}
    found = {} if PROFILE in said or settings.endpoint is not None else _suited_profile(settings, begun, tells=tells)
    if TASKS not in defaults or TASKS in said:
        return found
    if TASKS in begun:
        return found | {TASKS: begun[TASKS]}
    if PROFILE in said or TASK_TABLE in said or not all_embedded(settings.model):
        return found | {TASKS: (None, "what is asked was chosen")}
    return found


def _suited_profile(settings: Settings, begun: Given, *, tells: bool) -> Given:
    """Returns the profile of the experiment that goes on, or of models that are not embedded; nothing where the default
    suits."""
    made = begun[PROFILE][0] if begun else None
    if any_embedded(settings.model) and (made == settings.profile or made not in EMBEDDED_PROFILES):
        return {}
    if begun and tells:
        warn(f"profile {made}, as {begun[PROFILE][1]} has it")
    elif tells:
        say_chosen(settings.model)
    return {PROFILE: begun[PROFILE]} if begun else {PROFILE: (FOR_OTHERS, "the model, which is not embedded")}


def suited_settings(
    given_flags: CommonFlags | None, *, own: Mapping[str, Any] | None = None, begins: bool = False, **defaults: Any
) -> Settings:
    """Returns the settings for a command that asks what a run would be asked, with `begins` the one that is named.
    Raises ConfigError."""
    base = suited(given_flags, own=own, begins=begins, **defaults)
    return settings_from(given_flags, base=base, own=own, **defaults)


def say_chosen(models: Iterable[str]) -> None:
    """Say which profile was chosen for these models, and why."""
    names = [shorten(name, LONGEST) for name in dict.fromkeys(models)]
    are = "is not an embedded model" if len(names) == 1 else "are no embedded models"
    warn(f"profile {FOR_OTHERS}, because {named(names, MOST_NAMED)} {are} (SWARM_PROFILE chooses another one)")


def refuse_unsuited(settings: Settings, run: Run, profile: object, *, chosen: bool) -> None:
    """Refuse a model that would be asked what was made for others, without anybody having said so.

    The models of the package answer toy questions, which teach others nothing; and they know nothing of real ones.

    Args:
        settings: of a node that joins.
        run: the experiment.
        profile: of the experiment, as somebody wrote it.
        chosen: this node's profile was named; where it is the experiment's, that is consent.

    Raises:
        ExperimentError: names the experiment's profile, the model's own, and what to type.
    """
    if not settings.loads_model or not isinstance(profile, str) or (chosen and settings.profile == profile):
        return
    toys = profile in EMBEDDED_PROFILES
    others = [model for model in settings.model if (made_for(model) in EMBEDDED_PROFILES) != toys]
    if not others or not _asks_by_profile(settings, profile):
        return
    asked, models = shorten(profile, LONGEST), named([shorten(model, LONGEST) for model in others], MOST_NAMED)
    meant = f"if these questions are meant, start this node with --profile {asked} (SWARM_PROFILE)"
    if toys:
        instead = (
            f"give its coordinator --profile {FOR_OTHERS} or the model (--model, MODEL_NAME)"
            f"{', in another --experiment' if is_begun(run) else ''}; or "
        )
        whose = "toy questions for the models of the package"
    else:
        instead, whose = (
            "name the model that is to learn here (--model, MODEL_NAME); or ",
            "no questions for a toy model",
        )
    raise ExperimentError(
        f"the experiment {run.experiment} asks the questions of the profile {asked}, {whose}; {models} would be asked "
        f"those of {made_for(others[0])}: {instead}{meant}"
    )


def _asks_by_profile(settings: Settings, profile: Any) -> bool:
    """Tells whether any question depends on the profile; tasks of one's own are asked as they were defined."""
    try:
        return profile in universe_of(replace(settings, profile=profile)).profiles.values()
    except ConfigError:  # said by who asks them
        return True


def say_for_whom(given_flags: CommonFlags | None, run: Run) -> None:
    """Warns a coordinator that begins an experiment without a word about models which models its questions suit."""
    given = given_flags or CommonFlags()
    said = sources_of(as_settings(given), os.environ, given.config)
    if PROFILE not in said and "model" not in said and read_experiment(run) is None:
        profile = settings_from(given_flags).profile
        warn(
            f"profile {profile}, for the models of the package: for others name --model or --profile {FOR_OTHERS} here"
        )


def _of_the_experiment(settings: Settings) -> Given:
    """An experiment that goes on keeps what it is; nothing where none was begun, or none can be read."""
    try:
        run = open_experiment(settings, WRITER)
        experiment = read_experiment(run)
        if experiment is None or not is_begun(run):
            return {}
    except StoreError:
        return {}
    identity = identity_of(experiment)
    source = f"the experiment {run.experiment}"
    return {name: (identity.get(name), source) for name in (PROFILE, TASKS)} if identity.get(PROFILE) else {}
