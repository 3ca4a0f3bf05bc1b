"""What every benchmark needs: the machine's name, sides that take turns, medians with their spread, result files."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from swarm import provenance

if TYPE_CHECKING:
    from torch import Tensor

RESULTS = Path(__file__).parent / "results"
_T = TypeVar("_T")


def arguments_of(doc: str | None, *, threads: int | None = 1) -> argparse.ArgumentParser:
    """A parser with the flags that all benchmarks have."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke run: small, and not kept unless --output says so")
    parser.add_argument("--output", type=Path, help=f"folder of the result file (default {RESULTS}, none for --quick)")
    if threads is not None:
        parser.add_argument("--threads", type=int, default=threads, help="CPU threads of torch")
    return parser


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    here = provenance.machine()
    return {"cpu": here["processor"], "cores": here["cores"], "system": here["system"], **provenance.versions()}


def command() -> str:
    """The command line that made a result, as a person would type it."""
    module = Path(sys.argv[0]).stem
    return " ".join(["python", "-m", f"benchmarks.{module}", *sys.argv[1:]])


def keep(
    name: str, found: Mapping[str, Any], arguments: argparse.Namespace, *, device: str = "cpu", **facts: Any
) -> None:
    """Print a result, and write it as `write` does."""
    print(write(name, found, arguments, device=device, **facts))


def write(
    name: str, found: Mapping[str, Any], arguments: argparse.Namespace, *, device: str = "cpu", **facts: Any
) -> str:
    """Writes a result as {name}_{device}.json unless this was a smoke run; returns its text.

    Args:
        device: short name for the file: `cpu`, or `card_name` of a GPU.
        facts: more of what the figures were measured on, such as the GPU's name.
    """
    threads = getattr(arguments, "threads", None)
    result = {
        "benchmark": name,
        "device": device,
        "command": command(),
        "threads": threads,
        "machine": machine() | facts,
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **found,
    }
    text = json.dumps(result, indent=2) + "\n"
    folder = arguments.output or (None if arguments.quick else RESULTS)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}_{device}.json").write_text(text)
    return text


def card_name(gpu: str) -> str:
    """A GPU's name as a part of a file's: results of one card never replace those of another."""
    return "cuda_" + "-".join(re.findall(r"[a-z0-9]+", gpu.lower()))


def earlier(name: str, arguments: argparse.Namespace, *, device: str = "cpu") -> dict[str, Any]:
    """What `keep` wrote last time, for those that measure a part anew; empty for a smoke run."""
    file = (arguments.output or RESULTS) / f"{name}_{device}.json"
    return {} if arguments.quick or not file.exists() else json.loads(file.read_text())


def summary(values: Iterable[float]) -> dict[str, float]:
    """Median and spread of repetitions."""
    collected = list(values)
    return {
        "median": statistics.median(collected),
        "min": min(collected),
        "max": max(collected),
        "runs": len(collected),
    }


def ratios(left: Sequence[float], right: Sequence[float]) -> dict[str, float]:
    """Summary of left / right, repetition by repetition: what the machine did meanwhile cancels out."""
    return summary(a / b for a, b in zip(left, right, strict=True))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def log_slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Exponent b of the least-squares fit cost = a x size^b; 1 is linear."""
    x, y = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    return statistics.linear_regression(x, y).slope


def relative_gap(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> float:
    """|left - right| / |right| over all parameters together, L2."""
    if left.keys() != right.keys():
        raise ValueError(f"expected gradients of the same parameters, got {left.keys() ^ right.keys()}")
    gap = sum((left[name] - right[name]).double().square().sum() for name in left)
    return float((gap / sum(gradient.double().square().sum() for gradient in right.values())).sqrt())  # type: ignore[union-attr]


def alternate(
    sides: Mapping[str, Callable[[], _T]], repetitions: int, said: Callable[[_T], str] = "{:.3f} s".format
) -> dict[str, list[_T]]:
    """What each side measures of itself, such as seconds, in turn; every repetition begins with another side.

    Args:
        said: how one of them is shown.
    """
    names = list(sides)
    found: dict[str, list[_T]] = {name: [] for name in names}
    for repetition in range(repetitions):
        first = repetition % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(sides[name]())
            print(f"  repetition {repetition}: {name} {said(found[name][-1])}", file=sys.stderr)
    return found


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock of one call."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def own_trees(checkouts: Iterable[Path]) -> list[str]:
    """Names of those checkouts that a comparison was started in: the others are what it is compared with."""
    return [checkout.resolve().name for checkout in checkouts if checkout.resolve() == Path.cwd()]


def is_installed(package: str) -> bool:
    """True if the package can be imported; it is not."""
    return importlib.util.find_spec(package) is not None
