"""Free memory is what the device has left, or what the control group allows."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from swarm.errors import ModelError
from swarm.planner import device_memory as module
from swarm.planner.device_memory import device_memory, parse_smi
from swarm.planner.free_memory import host_memory

GB = 2**30


def make_root(root: Path, cgroup: str = "", **groups: tuple[str, str, str]) -> Path:
    """A machine with 8 GB, 6 of them free; groups: folder below sys/fs/cgroup -> (used, limit, memory.stat)."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: {8 * 2**20} kB\nMemAvailable: {6 * 2**20} kB\nHugePages_Total: 0\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, (used, limit, statistics) in groups.items():
        folder = root / "sys/fs/cgroup" / name.replace("__", "/")
        folder.mkdir(parents=True, exist_ok=True)
        names = (
            ("memory.usage_in_bytes", "memory.limit_in_bytes")
            if name.startswith("memory")
            else (
                "memory.current",
                "memory.max",
            )
        )
        for file, content in zip((*names, "memory.stat"), (used, limit, statistics), strict=True):
            (folder / file).write_text(content)
    return root


def test_without_limits_all_that_the_machine_has_counts(tmp_path: Path) -> None:
    assert host_memory(make_root(tmp_path)) == (6 * GB, 8 * GB)


def test_the_tightest_group_counts_and_its_reclaimable_cache_is_free(tmp_path: Path) -> None:
    groups = {"a__b": (f"{3 * GB}", "max", ""), "a": (f"{3 * GB}", f"{4 * GB}", f"inactive_file {GB}\nanon 5")}
    assert host_memory(make_root(tmp_path, "0::/a/b\n", **groups)) == (2 * GB, 4 * GB)


def test_version_one_groups_count_as_well(tmp_path: Path) -> None:
    groups = {"memory__x": (f"{GB}", f"{2 * GB}", "total_inactive_file 0\n")}
    root = make_root(tmp_path, "9:cpu:/x\n4:memory:/x\n", **groups)
    assert host_memory(root) == (GB, 2 * GB)


def test_a_group_over_its_limit_has_nothing_free(tmp_path: Path) -> None:
    assert host_memory(make_root(tmp_path, "0::/a\n", a=(f"{3 * GB}", f"{2 * GB}", "")))[0] == 0


def test_nvidia_smi_speaks_in_mebibytes() -> None:
    gpu = parse_smi("GPU-12ab, 143000, 143771, 9.0, Disabled\n")
    assert (gpu.uuid, gpu.free, gpu.total) == ("GPU-12ab", 143000 * 2**20, 143771 * 2**20)
    assert (gpu.bf16, gpu.is_parted) == (True, False)
    assert parse_smi("GPU-12ab, 1, 2, 7.5, [N/A]").bf16 is False
    assert parse_smi("GPU-12ab, 1, 2, 9.0, Enabled").is_parted
    with pytest.raises(ValueError, match=r"N/A"):
        parse_smi("GPU-12ab, [N/A], [N/A], 9.0, Disabled")


def machine(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    smi: Sequence[str] = (),
    torch_says: str = "",
    driver: str = "dev/nvidia0",
    build: str = "2.13.0",
) -> Path:
    """A machine whose nvidia-smi and torch answer like this; smi: none is installed; driver: a file of the driver's."""
    make_root(root)
    if driver:
        (root / driver).parent.mkdir(parents=True, exist_ok=True)
        (root / driver).touch()
    if smi:
        program(root / "nvidia-smi", "\n".join(smi), 0)
    answers = program(root / "python", torch_says or "no CUDA-capable device is detected", 0 if torch_says else 1)
    monkeypatch.setattr(sys, "executable", answers)
    monkeypatch.setenv("PATH", str(root))
    monkeypatch.setattr(module, "version", lambda _: build)
    return root


def program(file: Path, says: str, exit_code: int) -> str:
    """Says it, on standard error if it fails, and leaves a file `asked`."""
    where = "" if exit_code == 0 else ">&2"
    file.write_text(f"#!/bin/sh\n: > {file}.asked\necho '{says}' {where}\nexit {exit_code}\n")
    file.chmod(0o755)
    return str(file)


FIRST, SECOND = "GPU-12, 1000, 2000, 7.5, Disabled", "GPU-34, 1500, 2000, 9.0, Disabled"
SMALL = "GPU-56, 900, 1000, 8.9, Disabled"
BY_BUS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.parametrize(
    ("device", "environ", "free"),
    [
        (None, {}, 1000),
        ("cuda", {}, 1000),
        ("cuda:1", {}, 1500),
        ("cuda:1", {"CUDA_VISIBLE_DEVICES": "1, 0"}, 1000),
        ("cuda:0", {"CUDA_VISIBLE_DEVICES": "GPU-34"}, 1500),
    ],
)
def test_the_gpu_that_counts_is_the_one_torch_would_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str | None, environ: dict[str, str], free: int
) -> None:
    memory = device_memory(device, environ, machine(tmp_path, monkeypatch, smi=[FIRST, SECOND]))
    assert (memory.free, memory.total, memory.host_free) == (free * 2**20, 2000 * 2**20, 6 * GB)
    assert (memory.bf16, memory.is_gpu) == (free == 1500, True)
    assert not (tmp_path / "python.asked").exists()


@pytest.mark.parametrize(
    ("environ", "free"),
    [
        ({}, 900),
        ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "CUDA_VISIBLE_DEVICES": "1"}, 900),
        (BY_BUS, 1500),
        ({"CUDA_VISIBLE_DEVICES": "GPU-34"}, 1500),
    ],
)
def test_where_gpus_differ_and_their_order_is_not_known_the_least_free_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], free: int
) -> None:
    root = machine(tmp_path, monkeypatch, smi=[SECOND, SMALL])
    assert device_memory(None, environ, root).free == free * 2**20


@pytest.mark.parametrize("driver", ["dev/nvidia0", "proc/driver/nvidia"])
@pytest.mark.parametrize(
    ("smi", "environ"),
    [
        ([], {}),
        (["GPU-12, 1000, 2000, 9.0, Enabled"], {}),
        (["GPU-12, 1000, 2000, 9.0, Disabled"], {"CUDA_VISIBLE_DEVICES": "MIG-7"}),
        (["GPU-12, [N/A], [N/A], 9.0, [N/A]"], {}),
        (["No devices were found"], {}),
    ],
)
def test_where_nvidia_smi_cannot_tell_torch_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smi: list[str], environ: dict[str, str], driver: str
) -> None:
    root = machine(tmp_path, monkeypatch, smi=smi, torch_says="500 700 9 0", driver=driver)
    memory = device_memory(None, environ, root)
    assert (memory.device, memory.free, memory.total, memory.bf16) == ("cuda:0", 500, 700, True)


def test_without_a_gpu_the_cpu_is_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = device_memory(None, {}, machine(tmp_path, monkeypatch, driver=""))
    assert (memory.device, memory.free) == ("cpu", memory.host_free)
    assert not (tmp_path / "python.asked").exists(), "importing torch for nothing"


def test_a_gpu_that_torch_cannot_use_leaves_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_memory(None, {}, machine(tmp_path, monkeypatch)).device == "cpu"
    assert (tmp_path / "python.asked").exists()


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_gpus_that_are_hidden_are_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: str) -> None:
    root = machine(tmp_path, monkeypatch, smi=[FIRST], torch_says="500 700 9 0")
    assert device_memory(None, {"CUDA_VISIBLE_DEVICES": hidden}, root).device == "cpu"
    assert not (tmp_path / "python.asked").exists()


def test_a_torch_without_cuda_uses_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = machine(tmp_path, monkeypatch, smi=[FIRST], torch_says="500 700 9 0", build="2.13.0+cpu")
    assert device_memory(None, {}, root).device == "cpu"
    with pytest.raises(ModelError, match=r"'cuda' cannot be used: torch 2.13.0\+cpu is a build without CUDA"):
        device_memory("cuda", {}, root)


def test_a_named_device_that_torch_cannot_use_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="'cuda:1' cannot be used: no CUDA-capable device is detected"):
        device_memory("cuda:1", {}, machine(tmp_path, monkeypatch))


def test_the_real_torch_answers_or_says_why_not() -> None:
    try:
        gpu = module._ask_torch("cuda:0")
    except ModelError as error:
        assert re.search("CUDA|NVIDIA", str(error))  # noqa: PT017 - where there is a GPU, it is no error
    else:
        assert 0 < gpu.free < gpu.total


@pytest.mark.parametrize("device", ["mps", "cuda:first", "gpu"])
def test_a_device_that_swarm_does_not_compute_on_is_an_error(device: str) -> None:
    with pytest.raises(ModelError, match="is none that swarm computes on"):
        device_memory(device, {})
