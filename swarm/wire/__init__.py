"""Keys, JSON forms and codec; the interface of signatures, which swarm.signing implements."""
