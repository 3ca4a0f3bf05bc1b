"""What the lab asks of each update, the objectives of control runs, and what tasks pay to who does not think."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from swarm.algo.bounds import Floors, strictest
from swarm.algo.losses import LossInputs, LossSettings
from swarm.cli.main import run as swarm
from swarm.config import Settings
from swarm.plugins.lab.control_losses import cloning
from swarm.plugins.lab.settings import LabSettings
from swarm.policy.parts import UpdateOptions, options_of
from swarm.policy.settings import grpo_config
from tests.unit.test_config import load, refusal

MEASURING = {"adaptive": True, "adaptive_rule": "supply-measured"}


def test_the_gradient_is_taken_in_halves_where_that_is_asked_for_or_the_rule_needs_it() -> None:
    def halved(settings: Settings) -> bool:
        assert options_of(settings).halves == grpo_config(settings).options.halves
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
    assert grpo_config(bounded).options == options_of(bounded)
    assert options_of(bounded).bounds_tokens
    assert not options_of(load()).bounds_tokens
    assert bounded.of(LabSettings).external_reasoning == "answer"
    assert bounded.as_recorded() | {"external_reasoning": "whole"} != bounded.as_recorded()


def test_of_several_floors_the_strictest_counts() -> None:
    assert strictest([Floors(), Floors(-5.0, None), Floors(-3.0, -1.0)]) == Floors(-3.0, -1.0)
    assert strictest([Floors(), Floors()]) == Floors()


def test_cloning_learns_peers_right_texts_by_their_likelihood_and_nothing_else() -> None:
    logprob_M = torch.tensor([-1.0, -2.0, -3.0, -4.0], requires_grad=True)
    inputs = LossInputs(
        logprobs=logprob_M,
        old_logprobs=logprob_M.detach(),
        reference_logprobs=None,
        advantages=torch.tensor([1.0, 2.0, -1.0, 0.0]),
        own=torch.tensor([True, False, False, False]),
        weights=None,
        completion=torch.arange(4),
        lengths=torch.ones(4),
    )
    losses = cloning(inputs, LossSettings())
    (gradient_M,) = torch.autograd.grad(losses.loss.sum(), logprob_M)
    assert gradient_M.tolist() == [0, -1, 0, 0], "own, right text of a peer, wrong one, one without an advantage"


@pytest.mark.parametrize(("dataset", "pays"), [("syllogism", True), ("coin_flip", False)])
def test_a_task_that_pays_a_constant_in_full_is_named_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dataset: str, pays: bool
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f'[tasks.asked]\ngym = "{dataset}"\n')
    assert swarm(["task", "audit", "asked", "--questions", "6", "--config", str(file)]) == pays
    assert ("problem: asked pays who does not think" in capsys.readouterr().out) is pays
