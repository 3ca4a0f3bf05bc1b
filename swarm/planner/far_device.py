"""A device that is not on this machine, known by its memory alone, and what devices of that memory usually can.

"16GB" ──memory_size──▶ bytes ──far_device──▶ DeviceMemory (swarm.planner.device_memory)
                          └────devices_of────▶ TypicalDevice: bandwidth, FLOPs ──▶ swarm.planner.pace

The figures are those of the makers' data sheets, dense and at their best; none of them was measured here.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from swarm.errors import ConfigError
from swarm.planner.device_memory import DeviceMemory

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_UNITS |= {"TIB": 2**40}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")
_LEAST, _MOST = 10**8, 10**13
_ALIKE = 0.15
"""Sizes that differ by no more of the larger one are taken for the same device's: makers, drivers and clouds count
differently."""


class TypicalDevice(NamedTuple):
    """One kind of GPU, by its data sheet."""

    name: str
    memory: int
    """Bytes."""
    bandwidth: float
    """Bytes a second."""
    half_flops: float
    """Operations a second in bf16, or in fp16 where it has no bf16; dense, summed up in fp32."""
    fp32_flops: float
    bf16: bool


def _device(name: str, memory: int, bandwidth: int, half: float, fp32: float, *, bf16: bool = True) -> TypicalDevice:
    """GB, GB/s, TFLOPS."""
    return TypicalDevice(name, memory * 10**9, bandwidth * 1e9, half * 1e12, fp32 * 1e12, bf16)


TYPICAL = (
    _device("RTX 3070", 8, 448, 81, 20.3),
    _device("RTX 3060", 12, 360, 51, 12.7),
    _device("T4", 16, 320, 65, 8.1, bf16=False),
    _device("V100", 16, 900, 112, 14, bf16=False),
    _device("L4", 24, 300, 121, 30.3),
    _device("A10G", 24, 600, 70, 31.5),
    _device("RTX 3090", 24, 936, 71, 35.6),
    _device("RTX 4090", 24, 1008, 165, 82.6),
    _device("A100 40 GB", 40, 1555, 312, 19.5),
    _device("L40S", 48, 864, 362, 91.6),
    _device("A100 80 GB", 80, 2039, 312, 19.5),
    _device("H100", 80, 3350, 989, 66.9),
    _device("H200", 141, 4800, 989, 66.9),
)


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
        return DeviceMemory(
            device="cpu", free=found, total=found, host_free=found, elsewhere=f"the CPU of a machine with {said}"
        )
    alike = devices_of(found)
    return DeviceMemory(
        device="cuda:0",
        free=found,
        total=found,
        host_free=0,
        bf16=all(typical.bf16 for typical in alike),
        elsewhere=f"a GPU of {said}",
    )


def devices_of(memory: int) -> tuple[TypicalDevice, ...]:
    """Returns the devices of that memory; where there are none, those whose memory is nearest to it."""
    alike = tuple(typical for typical in TYPICAL if _gap(typical.memory, memory) <= _ALIKE)
    nearest = min(_gap(typical.memory, memory) for typical in TYPICAL)
    return alike or tuple(typical for typical in TYPICAL if _gap(typical.memory, memory) == nearest)


def _gap(one: int, other: int) -> float:
    return abs(one - other) / max(one, other)
