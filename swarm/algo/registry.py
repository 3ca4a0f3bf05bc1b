"""Functions by the name in the settings: one of ours, or `package.module:function` of the user's own.

    sampler              swarm.algo.sampling.Sampler
    adaptive_rule        a function of RuleSettings that gives a swarm.algo.adaptive_rule.Rule
    loss                 swarm.algo.losses.Loss
    advantage_scaling    swarm.algo.advantages.Scaling

A module of the user's has to be importable by the worker (PYTHONPATH, or installed). It is imported where the user
named it, and never because a place does (swarm.config.own_code).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from swarm import entry_points
from swarm.algo.adaptive_rule import Rule, RuleSettings
from swarm.algo.advantages import SCALINGS, Scaling
from swarm.algo.literal_rules import Gradient, MultiSignal, RewardTrend
from swarm.algo.losses import LOSSES, Loss
from swarm.algo.sampling import SAMPLERS, UNIFORM, Sampler
from swarm.config import ADAPTIVE_RULES, variable
from swarm.config.own_code import load, own_code
from swarm.config.settings import to_type
from swarm.errors import ConfigError

Function = TypeVar("Function", bound=Callable[..., object])
MakeRule = Callable[[RuleSettings], Rule]

RULES: Mapping[str, MakeRule] = {
    "reward-trend": lambda settings: RewardTrend(settings, settings.initial_j),
    "gradient": lambda settings: Gradient(settings, settings.initial_j),
    "multi-signal": lambda settings: MultiSignal(settings, settings.initial_j),
}
"""The core's own; our others are entry points in `swarm.rules`."""


def sampler(name: str) -> Sampler | None:
    """Returns the sampler of that name; None: `uniform`, for which nothing is sampled from a whole pool.

    Raises:
        ConfigError: it is one of the user's own, and cannot be had.
    """
    return None if name == UNIFORM else _named("sampler", name, SAMPLERS)


def adaptive_rule(name: str) -> MakeRule:
    """Returns the function that makes the rule of that name. Raises ConfigError if a plugin's rule, or one of the
    user's own, cannot be had."""
    if name in ADAPTIVE_RULES and name not in RULES:
        return cast(MakeRule, entry_points.needed(entry_points.RULES, name, to_type("adaptive_rule", name)))
    return _named("adaptive_rule", name, RULES)


def loss(name: str) -> Loss:
    """Returns the loss of that name. Raises ConfigError if it is one of the user's own and cannot be had."""
    return _named("loss", name, LOSSES)


def advantage_scaling(name: str) -> Scaling:
    """Returns the scaling of that name. Raises ConfigError if it is one of the user's own and cannot be had."""
    return _named("advantage_scaling", name, SCALINGS)


def _named(setting: str, name: str, ours: Mapping[str, Function]) -> Function:
    if name in ours:
        return ours[name]
    code = own_code(name, f"{variable(setting)} ({setting})", to_type(setting, name))
    try:
        found = load(code)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{variable(setting)} ({setting}): {name!r} cannot be had: {error}; "
            f"name one of {', '.join(ours)}, or a function of a module that this Python can import"
        ) from None
    if not callable(found):
        raise ConfigError(f"{variable(setting)} ({setting}): {name!r} must be a function, got {type(found).__name__}")
    return cast(Function, found)
