"""Holds what swarm brings beyond its core; each plugin registers itself in pyproject.toml (docs/plugins.md)."""
