"""The memory of a device, total and free. Asked without torch wherever that is possible.

    GPU   nvidia-smi, else torch in a child process (a slim container without nvidia-smi; MIG, a GPU in parts)
    CPU   swarm.planner.free_memory
    far   a device that is not on this machine, known by its memory alone

All sizes are bytes.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from swarm.children import child_environment, code_command
from swarm.errors import ConfigError, ModelError, NoModelError
from swarm.planner.free_memory import host_memory

_ASK_TORCH = """
import sys, torch
device = torch.device(sys.argv[1])
print(*torch.cuda.mem_get_info(device), *torch.cuda.get_device_capability(device))
"""
"""A child does so: it costs seconds, and a CUDA context as long as the process lives."""
_SMI = ("nvidia-smi", "--query-gpu=uuid,memory.free,memory.total,compute_cap,mig.mode.current")
_SMI_FORMAT = "--format=csv,noheader,nounits"
_SMI_TIMEOUT_S = 10.0
_TORCH_TIMEOUT_S = 120.0
_DRIVER = ("dev/nvidia0", "proc/driver/nvidia")
"""Either is there where the driver is, in containers, too."""
_MIB = 2**20
_BF16_SINCE = 8.0
"""Compute capability of Ampere, the first generation with bfloat16."""
_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_UNITS |= {"TIB": 2**40}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")
_LEAST, _MOST = 10**8, 10**13
_WITHOUT_BF16 = range(14 * 10**9, 18 * 10**9)
"""Memory of a GPU that is taken for one before Ampere, such as a T4 or V100 of 16 GB."""


@dataclass(frozen=True, kw_only=True)
class DeviceMemory:
    """The memory that the nodes of one device share."""

    device: str
    """Name as torch names it: `cpu`, `cuda:0`."""
    free: int
    total: int
    host_free: int
    """Free memory of the machine; the same as `free` on a CPU."""
    bf16: bool = False
    """The device computes in bfloat16."""
    elsewhere: str = ""
    """What it is, where it is not on this machine, such as `a GPU of 16 GB`: nothing of its host is known."""

    @property
    def title(self) -> str:
        """Returns the device's name for people."""
        return self.elsewhere or self.device

    @property
    def is_gpu(self) -> bool:
        """Tells whether it is no CPU."""
        return self.device != "cpu"


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU, or the part of it that torch uses."""

    free: int
    total: int
    bf16: bool
    uuid: str = ""
    is_parted: bool = False
    """In MIG mode: a process uses a part of it, and these sizes are those of the whole."""


def device_memory(device: str | None, environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> DeviceMemory:
    """Memory of the device that a node would use; None: the first GPU if there is one and torch can use it.

    Raises:
        ModelError: a device is named that cannot be asked, or not be used.
    """
    host_free, host_total = host_memory(root)
    cpu = DeviceMemory(device="cpu", free=host_free, total=host_total, host_free=host_free)
    if device == "cpu":
        return cpu
    index = _cuda_index(device or "cuda")
    try:
        gpu = _gpu(device, index, environ, root)
    except ModelError:
        if device:
            raise
        return cpu
    if gpu is None:
        return cpu
    return DeviceMemory(device=f"cuda:{index}", free=gpu.free, total=gpu.total, host_free=host_free, bf16=gpu.bf16)


def parse_smi(line: str) -> Gpu:
    """Returns one line of nvidia-smi, such as `GPU-5ff3..., 143000, 143771, 9.0, Disabled`.

    Raises:
        ValueError: it says something else, such as [N/A] for a size.
    """
    uuid, free, total, capability, mig = (field.strip() for field in line.split(","))
    return Gpu(
        uuid=uuid,
        free=int(free) * _MIB,
        total=int(total) * _MIB,
        bf16=float(capability) >= _BF16_SINCE,
        is_parted=mig == "Enabled",
    )


def _gpu(device: str | None, index: int, environ: Mapping[str, str], root: Path) -> Gpu | None:
    """Returns the GPU that is named, or that torch takes by itself; None: it takes the CPU. Raises ModelError: it
    cannot."""
    if version("torch").endswith("+cpu"):  # whatever nvidia-smi finds
        raise NoModelError(f"device {device!r} cannot be used: torch {version('torch')} is a build without CUDA")
    if device is None and _visible_name(index, environ) is None:
        return None
    if gpu := _ask_smi(index, environ):
        return gpu
    if device is None and not any((root / file).exists() for file in _DRIVER):
        return None
    return _ask_torch(device or f"cuda:{index}")


def _cuda_index(device: str) -> int:
    named = re.fullmatch(r"cuda(?::(\d+))?", device)
    if named is None:
        raise NoModelError(f"device {device!r} is none that swarm computes on. Expected cpu, cuda or cuda:<n>")
    return int(named[1] or 0)


def _visible_name(index: int, environ: Mapping[str, str]) -> str | None:
    """Returns the name that CUDA_VISIBLE_DEVICES has for torch's index-th GPU, a number or the start of a UUID; None:
    hidden."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return str(index)
    names = [name.strip() for name in visible.split(",")]
    name = names[index] if index < len(names) else ""
    return None if name in ("", "-1") else name


def _ask_smi(index: int, environ: Mapping[str, str]) -> Gpu | None:
    """Asks nvidia-smi about torch's index-th GPU; None if it cannot tell."""
    name = _visible_name(index, environ)
    if name is None:
        return None
    try:
        lines = _output([*_SMI, _SMI_FORMAT], timeout_s=_SMI_TIMEOUT_S).splitlines()
        candidates = _candidates(name, [parse_smi(line) for line in lines], environ)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if any(gpu.is_parted for gpu in candidates):
        return None
    return min(candidates, key=lambda gpu: gpu.free, default=None)


def _candidates(name: str, gpus: Sequence[Gpu], environ: Mapping[str, str]) -> Sequence[Gpu]:
    """Returns the GPUs that a name may mean: nvidia-smi counts along the bus, CUDA from the fastest unless told to."""
    if not name.isdigit():
        return [gpu for gpu in gpus if gpu.uuid.startswith(name)]
    if environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({gpu.total for gpu in gpus}) == 1:
        return gpus[int(name) :][:1]
    return gpus


def _ask_torch(device: str) -> Gpu:
    """Returns the same from torch.

    Raises:
        ModelError: torch cannot use it.
    """
    try:
        output = _output(code_command(_ASK_TORCH, device), timeout_s=_TORCH_TIMEOUT_S)
        free, total, major, minor = (int(word) for word in output.split())
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[-1]
        raise NoModelError(f"device {device!r} cannot be used: {said}. Expected cpu, cuda or cuda:<n>") from error
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ModelError(f"device {device!r}: torch did not say how much memory it has: {error}") from error
    return Gpu(free=free, total=total, bf16=major + minor / 10 >= _BF16_SINCE)


def _output(command: Sequence[str], *, timeout_s: float) -> str:
    told = child_environment(os.environ)
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout_s, env=told).stdout


# ── elsewhere ───────────────────────────────────────────────────────────────────────────────────────────────────────
def memory_size(text: str) -> int:
    """Returns bytes that a person means by 16GB, 22.5 GiB and so on.

    Raises:
        ConfigError: it is no size of memory, or not one that a device has.
    """
    said = _SIZE.fullmatch(text)
    unit = _UNITS.get(said[2].upper()) if said else None
    if said is None or unit is None:
        missing = ", got no unit" if re.fullmatch(r"\s*[0-9.]+\s*", text) else ""
        raise ConfigError(
            f"--device-memory: expected a number with a unit, such as 16GB (16 x 10^9 bytes) or 22GiB (22 x 2^30), "
            f"got {text!r:.40}{missing}"
        )
    found = round(min(float(said[1]) * unit, 2.0 * _MOST))
    if not _LEAST <= found <= _MOST:
        raise ConfigError(f"--device-memory: expected the memory of one device, from 100MB to 10TB, got {text!r:.40}")
    return found


def far_device(text: str, device: str | None) -> DeviceMemory:
    """Returns a GPU of that memory, all of it free, or the CPU of a machine that has it.

    Args:
        device: as the settings have it; `cpu` for a machine without a GPU.

    Raises:
        ConfigError: it is no size of memory.
    """
    found, said = memory_size(text), " ".join(text.split())
    if device == "cpu":
        where = f"the CPU of a machine with {said}"
        return DeviceMemory(device="cpu", free=found, total=found, host_free=found, elsewhere=where)
    bf16 = found not in _WITHOUT_BF16
    return DeviceMemory(device="cuda:0", free=found, total=found, host_free=0, bf16=bf16, elsewhere=f"a GPU of {said}")
