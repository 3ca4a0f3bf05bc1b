"""What a config.json names against the weights beside it."""

from __future__ import annotations

from typing import Any

import pytest

from swarm.policy.model_files import sizes_problem

SHAPES = [(512, 64), (64, 64), (64,), (64, 172)]
HONEST = {"vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2, "n_inner": None}


@pytest.mark.parametrize("config", [HONEST, {"text_config": HONEST}, {}, HONEST | {"max_position_embeddings": 131_072}])
def test_sizes_that_the_weights_have_are_taken(config: dict[str, Any]) -> None:
    assert not sizes_problem(config, SHAPES)


@pytest.mark.parametrize(
    "wrong",
    [
        {"hidden_size": "x"},
        {"hidden_size": True},
        {"hidden_size": 64.0},
        {"hidden_size": [64]},
        {"num_attention_heads": -1},
        {"vocab_size": 40_000_000},
        {"num_hidden_layers": 2_000_000},
        {"n_positions": 2**40},
        {"text_config": {"vocab_size": 513}},
        {"text_config": "x" * 10**6},
    ],
    ids=str,
)
def test_sizes_that_no_weight_explains_are_named(wrong: dict[str, Any]) -> None:
    problem = sizes_problem(HONEST | wrong, [*SHAPES, (10**12, 0)])
    assert next(reversed(wrong)) in problem or "vocab_size" in problem
    assert len(problem) < 300
