"""Free memory is what the device has left, or what the control group allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.errors import ModelError
from swarm.policy import device_memory as module
from swarm.policy.device_memory import device_memory, host_memory, parse_smi

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
    assert parse_smi("143000, 143771, 9.0") == (143000 * 2**20, 143771 * 2**20, 9.0)
    with pytest.raises(ValueError, match=r"N/A"):
        parse_smi("[N/A], [N/A], 9.0")


@pytest.mark.parametrize(
    ("device", "visible", "asked"),
    [("cuda", None, "0"), ("cuda:1", None, "1"), ("cuda:1", "3, 5", "5"), ("cuda:0", "GPU-12", "GPU-12")],
)
def test_the_gpu_that_is_asked_is_the_one_torch_would_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, visible: str | None, asked: str
) -> None:
    script = tmp_path / "nvidia-smi"
    script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\necho "1000, 2000, 7.5"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    memory = device_memory(device, {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    assert (memory.free, memory.total, memory.bf16, memory.is_gpu) == (1000 * 2**20, 2000 * 2**20, False, True)
    assert (tmp_path / "arguments").read_text().startswith(f"-i {asked} --query-gpu=memory.free")


def test_without_a_gpu_the_cpu_is_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "version", lambda _: "2.13.0")
    monkeypatch.setenv("PATH", "")
    memory = device_memory(None, {})
    assert (memory.device, memory.free) == ("cpu", memory.host_free)


@pytest.mark.parametrize("device", ["mps", "cuda:first", "gpu"])
def test_a_device_that_nobody_can_ask_is_an_error(device: str) -> None:
    with pytest.raises(ModelError, match="its memory cannot be asked"):
        device_memory(device, {})
