"""How much memory does a device have, and how much of it is free? Asked without torch wherever that is possible.

    GPU   nvidia-smi (no torch import), else torch.cuda.mem_get_info
    CPU   /proc/meminfo, and the limits of the control groups (v1, v2) that this process runs in

All sizes are bytes.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from swarm.errors import ModelError

_SMI_QUERY = "--query-gpu=memory.free,memory.total,compute_cap"
_SMI_TIMEOUT_S = 10.0
_MIB = 2**20
_BF16_SINCE = 8.0
"""Compute capability of Ampere, the first generation with bfloat16."""


@dataclass(frozen=True, kw_only=True)
class DeviceMemory:
    """The memory that the nodes of one device share."""

    device: str
    """As torch names it: `cpu`, `cuda:0`."""
    free: int
    total: int
    host_free: int
    """Free memory of the machine; the same as `free` on a CPU."""
    bf16: bool = False
    """The device computes in bfloat16."""

    @property
    def is_gpu(self) -> bool:
        """Not the CPU."""
        return self.device != "cpu"


def device_memory(device: str | None, environ: Mapping[str, str] = os.environ) -> DeviceMemory:
    """Memory of the device that a node would use; None: the first GPU if there is one and torch can use it.

    Raises:
        ModelError: a device is named that cannot be asked.
    """
    host_free, host_total = host_memory()
    cpu = DeviceMemory(device="cpu", free=host_free, total=host_total, host_free=host_free)
    if device == "cpu" or (device is None and version("torch").endswith("+cpu")):
        return cpu
    index = 0 if device is None else _cuda_index(device)
    asked = _ask_smi(index, environ) or (_ask_torch(device) if device else None)
    if asked is None:
        return cpu
    free, total, capability = asked
    return DeviceMemory(
        device=f"cuda:{index}", free=free, total=total, host_free=host_free, bf16=capability >= _BF16_SINCE
    )


def host_memory(root: Path = Path("/")) -> tuple[int, int]:
    """Free and total memory that this process may use: what the machine has, or its control group allows."""
    memory = _meminfo(root / "proc/meminfo")
    free, total = memory["MemAvailable"], memory["MemTotal"]
    for used, limit in _cgroup_limits(root):
        free, total = min(free, max(0, limit - used)), min(total, limit)
    return free, total


def parse_smi(line: str) -> tuple[int, int, float]:
    """Free bytes, total bytes and compute capability from one line of nvidia-smi, such as `143000, 143771, 9.0`.

    Raises:
        ValueError: it says something else, such as [N/A].
    """
    free, total, capability = line.split(",")
    return int(free) * _MIB, int(total) * _MIB, float(capability)


def _cuda_index(device: str) -> int:
    named = re.fullmatch(r"cuda(?::(\d+))?", device)
    if named is None:
        raise ModelError(f"device {device!r}: its memory cannot be asked. Expected cpu, cuda or cuda:<n>")
    return int(named[1] or 0)


def _ask_smi(index: int, environ: Mapping[str, str]) -> tuple[int, int, float] | None:
    """What nvidia-smi says of the index-th GPU that CUDA_VISIBLE_DEVICES leaves; None if it cannot be asked."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(index)] if visible is None else [name.strip() for name in visible.split(",")]
    name = names[0] if visible is None else names[index] if index < len(names) else ""
    if not name or name == "-1":
        return None
    try:
        done = subprocess.run(
            ["nvidia-smi", "-i", name, _SMI_QUERY, "--format=csv,noheader,nounits"],
            check=True,
            capture_output=True,
            text=True,
            timeout=_SMI_TIMEOUT_S,
        )
        return parse_smi(done.stdout.strip())
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _ask_torch(device: str) -> tuple[int, int, float]:
    """The same from torch, which costs a second and a CUDA context."""
    import torch

    try:
        free, total = torch.cuda.mem_get_info(device)
        major, minor = torch.cuda.get_device_capability(device)
    except (RuntimeError, AssertionError, ValueError) as error:  # AssertionError: a torch without CUDA
        raise ModelError(f"device {device!r} cannot be used: {error}. Expected cpu, cuda or cuda:<n>") from error
    return free, total, major + minor / 10


def _meminfo(file: Path) -> dict[str, int]:
    """Values of /proc/meminfo, in bytes; where there is none (not Linux), what sysconf knows."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return {"MemAvailable": total, "MemTotal": total}
    return {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}


def _cgroup_limits(root: Path) -> Iterator[tuple[int, int]]:
    """(used, limit) of every control group above this process that limits memory; reclaimable cache is not used."""
    for group, used, limit in _cgroup_files(root):
        try:
            held, allowed = int((group / used).read_text()), int((group / limit).read_text())
            statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):  # no such group, or `max`: no limit
            continue
        cache = int(statistics.get("total_inactive_file", statistics.get("inactive_file", 0)))
        yield max(0, held - cache), allowed


def _cgroup_files(root: Path) -> Iterator[tuple[Path, str, str]]:
    """(folder, file of use, file of limit) from this process's group up to the root, of both versions."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        names = ("memory.usage_in_bytes", "memory.limit_in_bytes") if controllers else ("memory.current", "memory.max")
        folder = mount / path.lstrip("/")
        while True:
            yield folder, *names
            if folder == mount or mount not in folder.parents:
                break
            folder = folder.parent
