"""Mutation testing: which small changes of the code does no test of its room notice?

    pip install --target build/mutants/tools cosmic-ray coverage     both stay out of the environment of the product
    PYTHONPATH=build/mutants/tools python -m tests.mutants algo wire store decisions --count 40 --seed 0
    python -m tests.mutants algo --show                              each survivor, from what is written already

cosmic-ray makes the mutants. A site is a place in the code with one kind of change; sites are drawn by the seed, then
one change of each. Coverage with one context per test says which tests run the mutated line; these run with -x. Where
no test runs the line itself (it runs on import, or in a child), all tests of the room do.
A mutant is caught when a test fails, cannot be collected, or takes four times its time and half a minute. Results are
written to build/mutants/ROOM.jsonl one by one; a later call goes on there. `--again` repeats the mutants that survived,
on the code and tests as they are now.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from swarm.records.pace import wilson_of

ROOT = Path(__file__).parents[1]
NODE = "swarm/node/"
ROOMS = {
    "algo": (["swarm/algo"], ["tests/unit/algo", "tests/unit/policy/test_bounds.py"]),
    "wire": (["swarm/wire"], ["tests/unit/wire", "tests/unit/test_generated.py"]),
    "store": (["swarm/store"], ["tests/unit/store", "tests/conformance", "tests/unit/views/doctor"]),
    "decisions": (
        [
            f"{NODE}worker/worker_machine.py",
            f"{NODE}coordinator/coordinator_machine.py",
            f"{NODE}coordinator/clock_keeper.py",
        ],
        ["tests/unit/node/worker/test_worker_machine.py", "tests/unit/node/coordinator"],
    ),
}
"""Room -> the code that is mutated, and the tests that are held against it."""

LEFT_OUT = re.compile("BitOr_|_Is$|_IsNot$|Is_Eq|IsNot_Eq|IsNot_NotEq|Is_NotEq")
"""Changes of unions of types, and between equality and identity: most change nothing."""
NOT_MADE = "not made"
"""Outcome of a change that cosmic-ray cannot make."""


class Mutant(NamedTuple):
    """One change: `occurrence` of cosmic-ray's operator in the file, on this line."""

    file: str
    line: int
    operator: str
    occurrence: int


# ── as a plugin of pytest, in the child ─────────────────────────────────────────────────────────────────────────────
@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Names the test to coverage, so that each line knows its tests."""
    if "coverage" in sys.modules and (current := sys.modules["coverage"].Coverage.current()):
        current.switch_context(item.nodeid)
    return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out the tests that the file MUTANTS_SPARED names. One whose name holds a value that was mutated stays."""
    if named := os.environ.get("MUTANTS_SPARED"):
        spared = set(json.loads(Path(named).read_text("utf-8")))
        items[:] = [item for item in items if item.nodeid not in spared]


def copy_tree(into: Path) -> None:
    """Copies the files that git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.decode()
    for name in listed.split("\0"):
        if (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, into / name)


# ── what can be mutated ─────────────────────────────────────────────────────────────────────────────────────────────
def mutants(tree: Path, room: str, count: int, seed: int) -> list[Mutant]:
    """Returns `count` mutants of the room, drawn by the seed: the same ones for the same code."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.plugins import get_operator, operator_names

    sites = defaultdict(list)
    for file in sorted(path for code in ROOMS[room][0] for path in files_of(tree / code)):
        nodes = list(ast_nodes(get_ast_from_path(file)))
        for name in operator_names():
            if LEFT_OUT.search(name) or (kind := get_operator(name)).arguments():
                continue
            positions = (at for node in nodes for at in kind().mutation_positions(node))
            for occurrence, (start, _end) in enumerate(positions):
                mutant = Mutant(file.relative_to(tree).as_posix(), start[0], name, occurrence)
                sites[mutant.file, start, re.sub("(Operator_[A-Za-z]+)_.*", r"\1", name)].append(mutant)
    draw = random.Random(f"{room} {seed}")
    return [draw.choice(sites[site]) for site in draw.sample(sorted(sites), min(count, len(sites)))]


def files_of(path: Path) -> Iterator[Path]:
    """Yields the Python files at or below a path."""
    yield from path.rglob("*.py") if path.is_dir() else [path]


# ── which tests run it ──────────────────────────────────────────────────────────────────────────────────────────────
class Covering(NamedTuple):
    """Which tests run which line, and the seconds that each test takes."""

    lines: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]

    @classmethod
    def of(cls, tree: Path, room: str) -> Covering:
        """Runs the room's tests once, and says what they cover."""
        from coverage import CoverageData

        data, report = tree / "mutants.coverage", tree / "mutants.log"
        command = ["-m", "coverage", "run", f"--data-file={data}", f"--include={tree}/swarm/*", *command_of(room)]
        outcome = run(tree, [*command, "--durations=0", "--durations-min=0", "-vv"], 3600, report)
        if outcome != 0:
            raise SystemExit(f"the tests of {room} fail without any mutant ({outcome}): {report.read_text()[-2000:]}")
        covered = CoverageData(str(data))
        covered.read()
        lines: dict[str, dict[int, set[str]]] = {}
        for file in covered.measured_files():
            lines[Path(file).relative_to(tree).as_posix()] = {
                line: set(tests) - {""} for line, tests in covered.contexts_by_lineno(file).items()
            }
        seconds: dict[str, float] = defaultdict(float)
        for spent, test in re.findall(r"^([0-9.]+)s (?:call|setup|teardown) +(.*)$", report.read_text("utf-8"), re.M):
            seconds[test] += float(spent)
        return cls(lines, seconds)

    def tests(self, mutant: Mutant) -> set[str]:
        """Returns the tests of the mutant's line, else all."""
        return self.lines.get(mutant.file, {}).get(mutant.line) or set(self.seconds)


def command_of(room: str, *more: str) -> list[str]:
    """Returns the arguments of Python that run the room's tests."""
    quiet = ["-p", "no:cacheprovider", "-p", "tests.mutants", "-m", "not slow and not engine"]
    return ["-m", "pytest", *quiet, *more, *ROOMS[room][1]]


def run(tree: Path, arguments: list[str], seconds: float, log: Path, **variables: str) -> int | None:
    """Runs Python in the tree; returns its exit status, None after a time-out. No process is left."""
    others = [path for path in sys.path if Path(path).resolve() != ROOT]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), *others]), **variables}
    with log.open("w", encoding="utf-8") as out:
        child = subprocess.Popen(
            [sys.executable, *arguments], cwd=tree, env=environment, stdout=out, stderr=out, start_new_session=True
        )
        try:
            return child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            os.killpg(child.pid, signal.SIGKILL) if child.poll() is None else None
            child.wait()


# ── each mutant ─────────────────────────────────────────────────────────────────────────────────────────────────────
def outcome(tree: Path, room: str, mutant: Mutant, covering: Covering) -> dict[str, Any]:
    """Returns what becomes of a mutant, as a row of the results."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    path = tree / mutant.file
    source = path.read_text("utf-8")
    try:
        mutated = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
    except AttributeError:  # cosmic-ray cannot replace an exception of a module, as in `except msgspec.DecodeError`
        return {**mutant._asdict(), "was": "", "is": "", "outcome": NOT_MADE, "tests": 0, "seconds": 0.0}
    assert mutated is not None
    changed = [line for line in mutated.splitlines() if line not in set(source.splitlines())]
    row = {**mutant._asdict(), "was": source.splitlines()[mutant.line - 1].strip(), "is": "\n".join(changed).strip()}
    tests = covering.tests(mutant)
    usual = sum(covering.seconds.get(test, 0.0) for test in tests)
    (spared := tree / "mutants.json").write_text(json.dumps(sorted({*covering.seconds} - tests)), "utf-8")
    files = sorted({test.partition("::")[0] for test in tests})
    path.write_text(mutated, "utf-8")
    start = time.monotonic()
    try:
        command = command_of(room, "-x")[: -len(ROOMS[room][1])] + files
        status = run(tree, command, 4 * usual + 30, tree / "mutants.log", MUTANTS_SPARED=str(spared)) if tests else 0
    finally:
        path.write_text(source, "utf-8")
    how = {0: "survived", None: "caught by time"}.get(status, "caught")
    return {**row, "outcome": how, "tests": len(tests), "seconds": round(time.monotonic() - start, 1)}


def table(room: str, rows: list[dict[str, Any]]) -> str:
    """Returns the line of a room: mutants, caught, per cent with Wilson's 95 % interval."""
    rows = [row for row in rows if row["outcome"] != NOT_MADE]
    caught = sum(row["outcome"] != "survived" for row in rows)
    share = wilson_of(caught / max(1, len(rows)), max(1, len(rows)))
    interval = f"{share.mean:4.0%} ({share.low:.0%} to {share.high:.0%})"
    return f"{room:10} {len(rows):4} mutants {caught:4} caught {interval}\n"


def main() -> None:
    """Draws the mutants, tries those that have no result yet, and prints a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("rooms", nargs="+", choices=ROOMS)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--again", action="store_true", help="repeat those that survived")
    parser.add_argument("--show", action="store_true", help="print survivors, and run nothing")
    asked = parser.parse_args()
    asked.into.mkdir(parents=True, exist_ok=True)
    for room in asked.rooms:
        results = asked.into / f"{room}.jsonl"
        rows = [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.exists() else []
        if asked.again:
            rows = [row for row in rows if row["outcome"] != "survived"]
        if not asked.show:
            rows = tried(room, asked.count, asked.seed, results, rows)
        for row in rows:
            if row["outcome"] == "survived":
                sys.stdout.write(f"{row['file']}:{row['line']} {row['operator']}\n  - {row['was']}\n  + {row['is']}\n")
        sys.stdout.write(table(room, rows))


def tried(room: str, count: int, seed: int, results: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns all rows, after those that were missing are written too."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve()
        copy_tree(tree)
        done = {Mutant(*(row[name] for name in Mutant._fields)) for row in rows}
        drawn = [mutant for mutant in mutants(tree, room, count, seed) if mutant not in done]
        covering = Covering.of(tree, room) if drawn else Covering({}, {})
        results.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        for mutant in drawn:
            rows.append(outcome(tree, room, mutant, covering))
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    return rows


if __name__ == "__main__":
    main()
