"""The figure of a run's reward over its rounds, drawn as in the SAPO paper: one line per agent, and their mean with
a moving average and the band from the worst to the best agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from statistics import fmean
from typing import Any

from swarm.errors import ConfigError, StoreError
from swarm.extras import lacking

_SUFFIXES = (".png", ".svg")
LONGEST_WINDOW = 100
"""Rounds of the paper's moving average; a shorter run takes a tenth of its rounds."""


def save_reward_plot(rewards: Mapping[str, Mapping[int, float]], path: Path) -> None:
    """Draw node -> round -> reward to a PNG or SVG file, as its suffix says.

    Raises:
        ConfigError: no rewards, another suffix, or matplotlib is not installed.
        StoreError: the file cannot be written.
    """
    if path.suffix.lower() not in _SUFFIXES:
        raise ConfigError(f"a plot's file name must end in {' or '.join(_SUFFIXES)}, got {path.name!r}")
    curves = {node: of_node for node, of_node in sorted(rewards.items()) if of_node}
    if not curves:
        raise ConfigError("there is nothing to plot: no node has finished a round yet")
    figure = _figure()
    agents, mean = figure.subplots(2, 1, sharex=True, sharey=True)
    _draw_agents(agents, curves)
    _draw_mean(mean, curves)
    drawn = BytesIO()
    figure.savefig(drawn, format=path.suffix.lower()[1:])
    try:
        path.write_bytes(drawn.getvalue())
    except OSError as error:
        raise StoreError(
            f"cannot write the plot {path}: {error.strerror or error}; name a file in a folder that is writable"
        ) from None


def moving_average(values: Sequence[float], window: int) -> list[float]:
    """Returns mean of the last `window` values at each place; of those there are, at the start."""
    return [fmean(values[max(0, end - window) : end]) for end in range(1, len(values) + 1)]


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure  # slow to import, and only in the extra
    except ImportError:
        raise lacking("a plot", "matplotlib", "analysis") from None
    return Figure(figsize=(9, 7), dpi=120, layout="constrained")


def _draw_agents(axes: Any, curves: Mapping[str, Mapping[int, float]]) -> None:
    for node, curve in curves.items():
        rounds = sorted(curve)
        axes.plot(rounds, [curve[r] for r in rounds], label=node, linewidth=1)
    axes.set(title="Reward per agent", ylabel="mean reward")
    if len(curves) <= 12:
        axes.legend(fontsize="small")


def _draw_mean(axes: Any, curves: Mapping[str, Mapping[int, float]]) -> None:
    rounds = sorted({number for curve in curves.values() for number in curve})
    rewards = [[curve[number] for curve in curves.values() if number in curve] for number in rounds]
    window = min(LONGEST_WINDOW, max(1, len(rounds) // 10))
    means = [fmean(values) for values in rewards]
    axes.fill_between(rounds, [min(v) for v in rewards], [max(v) for v in rewards], alpha=0.2, label="min to max")
    axes.plot(rounds, means, linewidth=0.6, alpha=0.6, label="mean over agents")
    axes.plot(rounds, moving_average(means, window), linewidth=2, label=f"moving average over {window} rounds")
    axes.set(title="Agent-averaged reward", xlabel="round", ylabel="mean reward")
    axes.legend(fontsize="small")
