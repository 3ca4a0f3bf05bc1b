"""The entry point of the `swarm` command, which is `python -P -m swarm` as well.

The version alone is said at once: programs ask for it before everything else.
"""

import gc
import sys

from swarm import __version__


def main() -> None:
    """Runs the command line of this process. Raises SystemExit with its exit code."""
    if sys.argv[1:] == ["--version"]:
        print(__version__)  # noqa: T201 - the command's own voice
        raise SystemExit(0)
    gc.disable()  # what is imported stays: looking for garbage among it took an eighth of `swarm status`
    from swarm.cli.main import main as of_all  # here: it takes a tenth of a second

    gc.freeze()
    gc.enable()
    of_all()


if __name__ == "__main__":
    main()
