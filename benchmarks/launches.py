"""How many operations does a GPU launch, and what do they move? Counted without one, at the real size, uncomputed.

    python -m benchmarks.launches [--model random-0.5b]

Tensors have shapes and no memory (torch's FakeTensorMode), so that an update of the training case of benchmarks.gpu,
and a step of each of its decoding cases, are run in seconds. An operation is what the dispatcher calls and that is no
view: on a GPU one kernel, mostly. Its bytes are those of all tensors that it takes and gives. The least time of a card
is the sum over operations of the longest of: launching, moving the bytes, multiplying the matrices. That of the host is
what it takes to launch them one by one.

    update   with blocks of the vocabulary as small as on a CPU, and as large as on a GPU
    step     one more token of each row: drawing it, and the model; recorded as graphs each is one launch for the host
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from transformers import AutoModelForCausalLM

from benchmarks.common import arguments_of, keep
from benchmarks.gpu import DECODE_CASES, TRAIN_CASE, Case
from benchmarks.models import SHAPES
from swarm.policy import gradient, stack
from swarm.policy.attention import use_attention
from swarm.policy.batch import BatchRow
from swarm.policy.device import Halvings
from swarm.policy.draw import Sampling, block_of, invert
from swarm.policy.gradient import GradientSum
from swarm.policy.model import LanguageModel
from swarm.policy.settings import GrpoConfig, logits_width
from swarm.policy.stack import TensorBatch, split_rows, stack_rows
from swarm.policy.static_decode import StaticDecoding

LAUNCH, HOST, BANDWIDTH, RATE = 2.5e-6, 8e-6, 4.0e12, 7e14
"""Seconds of a card and of its host for an operation; bytes and bf16 operations a second that an H200 reaches."""
SPARSE = {"embedding", "gather", "index", "index_copy_", "index_put_", "index_select", "scatter_add_"}
"""Operations that touch as much as the smallest of their tensors of numbers has, twice, and not all of the largest."""


class Counted(TorchDispatchMode):
    """Counts operations by their name: how many, bytes, least seconds of the card."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.by_name: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        given, made = (tensors_of(one) for one in ((args, kwargs), result))
        if made and not is_view(name, given, made):
            size = 2 * min(map(nbytes, made + given)) if name in SPARSE else sum(map(nbytes, made + given))
            row = self.by_name[name]
            for place, value in enumerate((1, size, max(LAUNCH, size / BANDWIDTH, products(name, args) / RATE))):
                row[place] += value
        return result

    def total(self) -> dict[str, float]:
        """Operations, bytes, least seconds of the card, and of the host that launches them."""
        count, size, seconds = (sum(row[place] for row in self.by_name.values()) for place in range(3))
        return {"operations": count, "bytes": size, "seconds_of_card": seconds, "seconds_of_host": count * HOST}


def tensors_of(tree: Any) -> list[torch.Tensor]:
    return [one for one in pytree.tree_leaves(tree) if torch.is_tensor(one)]


def nbytes(tensor: torch.Tensor) -> int:
    return tensor.nbytes


def is_view(name: str, given: Sequence[torch.Tensor], made: Sequence[torch.Tensor]) -> bool:
    """Tells whether an operation launches nothing: what it gives is memory that was there, or nothing is in it yet."""
    there = {one.untyped_storage()._cdata for one in given}
    return "empty" in name or (not name.endswith("_") and all(one.untyped_storage()._cdata in there for one in made))


def products(name: str, args: Sequence[Any]) -> float:
    """Multiplications and additions of a matrix product, or of attention."""
    if name in ("mm", "addmm", "addmm_"):
        left, right = [one.shape for one in args if torch.is_tensor(one) and one.dim() == 2][-2:]
        return 2.0 * left[0] * left[1] * right[1]
    if "scaled_dot_product" in name:
        backward = "backward" in name
        query, key = args[backward : backward + 2]
        return float(4 * query.numel() * key.shape[2] * (2.5 if backward else 1))
    return 0.0


def rows_of(case: Case) -> list[BatchRow]:
    """Rows of own groups, all informative."""
    ids, claims = tuple(range(20, 20 + case.completion_tokens)), (-1.0,) * case.completion_tokens
    prompts = [tuple(range(10 + number, 10 + number + case.prompt_tokens)) for number in range(case.prompts)]
    return [
        BatchRow(number, prompt, ids, range(len(ids)), 1.0 if place % 2 else -1.0, True, claims)
        for number, prompt in enumerate(prompts)
        for place in range(case.group_size)
    ]


@contextmanager
def as_on_a_gpu(*, blocks: bool) -> Iterator[None]:
    """Has the CPU's tensors stand for a GPU's: attention in few blocks, those of the vocabulary as asked for."""

    def stacked(rows: Sequence[BatchRow], model: LanguageModel) -> TensorBatch:
        with unset_fake_temporarily(), _disable_current_modes():  # its sizes depend on what is in the tensors
            return stack_rows(rows, model)

    with (
        mock.patch.dict(stack._BLOCK_COST, {"cpu": stack._BLOCK_COST["cuda"]}),
        mock.patch.object(gradient, "stack_rows", stacked),
        mock.patch(
            "swarm.policy.logprobs.logits_width",
            lambda tokens, vocabulary, on_gpu: logits_width(tokens, vocabulary, on_gpu=blocks),
        ),
    ):
        yield


def made(name: str, case: Case) -> LanguageModel:
    """A model in bf16."""
    module = AutoModelForCausalLM.from_config(SHAPES[name].config()).eval()
    return LanguageModel(
        name=name,
        module=module,
        tokenizer=None,
        device=torch.device("cpu"),
        autocast_dtype=torch.bfloat16,
        eos_ids=frozenset([1]),
        eos_id=1,
        pad_id=0,
        context=4096,
        max_new_tokens=case.completion_tokens,
        tokenizer_digest="",
        packs=use_attention(module),
    )


def step(name: str, case: Case) -> dict[str, Any]:
    """What one more token of each row launches."""

    def in_blocks(weights: torch.Tensor, uniforms: torch.Tensor, _: int | None) -> torch.Tensor:
        return invert(weights, uniforms, block_of(weights.shape[1]))

    with FakeTensorMode(allow_non_fake_inputs=True), mock.patch("swarm.policy.draw.invert", in_blocks):
        decoding = StaticDecoding(made(name, case), None)
        with decoding.region():
            prompts = [[5] * case.prompt_tokens] * case.prompts
            decoder = decoding.begin(prompts, group_size=case.group_size, steps=case.completion_tokens)
            with Counted() as drawing:
                tokens, _ = decoder.draw(torch.zeros(case.rows, dtype=torch.float64), Sampling())
            with Counted() as forward:
                decoder.forward(tokens)
    return {"rows": case.rows, "drawing": drawing.total(), "model": told(forward)}


def update(name: str, case: Case, *, blocks: bool) -> Counted:
    """What one update launches up to its gradient."""
    config = GrpoConfig(max_new_tokens=case.completion_tokens)
    counted = Counted()
    with as_on_a_gpu(blocks=blocks), FakeTensorMode(allow_non_fake_inputs=True):
        model = made(name, case)
        summed = GradientSum(model, config, Halvings())
        parts = split_rows(rows_of(case), max_positions=config.micro_batch_tokens, packs=model.packs)
        with counted:
            for part in parts:
                summed._backward(part, None)
    return counted


def told(counted: Counted, most: int = 8) -> dict[str, Any]:
    """Its sums, and the operations that take the card longest."""
    longest = sorted(counted.by_name.items(), key=lambda item: -item[1][2])[:most]
    of_each: Mapping[str, Any] = {
        name: dict(zip(("operations", "bytes", "seconds_of_card"), row, strict=True)) for name, row in longest
    }
    return {**counted.total(), "longest": of_each}


def main() -> None:
    """Print what an update launches, by the size of its blocks."""
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--model", default="random-0.5b", choices=SHAPES)
    arguments = parser.parse_args()
    case = Case(2, 4, 16, 8) if arguments.quick else TRAIN_CASE
    found = {
        way: told(update(arguments.model, case, blocks=blocks))
        for way, blocks in (("small_blocks", False), ("large_blocks", True))
    }
    steps = [step(arguments.model, one) for one in ((case,) if arguments.quick else DECODE_CASES)]
    keep("launches", {"model": arguments.model, **vars(case), "update": found, "steps": steps}, arguments)


if __name__ == "__main__":
    main()
