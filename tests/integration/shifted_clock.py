"""Run a module on a machine whose clock is wrong.

python -m tests.integration.shifted_clock SECONDS MODULE
"""

from __future__ import annotations

import runpy
import sys
import time


def main() -> None:
    """Shift time.time, then be the module."""
    seconds, module = float(sys.argv[1]), sys.argv[2]
    right = time.time
    time.time = lambda: right() + seconds
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
