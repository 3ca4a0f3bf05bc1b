"""What the lab asks of each update: which tokens of peers are learned from, and whether the gradient is measured."""

from __future__ import annotations

from swarm.algo.bounds import Floors, strictest
from swarm.config import Settings
from swarm.plugins.lab.settings import LabSettings
from swarm.policy.parts import UpdateOptions, options_of
from swarm.policy.settings import grpo_config
from tests.unit.test_config import load, refusal

MEASURING = {"adaptive": True, "adaptive_rule": "supply-measured"}


def test_the_gradient_is_taken_in_halves_where_that_is_asked_for_or_the_rule_needs_it() -> None:
    def halved(settings: Settings) -> bool:
        assert options_of(settings).halves == grpo_config(settings).gradient_halves
        return options_of(settings).halves

    assert not halved(load())
    assert halved(load({"SWARM_GRADIENT_HALVES": "1"}))
    assert halved(load(**MEASURING))
    assert not halved(load(**MEASURING | {"adaptive_rule": "supply"}))
    assert not halved(load({"SWARM_ADAPTIVE_RULE": "supply-measured", "ADAPTIVE_IJ_ENABLED": "False"}))
    assert "SWARM_GRADIENT_HALVES = False and SWARM_ADAPTIVE_RULE = supply-measured exclude each other" in refusal(
        gradient_halves=False, **MEASURING
    )


def test_bounds_on_peers_tokens_reach_the_trainer() -> None:
    bounded = load(
        {
            "SWARM_EXTERNAL_REASONING": "answer",
            "SWARM_EXTERNAL_LOGPROB_FLOOR": "-5",
            "SWARM_EXTERNAL_NEGATIVE_FLOOR": "0",
        }
    )
    assert options_of(bounded) == UpdateOptions(answers_only=True, floors=Floors(-5.0, 0.0))
    config = grpo_config(bounded)
    assert (config.external_reasoning, config.external_logprob_floor, config.external_negative_floor) == (
        "answer",
        -5.0,
        0.0,
    )
    assert config.bounds_tokens
    assert not grpo_config(load()).bounds_tokens
    assert bounded.of(LabSettings).external_reasoning == "answer"
    assert bounded.as_recorded() | {"external_reasoning": "whole"} != bounded.as_recorded()


def test_of_several_floors_the_strictest_counts() -> None:
    assert strictest([Floors(), Floors(-5.0, None), Floors(-3.0, -1.0)]) == Floors(-3.0, -1.0)
    assert strictest([Floors(), Floors()]) == Floors()
