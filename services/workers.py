"""Several workers in one process: `python -P -m services.workers --nodes 8`, which is `swarm node --nodes 8`."""

import sys

from swarm.cli.main import run

if __name__ == "__main__":
    raise SystemExit(run(["node", *sys.argv[1:]]))
