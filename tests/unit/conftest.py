"""Property tests have no deadline per example: a busy machine is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("swarm", deadline=None)
settings.load_profile("swarm")
