"""The coordinator daemon: `swarm node --role coordinator`."""

import sys

from swarm.cli.main import run

if __name__ == "__main__":
    raise SystemExit(run(["node", *sys.argv[1:], "--role", "coordinator"]))
