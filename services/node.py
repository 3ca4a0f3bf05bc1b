"""A node of the role that NODE_ROLE says, a coordinator, worker, generator or evaluator: `swarm node`."""

import sys

from swarm.cli.main import run

if __name__ == "__main__":
    raise SystemExit(run(["node", *sys.argv[1:]]))
