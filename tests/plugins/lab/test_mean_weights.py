"""The mean of weights, DiLoCo's outer step, and what of strangers' files is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from swarm.errors import CheckpointError, ProtocolError
from swarm.plugins.lab.mean_weights import OuterConfig, WeightAveraging
from swarm.plugins.lab.settings import AVERAGING
from swarm.policy.parts import TrainedWeights
from swarm.policy.policy import JoinedPolicy, make_policy
from swarm.policy.settings import GrpoConfig
from tests.unit.policy.factories import make_group, make_model

GROUPS = [make_group(), make_group("?", ("a", "bc"), (1.0, -1.0))]
DILOCO = OuterConfig(rate=0.7, momentum=0.9)


def policy(updates: int = 0, outer: OuterConfig | None = None) -> JoinedPolicy:
    """All begin with the same weights."""
    torch.manual_seed(0)
    made = make_policy(
        make_model(), GrpoConfig(learning_rate=1e-2, parts={AVERAGING: partial(WeightAveraging, outer=outer)})
    )
    for _ in range(updates):
        made.finish_update(GROUPS)
    return made


def averaging(one: JoinedPolicy) -> WeightAveraging:
    part = one.part(AVERAGING)
    assert isinstance(part, WeightAveraging)
    return part


def exported(one: JoinedPolicy, folder: Path, name: str) -> str:
    file = folder / name
    file.write_bytes(averaging(one).export_weights())
    return str(file)


def weights(one: JoinedPolicy) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in one.snapshot().weights.items()}


def identical(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_all_come_to_the_mean_to_the_bit_and_their_moments_stay(tmp_path: Path) -> None:
    nodes = [policy(updates) for updates in (1, 2, 3)]
    files = [exported(one, tmp_path, str(number)) for number, one in enumerate(nodes)]
    before, moments = [weights(one) for one in nodes], nodes[1].snapshot().optimizer.first_moments
    for one in nodes:
        averaging(one).average(files)
    assert identical(weights(nodes[0]), weights(nodes[1]))
    assert identical(weights(nodes[1]), weights(nodes[2]))
    for name, mean in weights(nodes[0]).items():
        assert torch.allclose(mean, sum(w[name] for w in before) / 3, atol=1e-7)
    assert identical(nodes[1].snapshot().optimizer.first_moments, moments)
    assert not identical(before[0], weights(nodes[0]))


def test_what_is_averaged_is_what_is_generated_with(tmp_path: Path) -> None:
    one, other = policy(1), policy(3)
    averaging(one).average([exported(other, tmp_path, "other")])
    assert one.generate(["?"], group_size=4, seed=0) == other.generate(["?"], group_size=4, seed=0)


def test_the_outer_step_is_that_of_torchs_nesterov_momentum(tmp_path: Path) -> None:
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5]))
    reference = torch.nn.Parameter(parameter.detach().clone())
    sgd = torch.optim.SGD([reference], lr=0.7, momentum=0.9, nesterov=True)
    outer, file = WeightAveraging(TrainedWeights({"w": parameter}, lambda: None), DILOCO), str(tmp_path / "w")
    for step in range(4):
        mean = torch.randn(3, generator=torch.Generator().manual_seed(step))
        save_file({"w": mean}, file)
        outer.average([file])
        reference.grad = reference.detach() - mean
        sgd.step()
        assert torch.allclose(parameter, reference, atol=1e-6)
        with torch.no_grad():
            parameter.add_(1.0)  # inner steps in between: the outer one begins at the shared weights


def test_a_checkpoint_holds_the_outer_optimizer(tmp_path: Path) -> None:
    one, other = policy(2, DILOCO), exported(policy(4), tmp_path, "other")
    averaging(one).average([other])
    (tmp_path / "checkpoint").mkdir()
    one.snapshot().write(str(tmp_path / "checkpoint"))
    resumed = policy(1, DILOCO)
    resumed.restore(str(tmp_path / "checkpoint"))
    for node in (one, resumed):
        node.finish_update(GROUPS)
        averaging(node).average([other])
    assert identical(weights(resumed), weights(one))
    with pytest.raises(CheckpointError, match=r"outer\.safetensors: expected False, got True"):
        policy().restore(str(tmp_path / "checkpoint"))


def test_without_an_outer_optimizer_a_checkpoint_is_as_before(tmp_path: Path) -> None:
    policy(1).snapshot().write(str(tmp_path))
    assert "outer" not in (tmp_path / "manifest.json").read_text()
    assert not (tmp_path / "outer.safetensors").exists()
    with pytest.raises(CheckpointError, match="expected True, got False"):
        policy(0, DILOCO).restore(str(tmp_path))


def changed(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], Any]:
    def write(file: Path) -> None:
        tensors = load_file(file)
        change(tensors)
        save_file(tensors, file)

    return write


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (changed(lambda w: w.pop(next(iter(w)))), "other_weights"),
        (changed(lambda w: w.update(more=torch.zeros(1))), "other_weights"),
        (changed(lambda w: w.update({next(iter(w)): torch.zeros(1)})), "other_weights"),
        (changed(lambda w: w.update({(n := next(iter(w))): w[n].double()})), "other_weights"),
        (changed(lambda w: w[next(iter(w))].view(-1)[-1].fill_(float("nan"))), "not_finite"),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "malformed"),
        (lambda file: file.write_bytes(b""), "malformed"),
        (lambda file: file.write_bytes(b"\x80\x04}."), "malformed"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, damage: Callable[[Path], Any], reason: str) -> None:
    one = policy(1)
    file = exported(policy(2), tmp_path, "other")
    averaging(one).refuse_weights(file)
    damage(Path(file))
    with pytest.raises(ProtocolError) as refused:
        averaging(one).refuse_weights(file)
    assert refused.value.reason == reason
