"""The judge daemon: `swarm judge run`."""

import sys

from swarm.cli.main import run

if __name__ == "__main__":
    raise SystemExit(run(["judge", "run", *sys.argv[1:]]))
