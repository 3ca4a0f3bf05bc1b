"""The benchmarks' own arithmetic, their result files, and that docs/speed.md says what those say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from benchmarks import table
from benchmarks.adapter_learning import compared, earlier
from benchmarks.common import RESULTS, card_name, log_slope
from benchmarks.genrl_gap import failures, momentum_displacements
from benchmarks.gpu import Case, decode_bytes, training_flops
from benchmarks.models import Shape
from benchmarks.task_audit import Row, markdown

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "speed.md"
RESULT_FILES = sorted(RESULTS.glob("*.json"))


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_the_slope_is_the_exponent_of_a_power(exponent: float) -> None:
    sizes = [1, 2, 4, 8]
    assert log_slope(sizes, [3 * size**exponent for size in sizes]) == pytest.approx(exponent)


def test_decoding_reads_the_weights_once_per_step_and_every_row_its_cache() -> None:
    shape = Shape(hidden=8, layers=3, heads=4, kv_heads=2, intermediate=16, vocabulary=32)
    case = Case(prompts=1, group_size=2, prompt_tokens=5, completion_tokens=3)
    weights = 100
    cache = 2 * (3 * 2 * 2) * 2 * ((5 + 1) + (5 + 2))  # K and V x (layers x kv heads x head size) x bytes x positions
    assert decode_bytes(shape, weights, case) == 2 * 2 * weights + 2 * cache


def test_training_flops_are_six_per_weight_and_token_and_those_of_attention() -> None:
    shape = Shape(hidden=8, layers=3, heads=4, kv_heads=2, intermediate=16, vocabulary=32)
    case = Case(prompts=1, group_size=2, prompt_tokens=4, completion_tokens=2)
    pairs = 4 * 4 / 2 + 2 * (4 * 2 + 2 * 2 / 2)
    assert training_flops(shape, 100, case) == 6 * 100 * (4 + 2 * 2) + 12 * 3 * 8 * pairs


def test_displacements_by_momentum_are_those_of_adam() -> None:
    weight = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    adam, places = torch.optim.Adam([weight], lr=1.0, eps=0.0), []
    for gradient in [1.0, *[0.0] * 5]:
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
        adam.step()
        places.append(weight.item())
    assert momentum_displacements(5) == pytest.approx([place / places[0] - 1 for place in places[1:]])


def genrl_result(**changed: Any) -> dict[str, Any]:
    """The kept comparison, with other values by dotted path."""
    result: dict[str, Any] = json.loads((RESULTS / "genrl_gap_cpu.json").read_text())
    for path, value in changed.items():
        *parents, name = path.split("__")
        inner = result
        for parent in parents:
            inner = inner[parent]
        assert name in inner
        inner[name] = value
    return result


def test_the_kept_comparison_with_genrl_holds_what_it_claims() -> None:
    assert failures(genrl_result()) == []


@pytest.mark.parametrize(
    ("path", "value", "claim"),
    [
        ("gradient__population_std__gap", 1e-4, "at most"),
        ("gradient__right_padded__gap", 5.0, "narrows"),
        ("gradient__right_padded__tokens", 363, "one token less"),
        ("gradient__end_of_text__tokens", 299, "as many as ours"),
        ("gradient__end_of_text__gap", 0.07, "standard deviation"),
        ("advantages__ratio_min", 1.0, "advantages"),
        ("empty_rounds__genrl_steps", 1, "genrl steps"),
        ("empty_rounds__genrl_gradient", 1e-9, "gradient is 0"),
        ("empty_rounds__genrl_all_right", [0.0] * 5, "genrl moves"),
        ("empty_rounds__genrl_all_wrong", [0.1] * 5, "all rewards are 0"),
        ("empty_rounds__step", [0.0] * 5, "step moves"),
        ("empty_rounds__skip", [0.67, 1.19, 1.61, 1.97, 2.28], "skip moves"),
        ("empty_rounds__weights_gap", 0.5, "stay together"),
    ],
)
def test_a_claim_about_genrl_that_does_not_hold_is_named(path: str, value: Any, claim: str) -> None:
    (failure,) = failures(genrl_result(**{path: value}))
    assert claim in failure


def test_the_page_says_what_the_result_files_say() -> None:
    assert card_name("NVIDIA H100 80GB HBM3") == "cuda_nvidia-h100-80gb-hbm3"
    text = PAGE.read_text()
    assert table.replaced(text, table.table()) == text, "run: python -m benchmarks.table --write docs/speed.md"


@pytest.mark.parametrize("file", RESULT_FILES, ids=lambda file: file.name)
def test_every_result_file_says_what_it_was_measured_on(file: Path) -> None:
    result = json.loads(file.read_text())
    assert {"cpu", "cores", "torch", "python", "swarm"} <= result["machine"].keys()
    assert file.name == f"{result['benchmark']}_{result['device']}.json"
    assert result["command"].startswith("python -m benchmarks.")
    assert "--quick" not in result["command"]


def learned(*rewards: float) -> dict[str, dict[str, float]]:
    return {str(seed): {"cumulative_reward": reward} for seed, reward in enumerate(rewards)}


def test_the_share_of_full_fine_tuning_is_a_ratio_of_means_with_the_interval_of_its_pairs() -> None:
    lucky_and_not = [10.0, 20.0, 30.0]
    shares = compared({"full": learned(*lucky_and_not), "lora": learned(*(0.9 * reward for reward in lucky_and_not))})
    assert shares["lora"]["share_of_full"] == pytest.approx({"mean": 0.9, "low": 0.9, "high": 0.9})
    assert shares["full"]["cumulative_reward"]["mean"] == 20.0
    assert shares["lora"]["seeds"] == 3


def test_runs_of_a_side_whose_settings_changed_are_made_again(tmp_path: Path) -> None:
    file, full, old, new = tmp_path / "result.json", dict[str, str](), {"RANK": "8"}, {"RANK": "16"}
    runs = {"full": learned(1.0), "lora": learned(2.0), "other": learned(3.0)}
    file.write_text(json.dumps({"model": "m", "sides": {"full": full, "lora": old, "other": old}, "runs": runs}))
    sides, kept = earlier(file, {"model": "m"}, {"full": full, "lora": new})
    assert kept == {"full": learned(1.0), "other": learned(3.0)}
    assert sides == {"full": full, "other": old}
    assert earlier(file, {"model": "another"}, {"full": full}) == ({}, {})


def test_the_table_of_all_datasets_is_that_of_the_kept_rows() -> None:
    kept = json.loads((RESULTS / "task_audit_cpu.json").read_text("utf-8"))["datasets"]
    page = (RESULTS / "task_audit_cpu.md").read_text("utf-8")
    assert markdown([*msgspec.convert(kept, dict[str, Row]).values()]) in page
