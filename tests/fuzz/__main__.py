"""Hostile files through a node's readers; prints a table, and ends with 1 if one of them did harm.

    python -m tests.fuzz --files 100000 --seed 0        about ten minutes of one core

The same seed gives the same files.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.campaign import MOST_GROWTH, SLOWEST, Found, run


def main() -> int:
    """Run a campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = run(arguments.files, arguments.seed, Path(folder))
    sys.stdout.write(table(found, time.monotonic() - start))
    return 1 if found.violations else 0


def table(found: Found, seconds: float) -> str:
    """What was found, for people."""
    lines = [f"{found.files.total()} files in {seconds:.0f} s", "", "kind               files    taken   corpus"]
    for kind, count in found.files.items():
        lines.append(f"{kind:15} {count:8} {found.taken[kind]:8} {len(found.corpus[kind]):8}")
    lines += ["", "refused because"]
    lines += [f"{reason:15} {count:8}" for reason, count in found.refused.most_common()]
    lines += ["", f"slowest refusals, processor time (limit {SLOWEST:.0f} references)"]
    lines += [f"{times:12.2f}     {where}" for times, where in found.slowest]
    lines += [
        "",
        f"crashes                {len(found.crashes)}",
        f"commands, sockets, writing by the reader  {found.forbidden}",
        f"slowest log            {found.slowest_log[0] * 1e3:.0f} ms, {found.slowest_log[1]}",
        f"memory                 {found.growth / 2**20:+.1f} MiB after all (limit {MOST_GROWTH >> 20})",
        f"largest reading        {found.largest[0] / 2**20:+.1f} MiB, {found.largest[1]} (limit {MOST_GROWTH >> 20})",
        f"could not be made here {len(found.left_out)}",
        *found.left_out[:5],
        "",
        *(f"VIOLATION {violation}" for violation in found.violations),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
