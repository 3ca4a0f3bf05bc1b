"""`python -P -m swarm` is the `swarm` command."""

from swarm.cli.main import main

if __name__ == "__main__":
    main()
