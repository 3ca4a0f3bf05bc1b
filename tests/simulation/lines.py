"""Which share of the product's function lines a short simulation executes.

    python -m tests.simulation.lines --runs 20

Counted are the lines of functions alone, their `def`s not among them: what is executed by an import says nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from swarm.cli.say import say
from tests.simulation.laws import BrokenLawError
from tests.simulation.plan import Plan
from tests.simulation.world import World

ROOT = Path(__file__).parents[2]
COUNTED = {
    "swarm/node": ("swarm/node/process",),
    "swarm/store": ("swarm/store/folder", "swarm/store/bucket"),
    "swarm/records": (),
}
"""Package -> what of it is left out: the process, and the engines below the store."""
Lines = dict[str, set[int]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.lines", description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--missing", action="store_true", help="name the lines that were not executed")
    options = parser.parse_args()
    all_lines = {str(file): set(_function_lines(file)) for package in COUNTED for file in _files(package)}
    seen = executed(all_lines, options.runs)
    for package in COUNTED:
        files = {str(file): all_lines[str(file)] for file in _files(package)}
        for file, lines in files.items():
            missing = f"   {sorted(lines - seen[file])}" if options.missing else ""
            if lines:
                say(f"{_share(seen[file] & lines, lines)} {Path(file).relative_to(ROOT)}{missing}")
        done = {(file, line) for file, lines in files.items() for line in lines & seen[file]}
        say(f"{_share(done, {(file, line) for file, lines in files.items() for line in lines})} {package} in all")
    everything = sum(map(len, all_lines.values()))
    of_all = sum(len(seen[file] & lines) for file, lines in all_lines.items())
    say(f"{of_all} of {everything} function lines executed: {100 * of_all / everything:.1f} %")
    return 0


def executed(wanted: Lines, runs: int) -> Lines:
    """The lines of these files that so many small runs execute."""
    seen: Lines = defaultdict(set)

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if file not in wanted:
            return None
        lines = seen[file]

        def line(frame: FrameType, event: str, _: Any) -> Any:
            lines.add(frame.f_lineno)
            return line

        return line

    sys.settrace(enter)
    try:
        for seed in range(runs):
            try:
                World(Plan.drawn(seed)).run()
            except BrokenLawError as broken:
                say(str(broken))
    finally:
        sys.settrace(None)
    return seen


def _files(package: str) -> list[Path]:
    left_out = [ROOT / folder for folder in COUNTED[package]]
    files = sorted((ROOT / package).rglob("*.py"))
    return [file for file in files if not any(folder in file.parents for folder in left_out)]


def _function_lines(file: Path) -> Iterator[int]:
    def within(code: CodeType) -> Iterator[int]:
        if code.co_flags & CO_NEWLOCALS:
            yield from {line for _, _, line in code.co_lines() if line and line != code.co_firstlineno}
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from within(constant)

    yield from within(compile(file.read_text(), str(file), "exec"))


def _share(some: set[Any], of: set[Any]) -> str:
    return f"{100 * len(some) / max(1, len(of)):5.1f} % of {len(of):5}"


if __name__ == "__main__":
    sys.exit(main())
