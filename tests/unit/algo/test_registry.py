"""Samplers, rules, losses and scalings by name: ours, and a function of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from swarm.algo import advantages, losses, registry, sampling
from swarm.config import ADVANTAGE_SCALINGS, LOSSES, SAMPLERS
from swarm.config.names import LITERAL_RULES
from swarm.config.own_code import OwnCode
from swarm.errors import ConfigError
from tests.unit.algo.factories import make_pool

LOOKED_UP: dict[str, tuple[Callable[[str], Any], Iterable[str], Iterable[str]]] = {
    "sampler": (registry.sampler, SAMPLERS, (sampling.UNIFORM, *sampling.SAMPLERS)),
    "loss": (registry.loss, LOSSES, losses.LOSSES),
    "advantage_scaling": (registry.advantage_scaling, ADVANTAGE_SCALINGS, advantages.SCALINGS),
    "adaptive_rule": (registry.adaptive_rule, LITERAL_RULES, registry.RULES),
}
"""Setting -> what looks it up, the names that the settings know, and ours."""


@pytest.mark.parametrize("setting", LOOKED_UP)
def test_ours_are_found_by_the_names_of_the_settings(setting: str) -> None:
    look_up, names, ours = LOOKED_UP[setting]
    assert set(names) == set(ours)
    assert [name for name in names if look_up(OwnCode(name)) is None] == ["uniform"] * (setting == "sampler")


def test_a_function_of_ones_own_is_found_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "from swarm.algo.losses import TokenLosses, divided_by, per_completion\n"
        "def first(groups, count, rng):\n    return list(groups)[:count]\n"
        "def ranks(rewards):\n    return [sorted(rewards).index(r) for r in rewards]\n"
        "def short(rewards):\n    return [1.0]\n"
        "def plain(batch, settings):\n    return TokenLosses(-batch.advantages * batch.logprobs)\n"
        "reinforce = divided_by(per_completion)(lambda batch, settings: plain(batch, settings))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    pool, counts = make_pool(5), losses.TokenCounts(tokens=100, completions=7, max_new_tokens=20)
    assert registry.sampler(OwnCode("mine:first"))(pool, 2, Random(0)) == pool[:2]  # type: ignore[misc]
    divisors = [
        losses.denominator_of(registry.loss(OwnCode(f"mine:{name}")))(counts) for name in ("plain", "reinforce")
    ]
    assert divisors == [100, 7], "a loss may say by what it is divided"
    ranks, short = (registry.advantage_scaling(OwnCode(f"mine:{name}")) for name in ("ranks", "short"))
    assert advantages.group_advantages((0.5, 0.1, 0.9), ranks) == (1, 0, 2)
    with pytest.raises(ValueError, match="expected 2 finite advantages"):
        advantages.group_advantages((0.0, 1.0), short)


@pytest.mark.parametrize("setting", LOOKED_UP)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module:draw", "No module named 'no_such_module'"),
        ("swarm.algo.sampling:best", "has no attribute 'best'.*name one of "),
        ("swarm.algo.sampling:__name__", "must be a function, got str"),
    ],
)
def test_a_function_that_cannot_be_had_is_refused_by_name(setting: str, name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"^SWARM_{setting.upper()} \({setting}\): '{name}' .*{said}"):
        LOOKED_UP[setting][0](OwnCode(name))
