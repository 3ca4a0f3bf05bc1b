"""The memory of a device, total and free. No torch is imported here.

    GPU   torch in a child process, where there is a driver: it knows which GPU it would use, in parts (MIG), too
    CPU   swarm.planner.free_memory
    far   a device that is not on this machine, known by its memory alone

All sizes are bytes.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
_TORCH_TIMEOUT_S = 120.0
_DRIVER = ("dev/nvidia0", "proc/driver/nvidia")
"""Either is there where the driver is, in containers, too."""
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

    @property
    def host(self) -> DeviceMemory:
        """Returns the CPU of its machine, of whose memory only the free part is known."""
        return replace(self, device="cpu", free=self.host_free, total=self.host_free, bf16=False)


def device_memory(device: str | None, environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> DeviceMemory:
    """Memory of the device that a node would use; None: the first GPU if there is one and torch can use it.

    Raises:
        ModelError: a device is named that cannot be asked, or not be used.
    """
    host_free, host_total = host_memory(root)
    cpu = DeviceMemory(device="cpu", free=host_free, total=host_total, host_free=host_free)
    if device == "cpu":
        return cpu
    name = _named(device or "cuda")
    if device is None and not _may_have_gpu(environ, root):
        return cpu
    try:
        return _ask_torch(name, host_free)
    except ModelError:
        if device:
            raise
        return cpu


def _may_have_gpu(environ: Mapping[str, str], root: Path) -> bool:
    """Tells whether torch may find a GPU: else it is not asked, which takes seconds."""
    if version("torch").endswith("+cpu") or environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    return any((root / file).exists() for file in _DRIVER)


def _named(device: str) -> str:
    """Returns a GPU's name with its number. Raises ModelError: it is no name of one."""
    named = re.fullmatch(r"cuda(?::(\d+))?", device)
    if named is None:
        raise NoModelError(f"device {device!r} is none that swarm computes on. Expected cpu, cuda or cuda:<n>")
    return f"cuda:{int(named[1] or 0)}"


def _ask_torch(device: str, host_free: int) -> DeviceMemory:
    """Returns what torch says of a GPU, in a child process. Raises ModelError: torch cannot use it."""
    command, told = code_command(_ASK_TORCH, device), child_environment(os.environ)
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TORCH_TIMEOUT_S, env=told)
        free, total, major, minor = (int(word) for word in done.stdout.split())
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[-1]
        raise NoModelError(f"device {device!r} cannot be used: {said}. Expected cpu, cuda or cuda:<n>") from error
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ModelError(f"device {device!r}: torch did not say how much memory it has: {error}") from error
    bf16 = major + minor / 10 >= _BF16_SINCE
    return DeviceMemory(device=device, free=free, total=total, host_free=host_free, bf16=bf16)


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
        device: as suited_device has it; `cpu` for a machine without a GPU.

    Raises:
        ConfigError: it is no size of memory.
    """
    found, said = memory_size(text), " ".join(text.split())
    if device == "cpu":
        where = f"the CPU of a machine with {said}"
        return DeviceMemory(device="cpu", free=found, total=found, host_free=found, elsewhere=where)
    bf16 = found not in _WITHOUT_BF16
    return DeviceMemory(device="cuda:0", free=found, total=found, host_free=0, bf16=bf16, elsewhere=f"a GPU of {said}")
