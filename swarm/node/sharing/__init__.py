"""Peers' files on their way into the swarm pool."""
