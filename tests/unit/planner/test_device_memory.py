"""Free memory is what the device has left, or what the control group allows."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from swarm.errors import ConfigError, ModelError
from swarm.planner import device_memory as module
from swarm.planner.device_memory import device_memory, far_device, memory_size
from swarm.planner.free_memory import host_memory, process_memory

GB = 2**30


def make_root(root: Path, cgroup: str = "", **groups: tuple[str, str, str]) -> Path:
    """A machine with 8 GB, 6 of them free; groups: folder below sys/fs/cgroup -> (used, limit, memory.stat)."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: {8 * 2**20} kB\nMemAvailable: {6 * 2**20} kB\nHugePages_Total: 0\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, (used, limit, statistics) in groups.items():
        folder = root / "sys/fs/cgroup" / name.replace("__", "/")
        folder.mkdir(parents=True, exist_ok=True)
        names = ["memory.current", "memory.max", "memory.stat"]
        if name.startswith("memory"):
            names[:2] = "memory.usage_in_bytes", "memory.limit_in_bytes"
        for file, content in zip(names, (used, limit, statistics), strict=True):
            (folder / file).write_text(content)
    return root


@pytest.mark.parametrize(
    ("cgroup", "groups", "found"),
    [
        ("", {}, (6 * GB, 8 * GB)),
        (
            "0::/a/b\n",  # the tightest counts, and its cache is free
            {"a__b": (f"{3 * GB}", "max", ""), "a": (f"{3 * GB}", f"{4 * GB}", f"inactive_file {GB}\nanon 5")},
            (2 * GB, 4 * GB),
        ),
        ("9:cpu:/x\n4:memory:/x\n", {"memory__x": (f"{GB}", f"{2 * GB}", "total_inactive_file 0\n")}, (GB, 2 * GB)),
        ("0::/a\n", {"a": (f"{3 * GB}", f"{2 * GB}", "")}, (0, 2 * GB)),
    ],
    ids=["no limit", "nested", "version one", "over its limit"],
)
def test_what_is_free_is_what_the_machine_has_or_its_tightest_group_allows(
    tmp_path: Path, cgroup: str, groups: dict[str, tuple[str, str, str]], found: tuple[int, int]
) -> None:
    assert host_memory(make_root(tmp_path, cgroup, **groups)) == found


def machine(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    torch_says: str = "",
    driver: str = "dev/nvidia0",
    build: str = "2.13.0",
) -> Path:
    """A machine whose torch answers like this, and leaves a file `python.asked`; driver: a file of the driver's."""
    make_root(root)
    if driver:
        (root / driver).parent.mkdir(parents=True, exist_ok=True)
        (root / driver).touch()
    answer = f"echo '{torch_says}'" if torch_says else "echo 'no CUDA-capable device is detected' >&2; exit 1"
    python = root / "python"
    python.write_text(f"#!/bin/sh\n: > {python}.asked\n{answer}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", str(root))
    monkeypatch.setattr(module, "version", lambda _: build)
    return root


@pytest.mark.parametrize("driver", ["dev/nvidia0", "proc/driver/nvidia"])
@pytest.mark.parametrize("device", [None, "cuda", "cuda:0"])
def test_torch_says_which_memory_a_gpu_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str | None, driver: str
) -> None:
    root = machine(tmp_path, monkeypatch, torch_says="500 700 9 0", driver=driver)
    memory = device_memory(device, {}, root)
    assert (memory.device, memory.free, memory.total, memory.bf16) == ("cuda:0", 500, 700, True)
    assert (memory.host_free, memory.is_gpu) == (6 * GB, True)


@pytest.mark.parametrize(
    ("with_gpu", "environ", "asked"),
    [
        ({"driver": ""}, {}, False),
        ({"torch_says": "500 700 9 0"}, {"CUDA_VISIBLE_DEVICES": ""}, False),
        ({"torch_says": "500 700 9 0"}, {"CUDA_VISIBLE_DEVICES": "-1"}, False),
        ({"torch_says": "500 700 9 0", "build": "2.13.0+cpu"}, {}, False),
        ({}, {}, True),
    ],
    ids=["there is none", "hidden", "hidden by number", "a torch without CUDA", "one that torch cannot use"],
)
def test_without_a_gpu_the_cpu_is_the_device_and_torch_is_imported_only_where_there_may_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_gpu: dict[str, str], environ: dict[str, str], asked: bool
) -> None:
    memory = device_memory(None, environ, machine(tmp_path, monkeypatch, **with_gpu))
    assert (memory.device, memory.free) == ("cpu", memory.host_free)
    assert (tmp_path / "python.asked").exists() is asked


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("cuda:1", "'cuda:1' cannot be used: no CUDA-capable device is detected"),
        *((device, "is none that swarm computes on") for device in ("mps", "cuda:first", "gpu")),
    ],
)
def test_a_device_that_is_named_and_cannot_be_used_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, said: str
) -> None:
    with pytest.raises(ModelError, match=said):
        device_memory(device, {}, machine(tmp_path, monkeypatch))


@pytest.mark.engine  # it imports torch in a process of its own
def test_the_real_torch_answers_or_says_why_not() -> None:
    try:
        gpu = device_memory("cuda:0")
    except ModelError as error:
        assert re.search("CUDA|NVIDIA", str(error))  # noqa: PT017 - where there is a GPU, it is no error
    else:
        assert 0 < gpu.free < gpu.total


# ── elsewhere ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("16GB", 16 * 10**9),
        (" 22 GiB ", 22 * 2**30),
        ("22.5GB", 22_500_000_000),
        ("16384MiB", 2**34),
        ("1TB", 1000 * 10**9),
        ("16000000000B", 16 * 10**9),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert memory_size(text) == size


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("16", "got '16', got no unit"),
        *((text, "a number with a unit, such as 16GB") for text in ("GB", "", "-16GB", "1e3GB", "16,5GB", "nanGB")),
        *((text, "from 100MB to 10TB") for text in ("16kB", "0GB", "99TB", "9" * 400 + "GB")),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_memory_of_a_device_is_said_with_what_would_be(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"--device-memory: expected .*{said}"):
        memory_size(text)


def test_a_device_elsewhere_is_a_gpu_with_all_of_it_free_or_a_machine_without_one() -> None:
    gpu, cpu = far_device("24GB", None), far_device("64GB", "cpu")
    assert (gpu.is_gpu, gpu.free, gpu.total, gpu.title) == (True, 24 * 10**9, 24 * 10**9, "a GPU of 24GB")
    assert (cpu.is_gpu, cpu.free, cpu.host_free) == (False, 64 * 10**9, 64 * 10**9)
    assert [far_device(f"{size}GB", None).bf16 for size in (16, 24, 80)] == [False, True, True], "a T4 or V100 has none"


# ── this process's own ────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_process_knows_what_it_holds_and_held_at_most_where_the_system_tells(tmp_path: Path) -> None:
    assert process_memory(tmp_path) is None
    use = process_memory()
    assert use is not None
    assert 0 < use.allocated <= use.peak < use.total == host_memory()[1]
    assert 0 < use.free < use.total
    assert use.reserved is None
