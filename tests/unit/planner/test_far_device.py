"""A device that is not here is known by its memory, as people write it."""

from __future__ import annotations

import pytest

from swarm.errors import ConfigError
from swarm.planner.device_memory import far_device, memory_size

GB = 10**9


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("16GB", 16 * GB),
        ("16gb", 16 * GB),
        (" 22 GiB ", 22 * 2**30),
        ("22.5GB", 22_500_000_000),
        ("16000MB", 16 * GB),
        ("16384MiB", 2**34),
        ("1TB", 1000 * GB),
        ("16000000000B", 16 * GB),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert memory_size(text) == size


@pytest.mark.parametrize("text", ["16", "GB", "", "16GBit", "-16GB", "1e3GB", "16,5GB", "nanGB", "infGB", "sixteen"])
def test_what_is_no_size_is_said_with_what_would_be_one(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--device-memory: expected a number with a unit, such as 16GB .* got '"):
        memory_size(text)


def test_a_number_alone_is_told_that_its_unit_is_missing() -> None:
    with pytest.raises(ConfigError, match="got '16', got no unit"):
        memory_size("16")


@pytest.mark.parametrize("text", ["16kB", "0GB", "99TB", "9" * 400 + "GB"], ids=["16kB", "0GB", "99TB", "huge"])
def test_what_no_device_has_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="from 100MB to 10TB"):
        memory_size(text)


def test_a_device_elsewhere_is_a_gpu_with_all_of_it_free_or_a_machine_without_one() -> None:
    gpu, cpu = far_device("24GB", None), far_device("64GB", "cpu")
    assert (gpu.is_gpu, gpu.free, gpu.total, gpu.title) == (True, 24 * GB, 24 * GB, "a GPU of 24GB")
    assert (cpu.is_gpu, cpu.free, cpu.host_free) == (False, 64 * GB, 64 * GB)


def test_bf16_is_taken_for_granted_but_for_the_memory_of_a_t4_or_v100() -> None:
    assert [far_device(f"{size}GB", None).bf16 for size in (16, 24, 80)] == [False, True, True]
