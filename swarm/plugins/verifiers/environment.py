"""The library's objects of one task, and which environments are refused before anything is played.

    definition ─▶ configuration of environment and taskset ─▶ Env (its own, or of a single agent) ─▶ OpenedEnvironment
                  as `verifiers eval` reads them              one agent, which is the model

Refused is what an episode would need beside the turns of one model: tools, a container, a judge, other agents, a
program that plays for the agent, hooks inside of it.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any, NamedTuple

from swarm.errors import ConfigError
from swarm.plugins.verifiers.definition import VerifiersDefinition
from swarm.tasks.definitions import malformed
from swarm.types import MOST_TURNS


class OpenedEnvironment(NamedTuple):
    """An environment that can be asked."""

    definition: VerifiersDefinition
    module: Any
    """The package that exports it."""
    env: Any
    """verifiers.v1.Env."""
    role: str
    """The name of its agent."""
    most_turns: int | None
    """Turns of that agent; None: nobody says."""


def library() -> Any:
    """verifiers.v1."""
    return import_module("verifiers.v1")


def open_environment(definition: VerifiersDefinition) -> OpenedEnvironment:
    """Import it and make its objects. Raises ConfigError saying why it cannot be a task."""
    try:
        vf = library()
        module = vf.import_taskset(definition.id)
        _refuse_older(definition, module)
        config = vf.resolve_env_config({**definition.env, "taskset": {**definition.args, "id": definition.id}})
        env = vf.load_environment(config)
        harness = vf.default_harness_id(definition.id)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary: somebody's package may raise anything
        raise refused(definition, f"cannot be had: {said(error)}") from None
    roles = {name: value for name, value in config if isinstance(value, vf.AgentConfig)}
    for problem, there in _problems(env, roles, harness).items():
        if there:
            raise refused(definition, problem)
    ((role, agent),) = roles.items()
    return OpenedEnvironment(definition, module, env, role, _turns(definition, agent.max_turns))


def _refuse_older(definition: VerifiersDefinition, module: Any) -> None:
    if hasattr(module, "load_environment") and not hasattr(module, "__all__"):
        raise refused(
            definition,
            "is an environment of verifiers before 0.4 (load_environment), which 0.4 does not load either; take a "
            "version of the package that exports a Taskset",
        )


def _problems(env: Any, roles: dict[str, Any], harness: str) -> dict[str, bool]:
    """Returns the reasons why it cannot be asked, each with whether it holds."""
    task = type(env.taskset).task_type()
    config = env.config.taskset.task
    return {
        f"has {len(roles)} agents ({', '.join(roles)}), and a swarm's model is one: other models would judge or play": (
            len(roles) != 1
        ),
        f"brings a program for its agent ({harness}), and a swarm's model just answers": harness != "bash",
        "needs a container": bool(task.NEEDS_CONTAINER),
        "has tools, and a swarm's model has none": bool(
            task.toolsets(config) or type(env.taskset).toolsets(env.taskset.config)
        ),
        "has judges, which are models themselves: no two nodes would give the same reward": bool(config.judges),
        "stops or changes turns by hooks (@vf.stop, @vf.intercept), which are the agent's program's": bool(
            _marked(task, "stop") or _marked(task, "intercept") or config.stops
        ),
    }


def _marked(task: Any, mark: str) -> list[str]:
    return [name for name, value in inspect.getmembers(task) if callable(value) and hasattr(value, mark)]


def _turns(definition: VerifiersDefinition, agents: int | None) -> int | None:
    """Raises ConfigError: the agent has more turns than a conversation."""
    if agents is not None and not definition.turns and agents > MOST_TURNS:
        raise refused(definition, f"has {agents} turns, a conversation up to {MOST_TURNS}: say turns")
    return definition.turns or agents


def refused(definition: VerifiersDefinition, problem: str) -> ConfigError:
    """Returns the error of an environment that cannot be asked."""
    return malformed(definition.name, f"the environment {definition.id} {problem}")


def said(error: BaseException) -> str:
    """Returns in words what was raised, and by what."""
    cause = error.__cause__
    return f"{type(error).__name__}: {' '.join(str(error).split()):.300}" + (
        f" ({said(cause)})" if cause is not None else ""
    )
